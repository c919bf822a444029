"""The answers that a site gave, as bytes, so that the same question gets the same answer."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

from fedveil.core.atomic import disk_errors, write_whole
from fedveil.ledger.lifetime import PaidQuestion


class Outbox:
    """One file for each charge that was answered, named by the question and the number of the charge."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, paid: PaidQuestion, answer: bytes) -> None:
        """Write an answer whole and sync it to the disk."""
        write_whole(self._file(paid), answer, private=True)

    def get(self, paid: PaidQuestion) -> bytes | None:
        """The answer of a charge; None where there is none, or not the one that the ledger has a digest of."""
        path = self._file(paid)
        if not path.is_file():
            return None
        with disk_errors(path):
            answer = path.read_bytes()
        return answer if paid.answer in (None, answer_digest(answer)) else None

    def strangers(self, known: Collection[PaidQuestion]) -> list[str]:
        """Answers to questions that the ledger has never heard of: it lacks what it held when they were given."""
        names = {self._file(paid).name for paid in known}
        return sorted(path.name for path in self._folder.glob("*.answer") if path.name not in names)

    def clear_parts(self) -> None:
        """Remove what killed processes left half-written; only for whoever holds the ledger, and so is alone here."""
        with disk_errors(self._folder):
            for part in self._folder.glob(".*.part"):
                part.unlink(missing_ok=True)

    def remove(self, paid: PaidQuestion) -> None:
        with disk_errors(self._folder):
            self._file(paid).unlink(missing_ok=True)

    def _file(self, paid: PaidQuestion) -> Path:
        return self._folder / f"{paid.number:08d}-{paid.question[:32]}.answer"


def answer_digest(answer: bytes) -> str:
    """By which the ledger knows an answer."""
    return hashlib.sha256(answer).hexdigest()
