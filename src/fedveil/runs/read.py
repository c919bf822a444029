"""Reading a run directory, however the run ended: each file is read by itself, and what can't be read is listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedveil.accounting.context import Context
from fedveil.accounting.plan import replay
from fedveil.accounting.table import Table
from fedveil.config.spec import Spec, resolve
from fedveil.core.errors import FedveilError
from fedveil.ledger.ledger_errors import LedgerBusy, LedgerChanged, LedgerUnusable
from fedveil.report.model.run_facts import RunState, Status
from fedveil.runs.book import Book, opened_ledger, read_book
from fedveil.runs.files import RunFiles
from fedveil.runs.manifest import NO_CONTEXT, read_context, read_objective
from fedveil.runs.result import has_diverged

UNKNOWN = (
    "what was spent, and by whom, is not known, and what was promised is shown as spec and run.json say it, unchecked"
)
"""Without its ledger nobody can check that spec and run.json are those that the run began with."""


@dataclass
class Reading:
    """A run as far as it can be read. `problems` says in one line each what could not be."""

    files: RunFiles
    spec: Spec
    spec_text: str
    manifest: Mapping[str, Any] = field(default_factory=dict)
    context: Context | None = None
    book: Book | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    result: Mapping[str, Any] | None = None
    running: bool = False
    changed: bool = False  # spec or context are not those that the run began with
    problems: list[str] = field(default_factory=list)

    @property
    def published(self) -> int:
        """Rounds whose model is out: those of the result, else of the checkpoint, else (it is lost) of the events."""
        if self.result is not None and isinstance(self.result.get("rounds"), int):
            return int(self.result["rounds"])
        saved = _checkpointed(self.files)
        return 1 + max((event["round"] for event in self.events), default=-1) if saved is None else saved

    @property
    def diverged(self) -> bool:
        """Whether the last loss that is known is beyond all bounds."""
        losses = [event["loss"] for event in self.events if isinstance(event.get("loss"), int | float)]
        return bool(losses) and has_diverged(losses[-1], read_objective(self.manifest.get("objective")))

    @property
    def accountable(self) -> Context | None:
        """The context that the run began with; a promise computed from a changed spec was never made."""
        return None if self.changed else self.context

    def spent(self) -> Table | None:
        """From the ledger; None before the first round, or where ledger or context can't be read."""
        book, context = self.book, self.accountable
        if book is None or context is None or not book.begun:
            return None
        return replay(context, book.charges, book.begun, attempts=book.attempts)

    @property
    def status(self) -> Status:
        ended = self.files.result.exists()  # written last, readable or not
        state: RunState = "finished" if ended else "running" if self.running else "unfinished"
        begun = None if self.book is None else self.book.begun
        repeated = 0 if self.book is None else len(self.book.rounds) - len(set(self.book.attempts))
        return Status(state, self.published, self.spec.method.rounds, begun, repeated)


def read_run(directory: Path) -> Reading:
    """Read a run; an error only where its spec can't be read, because then nothing can be said about it."""
    files = RunFiles(directory)
    if not files.spec.is_file():
        raise FedveilError(f"{directory}: not a run directory (spec.toml is missing)")
    spec = resolve(files.spec)
    reading = Reading(files, spec, files.read_spec())
    if files.manifest.is_file():
        files.check()  # another format is not guessed at
        reading.manifest = files.read_json(files.manifest)
    else:
        reading.problems.append("run.json is missing: versions and the beginning of the run are not known")
    _read_result(reading)
    _read_events(reading)
    _read_context(reading)
    _read_ledger(reading)
    return reading


def _read_result(reading: Reading) -> None:
    if not reading.files.result.exists():
        return
    try:
        reading.result = reading.files.read_result()
    except FedveilError as error:
        reading.problems.append(reading.files.shortened(error))


def _read_events(reading: Reading) -> None:
    files = reading.files
    if not files.events.is_file():
        if _checkpointed(files):
            reading.problems.append("events.jsonl is missing: how the training went is not known")
        return
    try:
        lines = len([line for line in files.events.read_bytes().split(b"\n") if line.strip()])
        events = files.read_events()
    except (FedveilError, OSError) as error:
        reading.problems.append(reading.files.shortened(error))
        return
    rounds = {event["round"]: event for event in events if event["event"] == "round"}
    saved = _checkpointed(files)
    # A round is noted just before its model is saved; after a crash between the two, the round never happened.
    reading.events = [rounds[number] for number in sorted(rounds) if saved is None or number < saved]
    if lines > len(events):
        reading.problems.append(f"events.jsonl: {lines - len(events)} of {lines} lines can't be read and were left out")


def _read_context(reading: Reading) -> None:
    """From what the run wrote down alone: reading a stranger's run must not load records or run the code it names."""
    reading.context = read_context(reading.spec, reading.manifest.get("terms"))
    if reading.context is None:
        reading.problems.append(f"run.json: {NO_CONTEXT}")


def _read_ledger(reading: Reading) -> None:
    files = reading.files
    if not files.ledger.is_file():
        if reading.published or files.checkpoints.is_dir():
            reading.problems.append(f"ledger.sqlite is missing: {UNKNOWN}")
        return
    try:
        with opened_ledger(files) as ledger:
            ledger.check_covers(reading.published)
            reading.book = read_book(files, ledger, reading.spec, reading.context)
    except LedgerBusy:
        reading.running = True
        reading.problems.append(f"the ledger is in use: {UNKNOWN}")
    except (LedgerChanged, LedgerUnusable) as error:
        reading.changed = isinstance(error, LedgerChanged)
        reading.problems.append(f"{files.ledger.name}: {error.problem}")


def _checkpointed(files: RunFiles) -> int | None:
    """The rounds of the last checkpoint; None where there is none, or its name can't be read."""
    try:
        return files.published_rounds() if any(files.checkpoints.glob("round-*.safetensors")) else None
    except (OSError, ValueError):
        return None
