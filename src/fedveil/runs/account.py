"""What a spec promises, what a run has spent, and which settings keep a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedveil.accounting.budget import Budget
from fedveil.accounting.calibrate import Calibration, calibrate
from fedveil.accounting.claims import Claim, claims
from fedveil.accounting.guarantees import Guarantee, plain_number
from fedveil.accounting.plan import plan, replay
from fedveil.accounting.table import NO_COPIES, Table, exceeded
from fedveil.config.spec import Spec, resolve
from fedveil.core.errors import FedveilError
from fedveil.core.types import Receipt, Unit, View
from fedveil.core.words import ONE_COPY, SCALED, rounded_up
from fedveil.data.dataset import SCALED_TOGETHER, Dataset
from fedveil.ledger.store import Ledger
from fedveil.report.terminal.guarantee_lines import draw_curves
from fedveil.runs.budgeted_admission import excludes
from fedveil.runs.describe import clients_words
from fedveil.runs.files import RunFiles, disk_errors, run_of
from fedveil.runs.prepare import prepare
from fedveil.runs.terms import Terms, from_record, pinned


@dataclass(frozen=True)
class Account:
    """The promise of a spec and, for a run, what it has spent; the papers' claims beside them."""

    name: str
    terms: Terms
    promised: Table
    spent: Table | None
    claims: tuple[Claim, ...]

    @property
    def title(self) -> str:
        """What is accounted for."""
        spec = self.terms.spec
        whose = clients_words(spec, self.terms)
        return f"{spec.base} on {spec.data.name}, {spec.method.rounds:,} rounds: {whose}"

    def to_dict(self) -> dict[str, Any]:
        """`guarantees` is what was spent where something ran, else what is promised."""
        found: dict[str, Any] = {"guarantees": cells(self.spent or self.promised)}
        if self.spent is not None:
            found["promised"] = cells(self.promised)
            own = self.spent.per_client(Unit.RECORD, View.SERVER)
            found["per_client"] = {
                "unit": "record",
                "view": "server",
                "epsilon": [plain_number(value) for value in own],
            }
        return {**found, "claimed": [claim.to_dict() for claim in self.claims]}


def account(
    source: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    delta: float | None = None,
    secondary: bool = False,
    dataset: Dataset | None = None,
) -> Account:
    """The guarantee table of a method, a spec or a run directory; of a spec also on records of your own."""
    run = run_of(source, overrides)
    if run is not None:
        return _account_run(run, delta, secondary)
    told = dict(overrides or {}) | ({} if dataset is None else {"data.name": dataset.name})
    prepared = prepare(resolve(source, told), dataset)
    delta = prepared.spec.privacy.delta if delta is None else delta
    promise = promised(prepared, delta=delta, secondary=secondary)
    return Account(prepared.spec.base, prepared, promise, None, claimed(prepared, delta))


def _account_run(files: RunFiles, delta: float | None, secondary: bool) -> Account:
    files.check()
    if not files.ledger.is_file():
        raise FedveilError(f"{files.ledger}: the ledger is missing, so what was spent is not known")
    with Ledger(files.ledger) as ledger:
        ledger.check(files.read_spec())
        terms = _terms_of(files, ledger)
        ledger.check_covers(files.published_rounds())
        receipts, rounds = ledger.receipts(), ledger.rounds()
    delta = terms.spec.privacy.delta if delta is None else delta
    done = 1 + max((round for round, _, _ in rounds), default=-1)
    promise = promised(terms, delta=delta, secondary=secondary)
    total = spent(terms, receipts, done, delta, [round for round, _, _ in rounds], secondary)
    return Account(files.directory.name, terms, promise, total, claimed(terms, delta))


def _terms_of(files: RunFiles, ledger: Ledger) -> Terms:
    """What the run wrote down when it began, if the ledger holds it to that; else from the data set itself."""
    spec = resolve(files.spec)
    recorded = from_record(spec, files.read_json(files.about).get("terms"))
    if recorded is not None and ledger.check(pinned(recorded), "terms"):
        return recorded
    prepared = prepare(spec)
    ledger.check(pinned(prepared), "terms")
    return prepared


def cells(table: Table) -> list[dict[str, Any]]:
    """The table cell by cell, as `--json` prints it."""
    return [guarantee.to_dict() for guarantee in table.guarantees]


def promised(terms: Terms, *, delta: float, rounds: int | None = None, secondary: bool = False) -> Table:
    """The unit × view table of the spec, worst case over clients."""
    return _stating(terms, lambda copies: _planned(terms, delta, rounds, copies, secondary))


def promised_course(terms: Terms, marks: Sequence[int], cell: tuple[Unit, View]) -> list[float]:
    """ε of one cell as it is promised for so many rounds, for each of the `marks`."""
    return [_planned(terms, terms.spec.privacy.delta, rounds).of(*cell).epsilon for rounds in marks]


def _planned(terms: Terms, delta: float, rounds: int | None, copies: int = 1, secondary: bool = False) -> Table:
    return plan(
        terms.spec.method,
        terms.population,
        terms.layers,
        delta=delta,
        rounds=rounds,
        copies=copies,
        seeded=terms.seeded,
        secondary=secondary,
        excluding=excludes(terms),
        strict=terms.spec.privacy.strict,
    )


def spent(
    terms: Terms,
    receipts: Sequence[Receipt],
    rounds: int,
    delta: float,
    attempts: Sequence[int] | None = None,
    secondary: bool = False,
) -> Table:
    """The table of what really ran; `attempts` are all rounds that were begun, repeated ones as often as they were."""
    return _stating(terms, lambda copies: _replayed(terms, receipts, rounds, delta, attempts, copies, secondary))


def spent_course(
    terms: Terms, receipts: Sequence[Receipt], attempts: Sequence[int], marks: Sequence[int], cell: tuple[Unit, View]
) -> list[float]:
    """ε of one cell as it was spent after so many rounds, for each of the `marks`."""
    found = []
    for rounds in marks:
        so_far = [receipt for receipt in receipts if receipt.round < rounds]
        begun = [round for round in attempts if round < rounds]
        found.append(_replayed(terms, so_far, rounds, terms.spec.privacy.delta, begun).of(*cell).epsilon)
    return found


def _replayed(
    terms: Terms,
    receipts: Sequence[Receipt],
    rounds: int,
    delta: float,
    attempts: Sequence[int] | None,
    copies: int = 1,
    secondary: bool = False,
) -> Table:
    return replay(
        receipts,
        terms.population,
        terms.spec.method,
        terms.layers,
        delta=delta,
        rounds=rounds,
        attempts=attempts,
        copies=copies,
        seeded=terms.seeded,
        secondary=secondary,
        excluding=excludes(terms),
        strict=terms.spec.privacy.strict,
    )


def _stating(terms: Terms, table: Callable[[int], Table]) -> Table:
    """The table for one copy of a record, with what must be said of this data set's records in every cell.

    A record is one example of one client. Where several clients hold copies, every cell says what all cost, under the
    cell's own relation.
    """
    one, copies = table(1), terms.copies
    if terms.spec.data.name in SCALED_TOGETHER:
        one = replace(one, setting=replace(one.setting, caveats=(*one.setting.caveats, SCALED)))
    if copies == 1:
        return one
    every = table(copies)

    def word(cell: Guarantee) -> Guarantee:
        words = f"records are copied: up to {copies} clients hold the same one"
        if cell.unit is Unit.RECORD and cell.finite:
            together = every.under(cell.relation, cell.unit, cell.view).epsilon
            words = f"{ONE_COPY}; {words}, and for all copies together ε = {rounded_up(together)}"
        return replace(cell, caveats=tuple(words if caveat == NO_COPIES else caveat for caveat in cell.caveats))

    return replace(one, word=word)


def claimed(terms: Terms, delta: float) -> tuple[Claim, ...]:
    """What the paper behind the method would say."""
    return claims(terms.spec.method, terms.population, terms.layers, delta=delta)


def check_promise(promise: Table, published: Table) -> None:
    """A run that spent more than it promised must not end as if nothing had happened."""
    broken = exceeded(promise, published)
    if broken:
        raise FedveilError(f"more was spent than promised: {'; '.join(broken)}")


def draw_curve(found: Account, path: Path) -> None:
    """ε over rounds for every cell, as promised."""
    terms, delta, total = found.terms, found.promised.delta, found.terms.spec.method.rounds
    marks = sorted({max(1, round(total * share / 20)) for share in range(1, 21)})
    tables = [promised(terms, delta=delta, rounds=rounds) for rounds in marks]
    curves = {f"{unit} × {view}": [table.of(unit, view).epsilon for table in tables] for unit in Unit for view in View}
    with disk_errors(path):
        draw_curves(path, marks, curves, f"{found.name}: ε at δ = {delta:g}, worst case over clients")


def calibrate_spec(
    source: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None,
    epsilon: float,
    delta: float | None,
    unit: str,
    view: str,
    solve: str,
) -> tuple[Calibration, Spec]:
    """The setting that keeps a target, and the spec with it."""
    prepared = prepare(resolve(source, overrides))
    spec = prepared.spec
    target = Budget(epsilon, spec.privacy.delta if delta is None else delta, Unit(unit), View(view))
    privacy = replace(spec.privacy, delta=target.delta, unit=target.unit, view=target.view)
    if privacy.epsilon is not None:  # a budget of the preset's own must not stop a run that keeps the one asked for
        privacy = replace(privacy, epsilon=target.epsilon)
    excluding = excludes(replace(prepared, spec=replace(spec, privacy=privacy)))
    found = calibrate(spec.method, prepared.population, prepared.layers, target, solve=solve, excluding=excluding)
    answer = replace(spec, method=found.method, privacy=privacy)
    stated = promised(prepared.with_spec(answer), delta=target.delta).of(target.unit, target.view)
    return replace(found, guarantee=stated), answer
