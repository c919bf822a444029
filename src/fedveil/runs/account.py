"""What a spec promises, what a run has spent, and which settings keep a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from fedveil.accounting.calibrate import Calibration, calibrate
from fedveil.accounting.claims import claims
from fedveil.accounting.context import Budget, Context, RiskTarget
from fedveil.accounting.plan import plan, replay
from fedveil.accounting.site_table import site_guarantees
from fedveil.accounting.table import Table
from fedveil.config.spec import Source, Spec, resolve
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.guarantee import Claim, plain_number
from fedveil.core.site_guarantees import SiteGuarantees
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset
from fedveil.ledger.anchor import LedgerSummary
from fedveil.ledger.ledger_errors import Pin
from fedveil.ledger.store import Ledger
from fedveil.report.model.guarantee_headline import headline
from fedveil.report.terminal.wrapped_lines import wrapped
from fedveil.runs.argument_checks import check_arguments
from fedveil.runs.book import opened_ledger, read_book
from fedveil.runs.describe import clients_words
from fedveil.runs.files import RunFiles, run_of
from fedveil.runs.manifest import NO_CONTEXT, pinned_context, read_context
from fedveil.runs.outlook import Change, outlook_for

OWN_UNIT, OWN_VIEW = Unit.RECORD, View.SERVER
"""The cell for which an account lists what each client has spent."""


@dataclass(frozen=True, repr=False)
class Account:
    """The promise of a spec and, for a run, what it has spent; the papers' claims beside them."""

    name: str
    spec: Spec
    context: Context
    promised: Table
    spent: Table | None
    claims: tuple[Claim, ...]
    changes: tuple[Change, ...] = ()  # what is not as the spec was given
    ledger: LedgerSummary | None = None  # from which it is known what was spent
    rounds: tuple[int, ...] | None = None  # in how many of them each client took part

    @property
    def title(self) -> str:
        """What is accounted for."""
        whose = clients_words(self.spec, self.context)
        return f"{self.spec.base} on {self.spec.data.name}, {self.spec.method.rounds:,} rounds: {whose}"

    @property
    def per_client(self) -> tuple[float, ...] | None:
        """Each client's own ε of one record against the server, where something was spent."""
        return None if self.spent is None else self.spent.per_client(OWN_UNIT, OWN_VIEW)

    @cached_property
    def sites(self) -> SiteGuarantees | None:
        """Each named site's own ε; None where clients have no names."""
        return site_guarantees(self.promised, self.spent, self.rounds)

    def __str__(self) -> str:
        current = self.spent or self.promised
        return "\n".join([*wrapped(self.title), *wrapped(headline(current.guarantees)), *map(repr, current.guarantees)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks: the same, with the table and its notes."""
        from fedveil.runs.notebook_view import account_html

        return account_html(self)

    def to_dict(self) -> dict[str, Any]:
        """`guarantees` is what was spent where something ran, else what is promised."""
        current = self.spent or self.promised
        table: dict[str, Any] = {"guarantees": cells(current)}
        if current.all_beside:
            table["beside"] = [guarantee.to_dict() for guarantee in current.all_beside]
        if self.spent is not None:
            table["promised"] = cells(self.promised)
            own = [plain_number(value) for value in self.per_client or ()]
            table["ledger"] = None if self.ledger is None else asdict(self.ledger)
            table["per_client"] = {"unit": str(OWN_UNIT), "view": str(OWN_VIEW), "epsilon": own}
        if self.sites is not None:
            table["sites"] = self.sites.to_dict()
        return {**table, "claimed": [claim.to_dict() for claim in self.claims]}


def cells(table: Table) -> list[dict[str, Any]]:
    """A table cell by cell, ready for JSON."""
    return [guarantee.to_dict() for guarantee in table.guarantees]


def account(
    source: Source,
    overrides: Mapping[str, Any] | None = None,
    *,
    delta: float | None = None,
    secondary: bool = False,
    dataset: Dataset | None = None,
    head: str | None = None,
) -> Account:
    """The guarantee table of a method, a spec or a run directory; of a spec also on records of your own.

    `head` is a head that the run's ledger had, written down elsewhere: a ledger that never had it is refused.
    """
    check_arguments(overrides=overrides, dataset=dataset)
    run = run_of(source, overrides)
    if run is not None:
        return _account_run(run, delta, secondary, head)
    if head is not None:
        raise ArgumentError("head", "is that of a run's ledger, and this is not a run")
    outlook = outlook_for(source, overrides, dataset)
    context = _at(outlook.context, delta)
    promise = plan(context, secondary=secondary)
    return Account(outlook.spec.base, outlook.spec, context, promise, None, claims(context), outlook.changes)


def _at(context: Context, delta: float | None) -> Context:
    return context if delta is None else replace(context, delta=delta)


def _account_run(files: RunFiles, delta: float | None, secondary: bool, head: str | None) -> Account:
    files.check()
    if not files.ledger.is_file():
        raise FedveilError(f"{files.ledger}: the ledger is missing, so what was spent is not known")
    spec = resolve(files.spec)
    with opened_ledger(files) as ledger:
        if head is not None:
            ledger.check_head(head)
        ledger.check(Pin.SPEC, files.read_spec())
        pinned = _context_of(files, spec, ledger)
        book = read_book(files, ledger, spec, pinned)
    context = _at(pinned, delta)
    promise = plan(context, secondary=secondary)
    spent = replay(context, book.charges, book.begun, attempts=book.attempts, secondary=secondary)
    rounds = book.rounds_of_clients(context.population.clients)
    found = claims(context)
    return Account(files.directory.name, spec, context, promise, spent, found, ledger=book.summary, rounds=rounds)


def _context_of(files: RunFiles, spec: Spec, ledger: Ledger) -> Context:
    """The context in run.json, which the ledger must have a digest of. Nothing that the spec names is loaded."""
    record = files.read_json(files.manifest).get("terms")
    recorded = read_context(spec, record)
    if recorded is None:
        raise FedveilError(f"{files.manifest}: {NO_CONTEXT}")
    if not ledger.check(Pin.CONTEXT, pinned_context(record)):
        raise FedveilError(f"{files.ledger}: has no digest of the context in run.json, so nothing holds the run to it")
    return recorded


def calibrate_spec(
    source: Source, overrides: Mapping[str, Any] | None, target: Budget | RiskTarget, solve: str
) -> tuple[Calibration, Spec]:
    """The setting that keeps a target, and the spec with it."""
    outlook = outlook_for(source, overrides)
    spec = outlook.spec
    privacy = replace(spec.privacy, delta=target.delta, unit=target.unit, view=target.view)
    if privacy.epsilon is not None:  # a budget of the preset's own must not stop a run that keeps the one asked for
        kept = {"epsilon": target.epsilon} if isinstance(target, Budget) else {"epsilon": None, "calibrate": False}
        privacy = replace(privacy, **kept)
    context = outlook.with_spec(replace(spec, privacy=privacy)).context
    solved = calibrate(context, target, solve=solve)
    return solved, replace(spec, method=solved.method, privacy=privacy)
