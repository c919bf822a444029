"""The rounds of a run, in the order that keeps its ledger ahead of what anybody has seen."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fedveil.accounting.context import Context
from fedveil.accounting.plan import plan, replay
from fedveil.accounting.site_table import site_guarantees
from fedveil.accounting.table import Table
from fedveil.core.scores import FIGURES
from fedveil.core.tasks import Task
from fedveil.engine import loop
from fedveil.engine.admission import Admission
from fedveil.engine.loop import Closed, Runtime
from fedveil.engine.personal_models import AtTheirSites, PersonalModels
from fedveil.engine.server_state import ServerState
from fedveil.ledger.entries import LedgerRound
from fedveil.ledger.store import Ledger
from fedveil.parts.personal import Shared
from fedveil.report.model.run_facts import ENDED_EARLY
from fedveil.report.model.score_texts import measured_text
from fedveil.report.terminal.run_progress import Reporter
from fedveil.runs.book import read_book
from fedveil.runs.budgeted_admission import admission_of, past_of
from fedveil.runs.derived_charges import RoundCharges, round_charges
from fedveil.runs.describe import choice_lines
from fedveil.runs.files import RunFiles
from fedveil.runs.finishing import finish
from fedveil.runs.measuring import Measuring
from fedveil.runs.prepare import Prepared
from fedveil.runs.result import Result, has_diverged
from fedveil.runs.round_updates import OnRound, RoundUpdate
from fedveil.runs.scoring import OWN_FIGURES, final_scores, round_figures


def train_rounds(
    prepared: Prepared,
    files: RunFiles,
    ledger: Ledger,
    runtime: Runtime,
    reporter: Reporter,
    on_round: OnRound | None,
    admission: Admission | None,
    at_sites: bool,
) -> Result:
    """Train from the last published round to the end; `admission` and `at_sites` as in `runs/run.py`."""
    spec, method, context = prepared.spec, prepared.spec.method, prepared.context
    state = files.load_checkpoint(prepared.layout)
    if state is None:
        state = prepared.initial_state()
        files.save_checkpoint(state, prepared.layout)
    book = read_book(files, ledger, spec, context)
    files.keep_newest_checkpoint()
    files.trim_events(state.round)
    personal = _personal(prepared, files, state.round, at_sites)
    files.append_event({"event": "start", "rounds_done": state.round})
    if spec.choices:
        reporter.note("\n".join(choice_lines(spec)))
    for change in prepared.changes:
        reporter.note(str(change))
    promise = plan(context)
    reporter.promise(promise.guarantees, site_guarantees(promise))
    reporter.begin(_title(prepared, files), method.rounds, state.round)
    measuring = Measuring(prepared, files, runtime, personal)
    measuring.catch_up(state)
    begun = time.perf_counter()
    charges = round_charges(context)
    unfinished = _unfinished(ledger, state, charges) if at_sites else None
    if admission is None:
        past = [entry for entry in book.rounds if unfinished is None or entry != unfinished]
        admission = admission_of(context, past_of(past, context.seeded, state.round))
    for closed in loop.rounds(
        method,
        state,
        context.population,
        prepared.layout,
        runtime,
        prepared.streams,
        admission=admission,
        pay=lambda state, cohort: ledger.charge(state.round, cohort, charges(state.round, cohort, state.bound)),
        personal=personal,
        begun=None if unfinished is None else unfinished.cohort,
    ):
        state = closed.state
        event = _event(closed) | measuring.before_publication(state)
        event["seconds"], begun = time.perf_counter() - begun, time.perf_counter()
        # The order matters. The round was paid for before its clients heard of it; now what it did is written down,
        # noted and published. After a crash anywhere, the ledger claims at least what anybody has seen.
        ledger.execute(closed.round, closed.receipts, closed.arrived)
        files.append_event(event)
        files.save_checkpoint(state, prepared.layout)
        event |= measuring.after_publication(state)
        if personal is not None:
            personal.forget()
        _report(reporter, event, method.rounds, prepared.dataset.task)
        if on_round is not None:
            on_round(_update(files, event, method.rounds, ledger, context))
    if state.round < method.rounds:
        reporter.note(f"it ended after {state.round} of {method.rounds} rounds: {ENDED_EARLY}")
    evaluation = runtime.evaluate(state)
    measured, scores = round_figures(prepared, evaluation, personal), final_scores(prepared, evaluation)
    if not evaluation.measured:
        reporter.note("no site has measured the last model, so it is not known how good it is")
    elif has_diverged(measured["loss"], prepared.job.objective):
        reporter.note(f"the training diverged: its last loss is {measured['loss']:.3g}; try a smaller local.rate")
    return finish(prepared, files, ledger, state, measured, scores, promise)


def _unfinished(ledger: Ledger, state: ServerState, charges: RoundCharges) -> LedgerRound | None:
    """The attempt at the next round that was charged and may have been sent, if it is what would be charged now."""
    last = ledger.unfinished
    if last is None or last.round != state.round:
        return None
    return last if tuple(charges(state.round, last.cohort, state.bound)) == last.charges else None


def _personal(prepared: Prepared, files: RunFiles, rounds: int, at_sites: bool) -> PersonalModels | AtTheirSites | None:
    """The clients' own models as they were after `rounds` rounds, for methods that keep them."""
    rule = prepared.spec.method.personal
    if isinstance(rule, Shared):
        return None
    if at_sites:
        return AtTheirSites()
    models = PersonalModels(rule, files.personal)
    models.rewind(rounds)
    return models


def _event(closed: Closed) -> dict[str, Any]:
    return {"event": "round", "round": closed.round, **asdict(closed.summary)}


def _report(reporter: Reporter, event: Mapping[str, Any], total: int, task: Task) -> None:
    if event["rejected"] or event["rejected_updates"]:
        reporter.note(
            f"round {event['round'] + 1}: {event['rejected']} examples and {event['rejected_updates']} updates"
            " were not finite and counted as zero"
        )
    known = event.get("loss", event["train_loss"])  # between measurements, real sites tell nobody
    loss = "" if known is None else f"loss {known:.4f}"
    reporter.round(event["round"] + 1, total, "  ".join(filter(None, (measured_text(event, task), loss))))


def _update(files: RunFiles, event: Mapping[str, Any], rounds: int, ledger: Ledger, context: Context) -> RoundUpdate:
    figures = {key: float(event[key]) for key in ("train_loss", "loss", *FIGURES, *OWN_FIGURES) if key in event}

    def spent() -> Table:
        entries = ledger.rounds()
        charges = [charge for entry in entries for charge in entry.charges]
        attempts = [entry.round for entry in entries]
        return replay(context, charges, 1 + max(attempts), attempts=attempts)

    return RoundUpdate(files.directory, event["round"] + 1, rounds, figures, event["seconds"], spent)


def _title(prepared: Prepared, files: RunFiles) -> str:
    spec, population = prepared.spec, prepared.sites.population
    seeded = " (seeded: not private)" if prepared.streams.seeded else ""
    who = "sites" if population.names else "clients"
    return (
        f"{spec.base} on {prepared.dataset.name}: {population.clients} {who}, {prepared.layout.size:,} parameters"
        f"{seeded} → {files.directory}"
    )
