"""How a run ended, as a terminal shows it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from fedveil.core.guarantee import SEEDED
from fedveil.core.scores import FIGURES
from fedveil.ledger.chain import SHORT_HEAD
from fedveil.report.model.guarantee_headline import headline
from fedveil.report.model.score_texts import figure_text, useless_text, worst_text
from fedveil.report.terminal.guarantee_lines import table_lines
from fedveil.report.terminal.site_lines import site_lines
from fedveil.report.terminal.wrapped_lines import wrapped
from fedveil.runs.result import Result


def result_lines(ended: Result, *, verbose: bool = False, next_steps: Sequence[str] = ()) -> list[str]:
    """The model, the headline, the table of what was spent, where everything is, and what to do next."""
    said = [ended.quality, *_of_the_model(ended)]
    if any(cell.finite for cell in ended.guarantees):
        said.append(headline(ended.guarantees))
    lines = [line for text in said for line in wrapped(text, hanging="  ")]
    lines += ["", *table_lines("spent", ended.guarantees, verbose=verbose), *site_lines(ended.site_guarantees)]
    if ended.seeded and not any(cell.finite for cell in ended.guarantees):
        lines.append(SEEDED.text)
    return [
        *lines,
        "",
        *(line for text in _of_the_run(ended) for line in wrapped(text, hanging="  ")),
        *_next(ended, next_steps),
    ]


def _of_the_model(ended: Result) -> list[str]:
    found = [] if ended.scores is None else [worst_text(ended.scores), useless_text(ended.scores)]
    said = [text for text in found if text is not None]
    if ended.diverged:
        said.append("the training diverged: this model is worse than any guess; try a smaller local.rate")
    for name, personal, shared in (
        ("accuracy", ended.personal_accuracy, ended.own_accuracy),
        ("mae", ended.personal_mae, ended.own_mae),
    ):
        if personal is not None:
            figure = FIGURES[name]
            said.append(
                f"on the clients' own test sets, {figure.name}: their own models {figure_text(figure, personal)},"
                f" the global one {figure_text(figure, shared)} (means over clients)"
            )
    if ended.saved_bytes:
        share = ended.saved_bytes / (ended.saved_bytes + ended.sent_bytes)
        said.append(f"clients sent {ended.sent_bytes:,} bytes, {share:.0%} less than whole updates")
    return said


def _of_the_run(ended: Result) -> list[str]:
    said = []
    if ended.receipts:
        said.append(f"noise: {ended.receipts:,} receipts, all as declared")
    if ended.ledger_head is not None:
        said.append(f"ledger: head {ended.ledger_head[:SHORT_HEAD]}")
    return [*said, f"run: {ended.run}"]


def _next(ended: Result, steps: Sequence[str]) -> list[str]:
    """What people do with a finished run, unless the caller knows better."""
    where = shlex.quote(str(ended.run))
    first, *others = steps or [f"fedveil {command} {where}" for command in ("report", "account", "attack")]
    return [f"next: {first}", *(f"      {other}" for other in others)]
