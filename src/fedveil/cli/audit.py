"""`audit`: does what is promised stand up to an adversary who tries?"""

from __future__ import annotations

import click
from rich.console import Console

from fedveil.cli.options import (
    choice,
    json_option,
    keep_option,
    parse_settings,
    print_json,
    settings_option,
    workers_option,
)
from fedveil.core.types import CLIENTS_WORK, Unit, View
from fedveil.core.verdicts import Verdict

EXIT_CODES = {
    Verdict.CONSISTENT: 0,
    Verdict.NOTHING_PROMISED: 0,
    Verdict.CONTRADICTED: 1,
    Verdict.INCONCLUSIVE: 3,
}
"""2 is for what could not be done at all."""

INTERRUPTED = 130


@click.command("audit")
@click.argument("source", metavar="[PRESET|SPEC.toml|RUN]", default="fed-cdp")
@settings_option
@click.option("--rounds", type=int, help="Rounds that are run and accounted. Default: 2, if there are so many.")
@click.option(
    "--view",
    type=choice([*CLIENTS_WORK, View.RELEASED]),
    default="server",
    show_default=True,
    help="What the adversary sees.",
)
@click.option(
    "--unit",
    type=choice(Unit),
    default="record",
    show_default=True,
    help="What is guessed.",
)
@click.option("--canaries", type=int, help="Default: 1000 or all clients; down to 100 where clients make many steps.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the lower bound.")
@click.option("--seed", type=int, help="Of canaries, noise and guesses, to repeat an audit; default: none.")
@workers_option
@keep_option
@json_option
@click.pass_context
def audit_command(
    context: click.Context,
    source: str,
    settings: tuple[str, ...],
    rounds: int | None,
    view: str,
    unit: str,
    canaries: int | None,
    confidence: float,
    seed: int | None,
    workers: int | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Attack a method with canaries: a lower bound on ε beside the verified one, and how much it could have noticed.

    Ends with 1 if the promise is broken, and with 3 if the audit is inconclusive. Ctrl-C ends it with what the canaries
    show that are finished, and with 130 unless the promise is broken.
    """
    from fedveil.report.model.audit_sentences import audit_sentences
    from fedveil.report.model.evidence_facts import AuditFacts
    from fedveil.report.terminal.work_progress import WorkProgress
    from fedveil.report.terminal.wrapped_lines import wrapped
    from fedveil.studies.audit import audit

    with WorkProgress(Console(stderr=True)) as progress:
        try:
            result = audit(
                source,
                parse_settings(settings),
                rounds=rounds,
                unit=unit,
                view=view,
                canaries=canaries,
                confidence=confidence,
                seed=seed,
                workers=workers,
                keep=keep,
                progress=progress,
            ).to_dict()
        except KeyboardInterrupt:
            progress.note(
                "stopped before any canary was finished, so nothing is known; fewer of them (--canaries 50) take less"
                " time and can notice less"
            )
            raise
        if stopped := result["canaries"] < result["planned_canaries"]:
            progress.note(
                f"stopped: {result['canaries']:,} of {result['planned_canaries']:,} canaries are finished, and what"
                " follows speaks of these; the same command begins a new audit, with all of them"
            )
    if as_json:
        print_json(result)
    else:
        for sentence in audit_sentences(AuditFacts.from_dict(result)):
            click.echo("\n".join(wrapped(sentence, hanging="  ")))
        more = "more: --canaries N notice smaller faults; --rounds N, --view and --unit look elsewhere"
        click.echo("\n".join(wrapped(more, hanging="  ")))
    code = EXIT_CODES[Verdict(result["verdict"])]
    context.exit(INTERRUPTED if stopped and code != EXIT_CODES[Verdict.CONTRADICTED] else code)
