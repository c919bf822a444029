"""`federation init`, `federation run`, `federation status`."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from fedveil.cli.options import json_option, shown, watch_option

home_option = click.option(
    "--home",
    type=click.Path(path_type=Path),
    default=Path("federation"),
    show_default=True,
    help="The coordinator's directory.",
)


@click.group("federation")
def federation_group() -> None:
    """Train over sites that keep their records: make a plan, run it, see how it stands."""


@federation_group.command("init")
@click.argument("settings", metavar="PLAN.toml", type=click.Path(path_type=Path))
@home_option
def federation_init_command(settings: Path, home: Path) -> None:
    """Make a plan from a spec, the registrations of sites, a schema and public records to measure on."""
    from fedveil.federation.planning import make_federation_plan
    from fedveil.site.approval_lines import plan_lines

    made = make_federation_plan(settings, home)
    click.echo("\n".join(plan_lines(made.plan)))
    click.echo(f"{made.plan_file}: give this to every site; there: fedveil site approve {made.plan_file.name}")


@federation_group.command("run")
@home_option
@click.option("--kit", type=click.Path(path_type=Path), help="What the transport starts from; HOME/kit if not given.")
@json_option
def federation_run_command(home: Path, kit: Path | None, as_json: bool) -> None:
    """Train by the plan, or go on with a training that was interrupted."""
    from fedveil.cli.runs import print_result
    from fedveil.cli.transports import opened_transport
    from fedveil.federation.coordinating import run_federation
    from fedveil.federation.coordinator_home import Contact, CoordinatorHome
    from fedveil.report.terminal.run_progress import ConsoleReporter

    def heard(contact: Contact) -> None:
        if contact.problem:
            when = "joining" if contact.round is None else f"round {contact.round}"
            click.echo(f"{contact.site}, {when}: {contact.problem}: {contact.text}", err=True)

    coordinator = CoordinatorHome(home)
    names = frozenset(site.name for site in coordinator.plan.sites)
    with (
        opened_transport(kit or home / "kit", names, coordinator.plan.deadline) as transport,
        ConsoleReporter(Console(stderr=True)) as reporter,
    ):
        result = run_federation(coordinator, transport, reporter=reporter, heard=heard)
    print_result(result, as_json)


@federation_group.command("status")
@home_option
@watch_option
@json_option
def federation_status_command(home: Path, watch: bool, as_json: bool) -> None:
    """Rounds, sites, what each has paid, what went wrong last."""
    from fedveil.federation.coordinator_home import CoordinatorHome
    from fedveil.federation.federation_status import federation_lines, federation_status

    coordinator = CoordinatorHome(home)
    if as_json:
        click.echo(json.dumps(federation_status(coordinator).to_dict()))
    else:
        shown(lambda: federation_lines(federation_status(coordinator)), watch)
