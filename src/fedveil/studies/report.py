"""A report on runs, finished or not: gather the facts, leave out what the page may not show, write one file."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedveil.accounting.guarantees import Guarantee
from fedveil.accounting.table import Table, like
from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit, View
from fedveil.data.known_sets import SETS
from fedveil.report.model.run_facts import Clients, Options, Run
from fedveil.report.page.page import page
from fedveil.report.page.scale import Point, chosen
from fedveil.report.page.sentences import delta_word
from fedveil.runs.account import claimed, promised, promised_course, spent, spent_course
from fedveil.runs.budgeted_admission import Budgeted, budget_of, past_of
from fedveil.runs.describe import clients_words, clip_words, training_words
from fedveil.runs.evidence import read_attacks, read_audits
from fedveil.runs.files import write_whole
from fedveil.runs.read import Reading, read_run
from fedveil.runs.terms import Terms
from fedveil.studies.histories import expanded, names_of
from fedveil.zoo import ZOO

MOST_RUNS = 50
"""More than this nobody reads on one page."""

MARKS = 16
"""Rounds at which ε is computed for the chart."""

PUBLIC_EVENTS = ("event", "round", "accuracy", "loss")
"""What of an event follows from the published model and validation records alone."""


@dataclass(frozen=True)
class Report:
    """Where the page is, and what it speaks of."""

    path: Path
    runs: tuple[Run, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "report": str(self.path),
            "runs": [
                {
                    "name": run.name,
                    "state": run.status.state,
                    "rounds": run.status.published,
                    "planned": run.status.planned,
                    "attacks": len(run.attacks),
                    "audits": len(run.audits),
                    "problems": list(run.problems),
                }
                for run in self.runs
            ],
        }


def report(
    directories: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    pictures: bool = True,
    release: bool = False,
) -> Report:
    """One self-contained page about runs; the directory of a comparison or a sweep stands for all its runs.

    `release` leaves out whatever is computed from clients' records outside the guarantee, or tells who took part.
    """
    path = Path(out)
    if path.is_dir() or not path.parent.is_dir():
        raise FedveilError(f"--out: {path} can't be written ({'is' if path.is_dir() else 'is not in'} a directory)")
    paths = expanded(directories)
    if len(paths) > MOST_RUNS:
        raise FedveilError(f"{len(paths)} runs are too many for one page; name at most {MOST_RUNS}")
    runs = tuple(
        facts(read_run(directory), name, release=release)
        for directory, name in zip(paths, names_of(paths), strict=True)
    )
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = page(runs, Options(pictures=pictures, release=release), made=made, version=version("fedveil"))
    write_whole(path, text.encode())
    return Report(path, runs)


def facts(found: Reading, name: str, *, release: bool = False) -> Run:
    """Everything that the page says about one run."""
    spec, entry = found.spec, ZOO[found.spec.base]
    terms = None if found.changed else found.terms  # a promise computed from a changed spec was never made
    if release and (terms is None or found.book is None):  # nothing else holds a run to its spec
        why = "; ".join(found.problems) or "what was promised is not known"
        raise FedveilError(f"--for-release: {name}: what is guaranteed can't be checked ({why})")
    delta, problems = spec.privacy.delta, list(found.problems)
    promise = None if terms is None else promised(terms, delta=delta)
    table = _spent(found, terms)
    attacks, failed = read_attacks(found.files)
    audits, failed_audits = read_audits(found.files)
    if release and failed_audits:
        raise FedveilError(f"--for-release: {name}: an audit may have broken the promise ({failed_audits[0]})")
    if release and any(audit.get("holds") is False for audit in audits):
        raise FedveilError(f"--for-release: {name}: an audit broke the promise, so there is nothing to release it with")
    if release and any(audit.get("holds") is not True for audit in audits):
        raise FedveilError(f"--for-release: {name}: an audit may have broken the promise (it says no verdict)")
    budget = spec.privacy
    run = Run(
        name=name,
        method=spec.base,
        paper=entry.paper,
        data=spec.data.name,
        data_words=str(found.about.get("data", "")),
        clients_words=clients_words(spec, terms),
        model=spec.model.name,
        parameters=_whole(found.about.get("parameters")),
        validation=_whole(found.about.get("validation")),
        training_words=tuple(training_words(spec)),
        status=found.status,
        delta=delta,
        seeded=spec.seed is not None,
        promised=None if promise is None else _cells(promise),
        spent=_stored_cells(found) if table is None else _cells(table),
        claims=() if terms is None else tuple(claim.to_dict() for claim in claimed(terms, delta)),
        rounds=tuple(found.events),
        course=_course(found, terms, table, promise, release),
        course_spent=table is not None and not release,
        budget=None if budget.epsilon is None else (budget.epsilon, f"{budget.unit} × {budget.view}"),
        clients=None if release else _clients(found, terms, table),
        clips=tuple(clip_words(spec)),
        attacks=tuple(attacks),
        audits=tuple(audits),
        problems=tuple(problems) if release else (*problems, *failed, *failed_audits),
        spec=found.spec_text,
        command="fedveil run spec.toml --out again"
        if spec.data.name in SETS
        else "fedveil.run('spec.toml', out='again', dataset=…)",
        about=_about(found),
    )
    return _for_release(run, found, promise, table) if release else run


def _for_release(run: Run, found: Reading, promise: Table | None, table: Table | None) -> Run:
    """What was declared, what is guaranteed, and what follows from the published models.

    A cell that was promised is stated as promised: what was spent tells how often clients were drawn. Only where
    repeated rounds cost more than the promise is the larger number stated. Audits against a view of clients' work use
    planted records alone; one against the released models trains on the real ones.
    """
    cells = run.promised
    if promise is not None and table is not None:
        both = [(cell, like(cell, table)) for cell in promise.guarantees]
        cells = tuple((mine if mine.epsilon > cell.epsilon else cell).to_dict() for cell, mine in both)
    spec = run.spec
    if run.seeded:
        spec = replace(found.spec, seed=None).to_toml()
    return replace(
        run,
        name=re.sub(r"-seed\d+", "", Path(run.name).name) if run.seeded else Path(run.name).name,
        promised=cells,
        spent=None,
        status=replace(run.status, begun=None, repeated=0),
        rounds=tuple({key: event[key] for key in PUBLIC_EVENTS if key in event} for event in run.rounds),
        attacks=(),
        audits=tuple(audit for audit in run.audits if audit.get("view") in ("on_device", "client", "server")),
        spec=spec,
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _cells(table: Table) -> tuple[dict[str, Any], ...]:
    return tuple(guarantee.to_dict() for guarantee in table.guarantees)


def _spent(found: Reading, terms: Terms | None) -> Table | None:
    """From the ledger; None before the first round, or where the ledger can't be read."""
    book = found.book
    if book is None or terms is None or not book.begun:
        return None
    attempts = [round for round, _, _ in book.rounds]
    return spent(terms, book.receipts, book.begun, found.spec.privacy.delta, attempts=attempts)


def _stored_cells(found: Reading) -> tuple[dict[str, Any], ...] | None:
    """What the run itself said at its end, where the table can't be computed again for want of its data set."""
    stored = None if found.result is None or found.book is None else found.result.get("guarantees")
    return tuple(stored) if isinstance(stored, list) and stored and found.terms is None else None


def _about(found: Reading) -> dict[str, str]:
    words = {"begun": "created", "machine": "machine", "fedveil": "fedveil", "python": "python", "torch": "torch"}
    words |= {"dp-accounting": "dp_accounting", "randomness": "randomness"}
    told = {name: str(found.about[key]) for name, key in words.items() if key in found.about}
    return told | ({"begun": told["begun"].replace("T", " ").replace("+00:00", " UTC")} if "begun" in told else {})


# ε over rounds


def _course(
    found: Reading, terms: Terms | None, table: Table | None, promise: Table | None, release: bool
) -> tuple[tuple[str, tuple[Point, ...]], ...]:
    """ε of every finite cell at a few rounds; cells that agree in everything share a line."""
    shown = promise if release or table is None else table
    if terms is None or shown is None:
        return ()
    alike: dict[tuple[Any, ...], list[Guarantee]] = {}
    for found_cell in shown.guarantees:
        if found_cell.finite:
            key = (found_cell.unit, found_cell.relation, found_cell.composition, f"{found_cell.epsilon:.6g}")
            alike.setdefault(key, []).append(found_cell)
    book = found.book
    lines = []
    for cells in alike.values():
        cell = (cells[0].unit, cells[0].view)
        if release or table is None or book is None:  # there is no table without a book
            marks = [index + 1 for index in chosen(found.spec.method.rounds, MARKS)]
            values = promised_course(terms, marks, cell)
        else:
            marks = [index + 1 for index in chosen(book.begun, MARKS)]
            values = spent_course(terms, book.receipts, [round for round, _, _ in book.rounds], marks, cell)
        words = f"{cell[0]} × {', '.join(str(each.view) for each in cells)}"
        lines.append((words, tuple((float(mark), value) for mark, value in zip(marks, values, strict=True))))
    return tuple(lines)


# Who took part


def _clients(found: Reading, terms: Terms | None, table: Table | None) -> Clients | None:
    book = found.book
    if book is None or terms is None:
        return None
    taken = Counter(client for _, _, cohort in book.rounds for client in cohort)
    rounds = tuple(taken[client] for client in range(terms.population.clients))
    cell = _own_cell(terms, table)
    epsilon = None if cell is None or table is None else table.per_client(*cell)
    left, rule = _left(found, terms)
    name = "" if cell is None else f"{cell[0]} × {cell[1]}"
    return Clients(terms.population.records, rounds, name, epsilon, left, rule)


def _own_cell(terms: Terms, table: Table | None) -> tuple[Unit, View] | None:
    """The cell of the budget, or the first finite one in which a client's own rounds count."""
    if table is None:
        return None
    asked = budget_of(terms)
    wanted = [] if asked is None else [(asked.unit, asked.view)]
    wanted += [(Unit.RECORD, View.SERVER), (Unit.CLIENT, View.SERVER), (Unit.RECORD, View.RELEASED)]
    wanted += [(Unit.CLIENT, View.RELEASED)]
    return next((cell for cell in wanted if table.of(*cell).finite), None)


def _left(found: Reading, terms: Terms) -> tuple[tuple[int, ...] | None, str]:
    """How many rounds each client has left, and by which rule."""
    assert found.book is not None
    method, budget = found.spec.method, budget_of(terms)
    most = method.cohort.most
    limit = "" if most is None else f"A client may take part in at most {most:,} rounds. "
    past = past_of(found.book.rounds, terms.seeded, found.published)
    if budget is None:
        if most is None:
            return None, "Nothing limits how often a client is drawn: no limit of rounds and no budget was set."
        taken = Counter(client for _, cohort in past for client in cohort)
        return tuple(max(most - taken[client], 0) for client in range(terms.population.clients)), limit.strip()
    words = f"{limit}No client may pass ε = {budget.epsilon:g} of {budget.unit} × {budget.view}"
    words += f" at δ = {delta_word(budget.delta)}"
    try:
        left = Budgeted(terms, budget, past).left(min(found.published, method.rounds - 1))
    except FedveilError as error:
        return None, f"{words}. What is left can't be computed ({error})."
    return tuple(left), f"{words}; what is left is counted at the price of the next round."
