"""Run a spec into a directory, or go on with one that was interrupted."""

from __future__ import annotations

import datetime
import secrets
import shlex
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedveil.accounting.context import Context
from fedveil.accounting.plan import plan, replay
from fedveil.accounting.site_table import site_guarantees
from fedveil.accounting.table import Table, exceeded, releasable_cells
from fedveil.config.merge import without
from fedveil.config.spec import Source, Spec, resolve
from fedveil.core.atomic import write_whole
from fedveil.core.errors import FedveilError
from fedveil.core.scores import FIGURES, Scores
from fedveil.core.tasks import Task
from fedveil.data.dataset import Dataset
from fedveil.data.schema_file import schema_toml
from fedveil.data.sources import sha256_of
from fedveil.engine import loop
from fedveil.engine.admission import Admission
from fedveil.engine.loop import Closed, MakeRuntime, Runtime
from fedveil.engine.personal_models import AtTheirSites, PersonalModels
from fedveil.engine.server_state import ServerState
from fedveil.ledger.entries import LedgerRound
from fedveil.ledger.store import Ledger
from fedveil.parts.personal import Shared
from fedveil.report.model.run_facts import ENDED_EARLY
from fedveil.report.model.score_texts import measured_text
from fedveil.report.terminal.reading_progress import reading_notes
from fedveil.report.terminal.run_progress import Reporter, SilentReporter
from fedveil.runs.argument_checks import check_arguments
from fedveil.runs.book import RECORDS_KEY_BYTES, check_records, check_schema, opened_ledger, pins_of, read_book
from fedveil.runs.budgeted_admission import admission_of, past_of
from fedveil.runs.derived_charges import RoundCharges, round_charges
from fedveil.runs.describe import choice_lines
from fedveil.runs.files import RunFiles
from fedveil.runs.manifest import manifest, read_context
from fedveil.runs.measuring import Measuring
from fedveil.runs.model_card import write_model_card
from fedveil.runs.prepare import Prepared, prepare, prepared_for
from fedveil.runs.result import Result, has_diverged
from fedveil.runs.round_updates import OnRound, RoundUpdate
from fedveil.runs.scoring import OWN_FIGURES, final_scores, round_figures
from fedveil.runtimes.local import on_this_machine


def run(
    source: Source = "fed-cdp",
    overrides: Mapping[str, Any] | None = None,
    *,
    rounds: int | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    chunk: int | None = None,
    dataset: Dataset | None = None,
    reporter: Reporter | None = None,
    runtime: MakeRuntime | None = None,
    on_round: OnRound | None = None,
) -> Result:
    """Train a method, a spec file or a table of settings, with dotted `overrides`, into a new directory.

    `rounds` and `seed` are short for the overrides `stop.rounds` and `seed`.
    `dataset` brings your own records in place of a named data set; the spec then carries its name.
    `runtime` says where the clients work; by default on this machine, with so many `workers` and clients in a `chunk`.
    `on_round` is called with a `RoundUpdate` after each round: figures, seconds, and what was spent so far.
    """
    numbers = {"rounds": rounds, "seed": seed, "workers": workers, "chunk": chunk}
    check_arguments(overrides=overrides, dataset=dataset, paths={"out": out}, numbers=numbers)
    settings = dict(overrides or {})
    settings |= {} if rounds is None else {"stop.rounds": rounds}
    settings |= {} if seed is None else {"seed": seed}
    reporter = reporter or SilentReporter()
    prepared = prepared_for(source, settings, dataset, reading_notes(reporter))
    files = RunFiles(Path(out) if out is not None else _new_directory(prepared.spec))
    return begin_training(prepared, files, runtime or on_this_machine(workers, chunk), reporter, on_round)


def begin_training(
    prepared: Prepared,
    files: RunFiles,
    runtime: MakeRuntime,
    reporter: Reporter | None = None,
    on_round: OnRound | None = None,
    *,
    at_sites: bool = False,
) -> Result:
    """Train what was prepared into a new directory. `at_sites` as in `continue_training`."""
    if prepared.spec.evaluation.sigma is not None and not at_sites:
        raise FedveilError("evaluation.sigma: real sites count on records of their own; a simulation has none to ask")
    training = runtime(prepared.job)
    admission = admission_of(prepared.context, [])  # a budget that can't be kept is refused before there is a run
    files.create()
    write_whole(files.spec, prepared.spec.to_toml().encode())
    if prepared.dataset.schema is not None:  # it may hold what was read off private records
        write_whole(files.schema, schema_toml(prepared.dataset.schema).encode(), private=True)
    write_whole(files.records_key, secrets.token_bytes(RECORDS_KEY_BYTES), private=True)
    files.write_json(files.manifest, manifest(prepared))
    return _train(prepared, files, training, reporter or SilentReporter(), on_round, admission, at_sites=at_sites)


def resume(
    directory: str | Path,
    *,
    workers: int | None = None,
    chunk: int | None = None,
    dataset: Dataset | None = None,
    reporter: Reporter | None = None,
    runtime: MakeRuntime | None = None,
    on_round: OnRound | None = None,
) -> Result:
    """Go on after the last published round; a seeded run ends as if it had never been interrupted."""
    check_arguments(dataset=dataset, paths={"directory": directory}, numbers={"workers": workers, "chunk": chunk})
    files = RunFiles(Path(directory))
    files.check()
    if files.result.exists():
        return _stored_result(files, dataset)
    files.check_continuable()
    reporter = reporter or SilentReporter()
    initial = files.initial()
    prepared = prepare(resolve(files.spec), dataset, initial=initial, progress=reading_notes(reporter))
    check_schema(files, prepared.dataset)
    return continue_training(prepared, files, runtime or on_this_machine(workers, chunk), reporter, on_round)


def continue_training(
    prepared: Prepared,
    files: RunFiles,
    runtime: MakeRuntime,
    reporter: Reporter | None = None,
    on_round: OnRound | None = None,
    *,
    at_sites: bool = False,
) -> Result:
    """Go on after the last published round.

    `at_sites`: clients are real sites, which remember. Asked once more, they give the very answers that they gave
    before; a round that was charged and not finished is then asked of the same clients, and nobody pays for it again:
    nothing is shown that was not shown. Models of their own stay with them.
    """
    return _train(prepared, files, runtime(prepared.job), reporter or SilentReporter(), on_round, at_sites=at_sites)


def _train(
    prepared: Prepared,
    files: RunFiles,
    training: AbstractContextManager[Runtime],
    reporter: Reporter,
    on_round: OnRound | None,
    admission: Admission | None = None,
    *,
    at_sites: bool,
) -> Result:
    """`admission` is that of a run that has just begun; else it follows from what the ledger holds."""
    try:
        with opened_ledger(files) as ledger, training as runtime:
            files.clear_parts()
            ledger.begin(pins_of(files, prepared.context, prepared.dataset))
            return _train_rounds(prepared, files, ledger, runtime, reporter, on_round, admission, at_sites)
    except KeyboardInterrupt:
        home = ["fedveil", "federation", "run", "--home", str(files.directory.parent)]
        again = shlex.join(home) if at_sites else _resume_words(prepared.spec, files)
        reporter.note(f"what was published is safe; go on with: {again}")
        raise


def _resume_words(spec: Spec, files: RunFiles) -> str:
    """The command that goes on; records of one's own can only be given from Python."""
    if spec.data.reproducible:
        return shlex.join(["fedveil", "resume", str(files.directory)])
    return f"fedveil.resume('{files.directory}', dataset=…)"


def _train_rounds(
    prepared: Prepared,
    files: RunFiles,
    ledger: Ledger,
    runtime: Runtime,
    reporter: Reporter,
    on_round: OnRound | None,
    admission: Admission | None,
    at_sites: bool,
) -> Result:
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
    return _finish(prepared, files, ledger, state, measured, scores, promise)


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


def _stored_result(files: RunFiles, dataset: Dataset | None) -> Result:
    """What a finished run said at its end, if it is still the run that it was."""
    spec = resolve(files.spec)
    if files.ledger.is_file():
        with opened_ledger(files) as ledger:
            read_book(files, ledger, spec, read_context(spec, files.read_json(files.manifest).get("terms")))
        if dataset is not None:
            check_records(files, dataset)
    again = ""
    if any(files.checkpoints.glob("round-*.safetensors")):
        again = f"; remove it, and it is made again from the last round: {_resume_words(spec, files)}"
    try:
        return Result.from_dict(files.read_result(), files.directory, spec.method)
    except (KeyError, TypeError, ValueError):
        raise FedveilError(f"{files.result}: not a result of this version{again}") from None
    except FedveilError as error:
        raise FedveilError(f"{error}{again}") from None


def _finish(
    prepared: Prepared,
    files: RunFiles,
    ledger: Ledger,
    state: ServerState,
    measured: Mapping[str, float],
    scores: Scores,
    promise: Table,
) -> Result:
    context = prepared.context
    book = read_book(files, ledger, prepared.spec, context)
    published = [receipt for receipt in ledger.receipts() if receipt.round < state.round]
    _check_promise(promise, replay(context, [receipt.charge for receipt in published], state.round))
    # A round that was paid for but never published, after which nobody could pay again, is spent all the same.
    total = replay(context, book.charges, book.begun, attempts=book.attempts)
    events = [event for event in files.read_events() if event["event"] == "round"]
    book.check_cohorts({event["round"]: event["clients"] for event in events})
    result = Result(
        run=files.directory,
        method=prepared.spec.base,
        data=prepared.dataset.name,
        accuracy=measured.get("accuracy"),
        loss=measured["loss"],
        scores=scores,
        diverged=scores.overall.records > 0 and has_diverged(measured["loss"], prepared.job.objective),
        **{name: measured.get(name) for name in OWN_FIGURES},
        sent_bytes=sum(event.get("upload_bytes", 0) for event in events),
        saved_bytes=sum(event.get("dense_bytes", 0) - event.get("upload_bytes", 0) for event in events),
        rounds=state.round,
        seconds=round(sum(event["seconds"] for event in events), 3),
        seeded=prepared.streams.seeded,
        receipts=len(published),
        rejected=sum(event["rejected"] for event in events),
        guarantees=total.guarantees,
        site_guarantees=site_guarantees(promise, total, book.rounds_of_clients(context.population.clients)),
        ledger_head=ledger.head,
    )
    saved = files.save_model(state.released, prepared.layout, prepared.model)
    write_model_card(files, prepared, state.round, releasable_cells(promise, total), sha256_of(saved))
    files.append_event({"event": "end"})
    files.write_result(without(result.to_dict(), "run"))  # a directory can be moved
    return result


def _check_promise(promise: Table, published: Table) -> None:
    """A run that spent more than it promised must not end as if nothing had happened."""
    broken = exceeded(promise, published)
    if broken:
        raise FedveilError(f"more was spent than promised: {'; '.join(broken)}")


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


def _new_directory(spec: Spec) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    directory = Path("runs") / f"{stamp}-{spec.base}-{spec.data.name}-{secrets.token_hex(2)}"
    if directory.exists():
        raise FedveilError(f"{directory}: already exists")
    return directory
