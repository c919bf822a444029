"""Why a ledger can't be used. Every `problem` is said without the path, for pages that are passed on."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from fedveil.core.errors import FedveilError


class LedgerUnusable(FedveilError):
    """The ledger can't be trusted, so the run can't go on, and nothing is said of what it spent."""

    def __init__(self, path: Path, problem: str, so: str = "the run can't go on") -> None:
        super().__init__(f"{path}: {problem}; {so}")
        self.problem = problem


class LedgerBusy(FedveilError):
    """Another process holds the ledger: the run is going on."""


class Pin(StrEnum):
    """What must stay as it was when the run began. The value is the key under which its digest is kept."""

    SPEC = "spec"
    CONTEXT = "terms"
    MANIFEST = "manifest"
    RECORDS = "records"


_CHANGED = {
    Pin.SPEC: "the spec was changed after the run began; put spec.toml back as it was",
    Pin.CONTEXT: "who holds how many records was changed after the run began; put run.json and the data back",
    Pin.MANIFEST: "run.json was changed after the run began; put it back as it was",
    Pin.RECORDS: "the records are not those that the run began with; give it the same data set",
}


class LedgerChanged(FedveilError):
    """Something has changed since the run began."""

    def __init__(self, path: Path, pin: Pin) -> None:
        super().__init__(f"{path}: {_CHANGED[pin]}")
        self.problem = _CHANGED[pin]
