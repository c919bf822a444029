"""`account` and `calibrate`: what is proved, and what it takes to prove it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedveil.cli.options import (
    choice,
    json_option,
    out_option,
    parse_settings,
    picture_option,
    print_json,
    settings_option,
)
from fedveil.core.rounding import rounded_down, rounded_up
from fedveil.core.types import Unit, View

if TYPE_CHECKING:
    from fedveil.runs.account import Account


@click.command("account")
@click.argument("source", metavar="[PRESET|SPEC.toml|RUN]", default="fed-cdp")
@settings_option
@click.option("--delta", type=float, help="δ of every cell; default: the spec's.")
@click.option("--all-accountants", is_flag=True, help="RDP and central-limit values beside the certificate.")
@click.option("--head", help="A head that the RUN's ledger had once; a ledger that never had it is refused.")
@click.option("--risk", is_flag=True, help="What every ε leaves to an attacker: true-positive rates, advantage, μ.")
@click.option(
    "--curve",
    type=click.Choice(["rounds", "risk"]),
    help="Draw ε over rounds for every view, or true over false positives of one cell.",
)
@click.option("--unit", type=choice(Unit), default="record", show_default=True, help="The cell of --curve risk.")
@click.option("--view", type=choice(View), default="server", show_default=True, help="The cell of --curve risk.")
@picture_option("The picture of --curve; default: NAME-epsilon.png or NAME-risk.png.")
@json_option
def account_command(
    source: str,
    settings: tuple[str, ...],
    delta: float | None,
    all_accountants: bool,
    head: str | None,
    risk: bool,
    curve: str | None,
    unit: str,
    view: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Print what a method, a spec or a run guarantees: of what, against whom."""
    from fedveil.report.model.guarantee_headline import headline
    from fedveil.report.terminal.guarantee_lines import claim_lines, client_lines, table_lines
    from fedveil.report.terminal.site_lines import site_lines
    from fedveil.report.terminal.wrapped_lines import paragraphs
    from fedveil.runs.account import OWN_UNIT, OWN_VIEW, account

    accounted = account(source, parse_settings(settings), delta=delta, secondary=all_accountants, head=head)
    picture = None if curve is None else _drawn(accounted, curve, Unit(unit), View(view), out)
    if as_json:
        print_json(accounted.to_dict())
        return
    promised, spent = accounted.promised, accounted.spent
    lines = paragraphs([accounted.title, *map(str, accounted.changes), headline((spent or promised).guarantees)])
    lines += table_lines("promised", promised.guarantees, promised.all_beside, risk)
    if spent is not None and accounted.per_client is not None:
        lines += table_lines("spent", spent.guarantees, spent.all_beside, risk)
        if accounted.sites is None:
            lines += client_lines(OWN_UNIT, OWN_VIEW, accounted.per_client)
    lines += site_lines(accounted.sites, every=True)
    if accounted.ledger is not None:
        lines += paragraphs([str(accounted.ledger)])
    click.echo("\n".join(lines + claim_lines(accounted.claims)))
    if picture is not None:
        click.echo(f"picture: {picture}")


def _drawn(accounted: Account, curve: str, unit: Unit, view: View, out: Path | None) -> Path:
    from fedveil.runs.account_pictures import draw_curve, draw_risk

    if curve == "rounds":
        picture = out or Path(f"{accounted.name}-epsilon.png")
        draw_curve(accounted, picture)
    else:
        picture = out or Path(f"{accounted.name}-risk.png")
        draw_risk(accounted, unit, view, picture)
    return picture


@click.command("calibrate")
@click.argument("source", metavar="[PRESET|SPEC.toml]", default="fed-cdp")
@settings_option
@click.option("--epsilon", type=float, help="The target ε.")
@click.option("--advantage", type=float, help="Instead of ε: an attacker's largest TPR − FPR.")
@click.option("--tpr", type=float, help="Instead of ε: an attacker's largest true-positive rate at --fpr.")
@click.option("--fpr", type=float, help="The false-positive rate of --tpr.")
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
    epsilon: float | None,
    advantage: float | None,
    tpr: float | None,
    fpr: float | None,
    delta: float | None,
    unit: str,
    view: str,
    solve: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Find the smallest noise, the most rounds or the largest cohort that keep a target ε, or a risk."""
    from fedveil.accounting.context import Budget, RiskTarget
    from fedveil.config.spec import resolve
    from fedveil.core.atomic import write_whole
    from fedveil.report.terminal.guarantee_lines import risk_lines
    from fedveil.report.terminal.wrapped_lines import paragraphs
    from fedveil.runs.account import calibrate_spec

    if sum(given is not None for given in (epsilon, advantage, tpr)) != 1 or (tpr is None) != (fpr is None):
        raise click.UsageError("give one target: --epsilon, or --advantage, or --tpr with --fpr")
    asked = parse_settings(settings)
    delta = resolve(source, asked).privacy.delta if delta is None else delta
    target = (
        RiskTarget(delta, Unit(unit), View(view), advantage, tpr, fpr)
        if epsilon is None
        else Budget(epsilon, delta, Unit(unit), View(view))
    )
    solved, spec = calibrate_spec(source, asked, target, solve)
    if out is not None:
        write_whole(out, spec.to_toml().encode())
    answer: dict[str, Any] = {"solved": solved.solved, "value": solved.value, "guarantee": solved.guarantee.to_dict()}
    if as_json:
        print_json(answer | ({"spec": str(out)} if out else {}))
        return
    # Rounded so that whoever copies it keeps the target too.
    value = rounded_up(solved.value, 6) if solved.solved == "noise" else rounded_down(solved.value, 6)
    click.echo(f"{solved.key} = {value}")
    click.echo("\n".join(paragraphs([str(solved.guarantee)])))
    if epsilon is None:
        click.echo("\n".join(risk_lines(solved.guarantee)))
    if out is not None:
        click.echo(f"spec: {out}")
