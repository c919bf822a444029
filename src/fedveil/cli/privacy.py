"""`account` and `calibrate`: what is proved, and what it takes to prove it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from fedveil.cli.options import choice, json_option, out_option, parse_settings, picture_option, settings_option
from fedveil.core.rounding import rounded_down, rounded_up
from fedveil.core.types import Unit, View


@click.command("account")
@click.argument("source", metavar="[PRESET|SPEC.toml|RUN]", default="fed-cdp")
@settings_option
@click.option("--delta", type=float, help="δ of every cell; default: the spec's.")
@click.option("--all-accountants", is_flag=True, help="RDP and central-limit values beside the certificate.")
@click.option("--head", help="A head that the RUN's ledger had once; a ledger that never had it is refused.")
@click.option("--curve", type=click.Choice(["rounds"]), help="Draw ε over rounds for every view.")
@picture_option("The picture of --curve; default: NAME-epsilon.png.")
@json_option
def account_command(
    source: str,
    settings: tuple[str, ...],
    delta: float | None,
    all_accountants: bool,
    head: str | None,
    curve: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Print what a method, a spec or a run guarantees: of what, against whom."""
    from fedveil.report.terminal.guarantee_lines import claim_lines, client_lines, table_lines
    from fedveil.report.terminal.site_lines import site_lines
    from fedveil.runs.account import OWN_UNIT, OWN_VIEW, account, draw_curve

    accounted = account(source, parse_settings(settings), delta=delta, secondary=all_accountants, head=head)
    picture = None
    if curve is not None:
        picture = out or Path(f"{accounted.name}-epsilon.png")
        draw_curve(accounted, picture)
    if as_json:
        click.echo(json.dumps(accounted.to_dict()))
        return
    lines = [accounted.title, *map(str, accounted.changes), *table_lines("promised", accounted.promised.guarantees)]
    if accounted.spent is not None and accounted.per_client is not None:
        lines += table_lines("spent", accounted.spent.guarantees)
        if accounted.sites is None:
            lines += client_lines(OWN_UNIT, OWN_VIEW, accounted.per_client)
    lines += site_lines(accounted.sites)
    if accounted.ledger is not None:
        lines.append(str(accounted.ledger))
    click.echo("\n".join(lines + claim_lines(accounted.claims)))
    if picture is not None:
        click.echo(f"picture: {picture}")


@click.command("calibrate")
@click.argument("source", metavar="[PRESET|SPEC.toml]", default="fed-cdp")
@settings_option
@click.option("--epsilon", type=float, required=True, help="The target ε.")
@click.option("--delta", type=float, help="δ; default: the spec's.")
@click.option("--unit", type=choice(Unit), default="record", show_default=True, help="What is hidden.")
@click.option(
    "--view",
    type=choice(View),
    default="server",
    show_default=True,
    help="From whom.",
)
@click.option(
    "--solve",
    type=click.Choice(["noise", "rounds", "cohort"]),
    default="noise",
    show_default=True,
    help="The smallest σ, the most rounds or the largest cohort.",
)
@out_option("Write the spec with the answer to this file.")
@json_option
def calibrate_command(
    source: str,
    settings: tuple[str, ...],
    epsilon: float,
    delta: float | None,
    unit: str,
    view: str,
    solve: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Find the smallest noise, the most rounds or the largest cohort that keep a target ε."""
    from fedveil.accounting.context import Budget
    from fedveil.config.spec import resolve
    from fedveil.core.atomic import write_whole
    from fedveil.runs.account import calibrate_spec

    asked = parse_settings(settings)
    delta = resolve(source, asked).privacy.delta if delta is None else delta
    solved, spec = calibrate_spec(source, asked, Budget(epsilon, delta, Unit(unit), View(view)), solve)
    if out is not None:
        write_whole(out, spec.to_toml().encode())
    answer: dict[str, Any] = {"solved": solved.solved, "value": solved.value, "guarantee": solved.guarantee.to_dict()}
    if as_json:
        click.echo(json.dumps(answer | ({"spec": str(out)} if out else {})))
        return
    # Rounded so that whoever copies it keeps the target too.
    value = rounded_up(solved.value, 6) if solved.solved == "noise" else rounded_down(solved.value, 6)
    click.echo(f"{solved.key} = {value}")
    click.echo(str(solved.guarantee))
    if out is not None:
        click.echo(f"spec: {out}")
