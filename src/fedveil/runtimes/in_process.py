"""Sites in this process: for tests, and to measure everything but a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fedveil.runtimes.transport import Answer


class InProcess:
    """Asks one site after another. A site that is not among the `answers` is one that is not there."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)

    def ask(self, questions: dict[str, bytes], deadline: float) -> Iterator[tuple[str, bytes]]:
        for name, question in questions.items():
            if name in self.answers:
                yield name, self.answers[name](question)
