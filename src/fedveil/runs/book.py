"""A run's ledger as everybody reads it: opened, and held to all else that the run wrote down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedveil.accounting.context import Context
from fedveil.config.spec import Spec
from fedveil.core.atomic import disk_errors
from fedveil.core.digests import keyed_digest
from fedveil.core.errors import FedveilError
from fedveil.core.tasks import read_task
from fedveil.core.types import Charge
from fedveil.data.dataset import Dataset
from fedveil.data.schema_file import schema_digest
from fedveil.ledger.anchor import LedgerSummary, user_key
from fedveil.ledger.entries import LedgerRound
from fedveil.ledger.ledger_errors import LedgerUnusable, Pin
from fedveil.ledger.store import Ledger
from fedveil.runs.derived_charges import derivation_problem
from fedveil.runs.files import FORMAT, RunFiles
from fedveil.runs.manifest import context_record, pinned_context

RECORDS_KEY_BYTES = 32


@dataclass(frozen=True)
class Book:
    """What the ledger holds."""

    path: Path
    rounds: list[LedgerRound]
    summary: LedgerSummary

    @property
    def charges(self) -> list[Charge]:
        """Everything that was paid for, also for attempts that were never published."""
        return [charge for entry in self.rounds for charge in entry.charges]

    @property
    def attempts(self) -> list[int]:
        """The rounds that were begun, a repeated one as often as it was."""
        return [entry.round for entry in self.rounds]

    @property
    def begun(self) -> int:
        return 1 + max(self.attempts, default=-1)

    def rounds_of_clients(self, clients: int) -> tuple[int, ...]:
        """In how many rounds each client took part; every attempt counts, also one that was never published."""
        taken = Counter(client for entry in self.rounds for client in entry.cohort)
        return tuple(taken[client] for client in range(clients))

    def check_cohorts(self, worked: Mapping[int, int]) -> None:
        """Refuse a ledger that knows of other numbers of clients than have worked in the rounds."""
        known = {entry.round: len(entry.arrived) for entry in self.rounds}
        wrong = [round for round, clients in worked.items() if known.get(round) != clients]
        if wrong:
            problem = f"round {wrong[0]}: {worked[wrong[0]]} clients have worked, {known.get(wrong[0])} are on record"
            raise LedgerUnusable(self.path, problem)


@contextmanager
def opened_ledger(files: RunFiles) -> Iterator[Ledger]:
    """The run's ledger, with the user's key where there is one. Whoever has it open is alone with the run."""
    with Ledger(files.ledger, key=user_key()) as ledger:
        if not ledger.chained and files.format == FORMAT:
            raise LedgerUnusable(files.ledger, "the ledger is of an older format than the run")
        yield ledger


def pins_of(files: RunFiles, context: Context, dataset: Dataset) -> dict[Pin, str]:
    """What a run is held to from its beginning."""
    _check_task(files, dataset)
    return {**_public_pins(files, context_record(context)), Pin.RECORDS: _records_text(files, dataset)}


def _public_pins(files: RunFiles, context: Any) -> dict[Pin, str]:
    """What everybody can compare, without the records. `context` is what `context_record` wrote, if it is known."""
    pins = {Pin.SPEC: files.read_spec()}
    if context is not None:
        pins[Pin.CONTEXT] = pinned_context(context)
    if files.manifest.is_file():
        with disk_errors(files.manifest):
            pins[Pin.MANIFEST] = files.manifest.read_text(encoding="utf-8", errors="replace")
    return pins


def read_book(files: RunFiles, ledger: Ledger, spec: Spec, context: Context | None) -> Book:
    """All that the ledger holds. An error where it is not what the run's other files, and the spec, say it must be."""
    record = None if context is None else files.read_json(files.manifest).get("terms")
    for pin, text in _public_pins(files, record).items():
        if not ledger.check(pin, text) and ledger.chained:
            raise LedgerUnusable(files.ledger, f"the ledger has no digest of the {pin.name.lower()}")
    ledger.check_covers(files.published_rounds())
    _check_result(files, ledger)
    rounds = ledger.rounds()
    problem = None if context is None else derivation_problem(context, spec.seed, rounds)
    if problem is not None:
        raise LedgerUnusable(files.ledger, f"the ledger is not one of this spec ({problem})")
    return Book(files.ledger, rounds, ledger.summary)


def _check_result(files: RunFiles, ledger: Ledger) -> None:
    """A finished run knows how many rounds it had, and the head that its ledger had then."""
    if not files.result.exists():
        return
    try:
        table = files.read_result()
    except FedveilError:
        return  # it says nothing, then; whoever shows it says so
    if isinstance(table.get("rounds"), int):
        ledger.check_covers(table["rounds"])
    if ledger.chained and isinstance(table.get("ledger_head"), str):
        ledger.check_head(table["ledger_head"])


def check_records(files: RunFiles, dataset: Dataset) -> None:
    """Refuse records other than those that a run began with."""
    if files.ledger.is_file():
        with opened_ledger(files) as ledger:
            ledger.check(Pin.RECORDS, _records_text(files, dataset))
    _check_task(files, dataset)


def check_schema(files: RunFiles, dataset: Dataset) -> None:
    """Refuse a schema other than that which a run began with: its model would go home with the wrong one."""
    digest = None if dataset.schema is None else schema_digest(dataset.schema)
    if files.read_json(files.manifest).get("schema") != digest:
        raise FedveilError(
            f"{files.directory}: began with another schema than these records have ({files.schema.name})"
        )


def _check_task(files: RunFiles, dataset: Dataset) -> None:
    """The same labels may be named otherwise, or scaled by another range; runs of older versions did not keep that."""
    began = read_task(files.read_json(files.manifest).get("task"))
    if began is not None and began != dataset.task:
        raise FedveilError(f"{files.directory}: the run began with another task ({began}), not {dataset.task}")


def _records_text(files: RunFiles, dataset: Dataset) -> str:
    """What stands for the records in the ledger: a keyed hash, which says nothing to whoever has not the key.

    The key lies beside the ledger in a file of its own. Whoever is given the ledger without it can check everything
    but whether some records are those of the run. Older formats had a hash that anybody could compare records with.
    """
    if files.format < FORMAT:
        return dataset.fingerprint
    if not files.records_key.is_file():
        raise FedveilError(
            f"{files.records_key}: is missing, so whether these are the records of the run can't be checked; put it"
            " back, or begin a new run"
        )
    with disk_errors(files.records_key):
        key = files.records_key.read_bytes()
    if len(key) != RECORDS_KEY_BYTES:
        raise FedveilError(f"{files.records_key}: not the key of {RECORDS_KEY_BYTES} bytes that the run began with")
    return keyed_digest(key, dataset.fingerprint)
