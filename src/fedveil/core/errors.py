"""The exceptions a user is meant to read."""

from __future__ import annotations


class FedveilError(Exception):
    """Something the user can correct: one line that says what is wrong and where.

    The command line prints it without a traceback and exits with code 2.
    """


class ArgumentError(FedveilError):
    """An argument of a Python function has a value that is not allowed. The command line names the option instead."""

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"{argument}: {problem}")
        self.argument, self.problem = argument, problem

    def __reduce__(self) -> tuple[type[ArgumentError], tuple[str, str]]:
        return ArgumentError, (self.argument, self.problem)  # it may be raised in another process


class Diverged(FedveilError):
    """The model has values that are not finite, so training can't go on."""
