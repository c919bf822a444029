"""`audit`: does what is promised stand up to an adversary who tries?"""

from __future__ import annotations

import json

import click

from fedveil.cli.options import json_option, keep_option, parse_settings, settings_option, workers_option


@click.command("audit")
@click.argument("source", metavar="[PRESET|SPEC.toml|RUN]", default="fed-cdp")
@settings_option
@click.option("--rounds", type=int, default=1, show_default=True, help="Rounds that are run and accounted.")
@click.option(
    "--view",
    type=click.Choice(["on_device", "client", "server", "released"]),
    default="server",
    show_default=True,
    help="What the adversary sees.",
)
@click.option(
    "--unit",
    type=click.Choice(["record", "client"]),
    default="record",
    show_default=True,
    help="What is guessed.",
)
@click.option("--canaries", type=int, help="Default: 1000, or all clients where there are fewer.")
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
    rounds: int,
    view: str,
    unit: str,
    canaries: int | None,
    confidence: float,
    seed: int | None,
    workers: int | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Attack a method with canaries: a lower bound on ε beside the verified one. Ends with 1 if a promise is broken."""
    from fedveil.report.model.audit_sentences import audit_lines
    from fedveil.studies.audit import audit

    told = parse_settings(settings)
    found = audit(
        source,
        told,
        rounds=rounds,
        unit=unit,
        view=view,
        canaries=canaries,
        confidence=confidence,
        seed=seed,
        workers=workers,
        keep=keep,
    ).to_dict()
    click.echo(json.dumps(found) if as_json else "\n".join(audit_lines(found)))
    if not found["holds"]:
        context.exit(1)
