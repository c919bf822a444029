"""The end of a run: what was spent is held to what was promised, and the model is handed out."""

from __future__ import annotations

from collections.abc import Mapping

from fedveil.accounting.plan import replay
from fedveil.accounting.site_table import site_guarantees
from fedveil.accounting.table import Table, exceeded, releasable_cells
from fedveil.config.merge import without
from fedveil.core.errors import FedveilError
from fedveil.core.scores import Scores
from fedveil.data.sources import sha256_of
from fedveil.engine.server_state import ServerState
from fedveil.ledger.store import Ledger
from fedveil.runs.book import read_book
from fedveil.runs.files import RunFiles
from fedveil.runs.model_card import write_model_card
from fedveil.runs.prepare import Prepared
from fedveil.runs.result import Result, has_diverged
from fedveil.runs.scoring import OWN_FIGURES


def finish(
    prepared: Prepared,
    files: RunFiles,
    ledger: Ledger,
    state: ServerState,
    measured: Mapping[str, float],
    scores: Scores,
    promise: Table,
) -> Result:
    """Write the result, the model and its card. A run that spent more than it promised ends in an error instead."""
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
