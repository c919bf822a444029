"""`site init`, `site approve`, `site serve`, `site status`; `site withdraw` and `site renew`."""

from __future__ import annotations

from pathlib import Path

import click

from fedveil.cli.options import echo_wrapped
from fedveil.cli.status import look_at_site, show_status, status_options
from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit, View

home_option = click.option(
    "--home",
    type=click.Path(path_type=Path),
    default=Path("fedveil-site"),  # not "site", which is what documents are built into, and cleaned
    show_default=True,
    help="The site's own directory: its keys, its ledger, the answers it gave.",
)


def ask_first(question: str) -> None:
    """Whoever says no is told that nothing has happened."""
    if not click.confirm(question):
        raise FedveilError("nothing was changed")


@click.group("site")
def site_group() -> None:
    """Take part in a federation with records of your own, which stay where they are."""


@site_group.command("init")
@home_option
@click.option("--name", required=True, help="What the site is called: small letters, digits, dashes.")
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help="The records: a table, or pictures.",
)
@click.option(
    "--validation",
    type=click.Path(path_type=Path),
    help="Further records, held out: models can be measured on them.",
)
@click.option("--schema", required=True, type=click.Path(path_type=Path), help="How all sites encode them.")
@click.option("--unit", type=click.Choice(list(map(str, Unit))), default="record", show_default=True)
@click.option("--view", type=click.Choice(list(map(str, View))), default="server", show_default=True)
@click.option("--epsilon", type=float, default=2.0, show_default=True, help="What one plan may cost.")
@click.option("--delta", type=float, default=1e-5, show_default=True)
@click.option("--lifetime-epsilon", type=float, default=8.0, show_default=True, help="What all plans may ever cost.")
@click.option("--lifetime-delta", type=float, help="As --delta, if not given.")
@click.option("--rehearsal", is_flag=True, help="Let in what protects nothing; for records that are nobody's.")
def site_init_command(
    home: Path,
    name: str,
    data: Path,
    validation: Path | None,
    schema: Path,
    unit: str,
    view: str,
    epsilon: float,
    delta: float,
    lifetime_epsilon: float,
    lifetime_delta: float | None,
    rehearsal: bool,
) -> None:
    """Make a site: keys that never leave it, a ledger for ever, a policy."""
    from fedveil.site.connection import add_request
    from fedveil.site.home import make_site
    from fedveil.site.policy import read_policy

    ever = delta if lifetime_delta is None else lifetime_delta
    policy = read_policy(
        {
            "unit": unit, "view": view, "epsilon": epsilon, "delta": delta,
            "lifetime_epsilon": lifetime_epsilon, "lifetime_delta": ever, "rehearsal": rehearsal,
        }
    )  # fmt: skip
    made = make_site(home, name=name, data=data, schema=schema, policy=policy, validation=validation, last=add_request)
    click.echo(f"{made.registration_file}: give this to the coordinator; it has no secrets and no records")
    click.echo(f"{made.settings_file}: your policy; {made.ledger_file}: keep copies of it, and never put one back")


@site_group.command("approve")
@click.argument("invitation", metavar="INVITATION.json", type=click.Path(path_type=Path))
@home_option
@click.option("--yes", is_flag=True, help="Agree without being asked.")
def site_approve_command(invitation: Path, home: Path, yes: bool) -> None:
    """Show what a plan costs this site, of what and against whom, and agree to it by its hash."""
    from fedveil.config.federation_plan import read_plan
    from fedveil.runtimes.invitation import read_invitation
    from fedveil.site.approval import approve, examine
    from fedveil.site.approval_lines import examined_lines
    from fedveil.site.connection import check_invitation, connect, connected_to
    from fedveil.site.home import SiteHome

    site, invited = SiteHome(home), read_invitation(invitation)
    check_invitation(site, invited)
    read = read_plan(invited.plan.encode())
    echo_wrapped(examined_lines(examine(site, read)))
    if not yes:
        ask_first("\nagree to this plan?")
    approve(site, read)
    before = connected_to(site)
    connect(site, invited)
    if before not in (None, connected_to(site)):
        click.echo(f"this site now serves the coordinator at {connected_to(site)}, and no longer the one at {before}")
    click.echo(f"agreed to {read.hash}; next: fedveil site serve")


@site_group.command("check")
@click.argument("receipts", metavar="RECEIPTS.json", type=click.Path(path_type=Path))
@click.option("--key", help="The site's public key in hexadecimal, from its registration or a plan.")
def site_check_command(receipts: Path, key: str | None) -> None:
    """Check a site's signed receipts: the signature, and ε from what it says it added."""
    from fedveil.report.model.number_texts import epsilon_text
    from fedveil.site.signed_receipts import read_signed_receipts

    read = read_signed_receipts(receipts, key)
    whose = "the key that you gave" if key else f"the key {read.key.hex}, which the file itself names"
    lifetime = read.policy.lifetime
    click.echo(f"{read.site}, {read.records:,} records: signed with {whose}")
    click.echo(f"  {read.sent:,} answers sent, {len(read.lines):,} paid for, {len(read.plans):,} plans; {read.made}")
    click.echo(
        f"  computed again: ε = {epsilon_text(read.spent)} of {read.policy.cell} at δ = {lifetime.delta:g},"
        f" of {lifetime.epsilon:g} for ever"
    )
    if read.policy.rehearsal:
        click.echo("  a rehearsal, which lets in plans that protect nothing")
    if len(read.plans) > 1:
        click.echo(
            "  as if all plans had been fixed before the first answer; the site's own ledger counts later ones more"
        )


@site_group.command("withdraw")
@click.argument("plan", metavar="HASH")
@home_option
@click.option("--yes", is_flag=True, help="Take it back without being asked.")
def site_withdraw_command(plan: str, home: Path, yes: bool) -> None:
    """Take back what was agreed to: a plan by its hash, or how it begins. What it has cost stays spent."""
    from fedveil.site.approval import withdraw
    from fedveil.site.home import SiteHome

    if not yes:
        ask_first(f"no longer answer questions under the plan {plan}?")
    name = withdraw(SiteHome(home), plan)
    click.echo(f"'{name}' is not agreed to any more; the coordinator hears so when it asks")


@site_group.command("renew")
@home_option
@click.option("--connection-only", is_flag=True, help="Keep the key that answers are signed with, and all plans.")
@click.option("--yes", is_flag=True, help="Do it without being asked.")
def site_renew_command(home: Path, connection_only: bool, yes: bool) -> None:
    """Make new keys. The ledger stays; without --connection-only every plan must be made and agreed to anew."""
    from fedveil.site.connection import renew
    from fedveil.site.home import SiteHome

    if not yes and not connection_only:
        ask_first("every plan of before ends for this site; make new keys?")
    made = renew(SiteHome(home), signature=not connection_only)
    then = "invite" if connection_only else "init, with a new plan"
    click.echo(f"{made.registration_file}: give this to the coordinator; there: fedveil federation {then}")


@site_group.command("serve")
@home_option
@click.option("--kit", type=click.Path(path_type=Path), help="What the transport starts from; HOME/kit if not given.")
def site_serve_command(home: Path, kit: Path | None) -> None:
    """Answer the coordinator's questions until interrupted."""
    from fedveil.cli.transports import serve
    from fedveil.site.connection import kit_of
    from fedveil.site.home import SiteHome
    from fedveil.site.serving import SiteServer

    site = SiteHome(home)
    place = kit or kit_of(site)
    with SiteServer(site, say=click.echo) as server:
        agreed = sum(map(server.ledger.agrees_to, server.ledger.approved))
        click.echo(f"site '{site.name}' is serving {agreed} {'plan' if agreed == 1 else 'plans'}")
        serve(place, server.answer, click.echo)


@site_group.command("status")
@home_option
@status_options
def site_status_command(home: Path, watch: bool, page: Path | None, as_json: bool) -> None:
    """What was asked, paid and sent, and what is left."""
    show_status(look_at_site(home), watch=watch, page=page, as_json=as_json)
