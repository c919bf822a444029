"""A follower that remembers what it was told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedveil.report.terminal.run_progress import SilentReporter


class Follower(SilentReporter):
    """`on_round` is called after every round: a test can interrupt there."""

    def __init__(self, on_round: Callable[[str, int], None] = lambda name, done: None) -> None:
        self.trained: list[str] = []
        self.words: list[str] = []
        self.notes: list[str] = []
        self.finished_before = 0
        self._on_round = on_round

    def plan(self, runs: int, finished: int, rounds: int) -> None:
        self.finished_before = finished

    def next_run(self, name: str, rounds: int) -> None:
        self.trained.append(name)

    def end_run(self, words: str) -> None:
        self.words.append(words)

    def interrupted(self, directory: Path) -> None:
        self.words.append(f"interrupted in {directory}")

    def note(self, text: str) -> None:
        self.notes.append(text)

    def round(self, done: int, rounds: int, measured: str) -> None:
        self._on_round(self.trained[-1], done)


def interrupt_at(name: str, round: int) -> Follower:
    def on_round(running: str, done: int) -> None:
        if (running, done) == (name, round):
            raise KeyboardInterrupt

    return Follower(on_round)
