"""`site init | approve | serve`: what a site does."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import click

from fedveil.core.types import Unit, View

_home = click.argument("home", metavar="DIRECTORY", type=click.Path(path_type=Path))


@click.group("site")
def site_group() -> None:
    """Take part in a federation with records that stay here: a site's part."""


@site_group.command("init")
@_home
@click.option("--name", required=True, help="The site's name: small letters, digits, dashes.")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="The site's own table.")
@click.option("--schema", type=click.Path(path_type=Path), required=True, help="How its rows are encoded.")
@click.option("--unit", type=click.Choice([str(unit) for unit in Unit]), default=str(Unit.RECORD), show_default=True)
@click.option("--view", type=click.Choice([str(view) for view in View]), default=str(View.SERVER), show_default=True)
@click.option("--epsilon", type=float, required=True, help="The most that one plan may cost.")
@click.option("--delta", type=float, required=True, help="δ of one plan.")
@click.option("--lifetime-epsilon", type=float, required=True, help="The most that all plans together may cost.")
@click.option("--lifetime-delta", type=float, required=True, help="δ of all plans together.")
@click.option("--rehearsal", is_flag=True, help="For records that are nobody's: let plans without noise in.")
def init_site_command(
    home: Path,
    name: str,
    data: Path,
    schema: Path,
    unit: str,
    view: str,
    epsilon: float,
    delta: float,
    lifetime_epsilon: float,
    lifetime_delta: float,
    rehearsal: bool,
) -> None:
    """Make a site's directory: keys, an empty ledger, and a registration for the coordinator."""
    from fedveil.accounting.context import Budget
    from fedveil.site.connection import add_request
    from fedveil.site.home import make_site
    from fedveil.site.policy import SitePolicy

    policy = SitePolicy(
        plan=Budget(epsilon, delta, Unit(unit), View(view)),
        lifetime=Budget(lifetime_epsilon, lifetime_delta, Unit(unit), View(view)),
        rehearsal=rehearsal,
    )
    site = make_site(home, name=name, data=data, schema=schema, policy=policy)
    add_request(site)
    click.echo(f"{site.name}: {site.registration.records} records, which stay here")
    click.echo(f"send to the coordinator: {site.registration_file} (nothing in it is secret)")


@site_group.command("approve")
@_home
@click.argument("invitation", metavar="INVITATION", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Agree without being asked.")
def approve_command(home: Path, invitation: Path, yes: bool) -> None:
    """Show what a plan costs this site, and agree to it or not."""
    from fedveil.config.federation_plan import read_plan
    from fedveil.report.terminal.guarantee_lines import table_lines
    from fedveil.runtimes.invitation import read_invitation
    from fedveil.site.approval import approve, examine
    from fedveil.site.connection import check_invitation, connect_to
    from fedveil.site.home import SiteHome

    site, invited = SiteHome(home), read_invitation(invitation)
    check_invitation(site, invited)
    plan = read_plan(invited.plan.encode())
    examined = examine(site, plan)
    click.echo(f"plan '{plan.name}': {plan.hash}")
    others = ", ".join(f"{one.name} ({one.records})" for one in plan.sites if one.name != site.name)
    click.echo(f"other sites, with their records: {others or 'none'}")
    click.echo("\n".join(table_lines("what it costs here", examined.table.guarantees)))
    policy, lifetime = examined.policy, examined.policy.lifetime
    click.echo(f"of {policy.cell}: ε = {examined.price:.3f}, and at most {policy.plan.epsilon:g} is allowed for a plan")
    click.echo(
        f"spent so far ε = {examined.spent:.3f}, after it {examined.after:.3f}, of {lifetime.epsilon:g} for ever"
    )
    if not yes:
        click.confirm("agree?", abort=True)
    approve(site, plan)
    connect_to(site, invited, plan)
    click.echo(f"agreed; next: fedveil site serve {shlex.quote(str(home))}")


@site_group.command("serve")
@_home
@click.option("--plan", metavar="HASH", help="Which of several plans; default: the one agreed to last.")
def serve_command(home: Path, plan: str | None) -> None:
    """Answer the coordinator's questions until interrupted with Ctrl-C."""
    from fedveil.site.connection import serve_home
    from fedveil.site.home import SiteHome

    serve_home(SiteHome(home), plan, lambda line: click.echo(f"{time.strftime('%H:%M:%S')} {line}"))
