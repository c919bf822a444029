"""Checks that declarations make of their own fields, with messages a user can act on."""

from __future__ import annotations

import math

from fedveil.core.errors import FedveilError


class FieldError(FedveilError):
    """A field has a value that is not allowed. Code that knows the path of the field puts it before the message."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}")
        self.field, self.problem = field, problem

    def __reduce__(self) -> tuple[type[FieldError], tuple[str, str]]:
        return FieldError, (self.field, self.problem)  # it may be raised in another process


SMALLEST, LARGEST = 1e-30, 1e30
"""The positive numbers with which single-precision arithmetic is safe."""

LONGEST_NAME = 100


def positive(name: str, value: float) -> None:
    if not SMALLEST <= value <= LARGEST:
        raise FieldError(name, f"must be a positive number (between {SMALLEST:g} and {LARGEST:g}), not {value}")


def count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise FieldError(name, f"must be a positive whole number, not {value}")


def not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise FieldError(name, f"must not be negative, infinite or NaN: {value}")


def within(name: str, value: float, low: float, high: float) -> None:
    """low ≤ value < high"""
    if not low <= value < high:
        raise FieldError(name, f"must be at least {low:g} and below {high:g}, not {value}")


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise FieldError(name, f"must be {' or '.join(map(repr, choices))}, not {value!r}")


def plain_name(name: str, value: str) -> None:
    """A name that can stand in a file's name and on a screen: printable, of one part, not hidden, not too long."""
    if not isinstance(value, str):
        raise FieldError(name, f"must be a text, not {value!r}")
    plain = value.isprintable() and not value.startswith(".") and not {"/", "\\"} & set(value)
    if not plain or not 0 < len(value) <= LONGEST_NAME:
        raise FieldError(
            name, f"must be a plain name of at most {LONGEST_NAME} printable characters without slashes, not {value!r}"
        )


def check_delta(delta: float) -> None:
    """0 < δ < 1; written so that NaN fails."""
    if not 0 < delta < 1:
        raise FedveilError(f"delta: must lie strictly between 0 and 1, not {delta}")


def check_epsilon(epsilon: float) -> None:
    """0 ≤ ε < ∞; written so that NaN fails."""
    if not 0 <= epsilon < math.inf:
        raise FedveilError(f"epsilon: must be a number that is not negative, not {epsilon}")
