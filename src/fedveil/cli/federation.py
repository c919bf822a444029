"""`federation init`, `federation invite`, `federation run`, `federation status`, `federation demo`."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console

from fedveil.cli.options import echo_wrapped, json_option, print_json
from fedveil.cli.status import look_at_coordinator, show_status, status_options

home_option = click.option(
    "--home",
    type=click.Path(path_type=Path),
    default=Path("federation"),
    show_default=True,
    help="The coordinator's directory.",
)


PORTS = click.IntRange(1, 65535)


@click.group("federation")
def federation_group() -> None:
    """Train over sites that keep their records: make a plan, run it, see how it stands."""


@federation_group.command("init")
@click.argument("settings", metavar="PLAN.toml", type=click.Path(path_type=Path))
@home_option
@click.option("--host", default="localhost", show_default=True, help="The name by which sites reach this machine.")
@click.option("--port", type=PORTS, default=8002, show_default=True, help="The port at which it listens.")
def federation_init_command(settings: Path, home: Path, host: str, port: int) -> None:
    """Make a plan from a spec, the registrations of sites, a schema and public records to measure on."""
    from fedveil.core.atomic import whole_folder
    from fedveil.federation.connecting import invite
    from fedveil.federation.planning import make_federation_plan, registration_files
    from fedveil.site.approval_lines import plan_lines

    with whole_folder(home):
        made = make_federation_plan(settings, home)
        invitations = invite(made, registration_files(settings), host, port)
    echo_wrapped(plan_lines(made.plan))
    for path in invitations:
        click.echo(f"{path}: give this to {path.stem}; there: fedveil site approve {path.name}")


@federation_group.command("invite")
@click.argument("registrations", metavar="[REGISTRATION.json]...", nargs=-1, type=click.Path(path_type=Path))
@home_option
@click.option("--host", help="Another name by which sites reach this machine; as before, if not given.")
@click.option("--port", type=PORTS, help="Another port; as before, if not given.")
def federation_invite_command(registrations: tuple[Path, ...], home: Path, host: str | None, port: int | None) -> None:
    """Invite to the same plan again: another address, a certificate that runs out, a new key of a connection."""
    from fedveil.federation.connecting import invite, invited_at
    from fedveil.federation.coordinator_home import CoordinatorHome

    coordinator = CoordinatorHome(home)
    old_host, old_port = invited_at(coordinator)
    with coordinator.held():
        invitations = invite(coordinator, registrations, host or old_host, port or old_port)
    for path in invitations:
        click.echo(f"{path}: give this to {path.stem}; there: fedveil site approve {path.name}")


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
    from fedveil.runtimes.in_process import InProcess
    from fedveil.runtimes.transport import Transport

    def heard(contact: Contact) -> None:
        if contact.problem and contact.round is not None:  # who does not join is told by the run itself
            click.echo(f"{contact.site}, round {contact.round + 1}: {contact.problem}: {contact.text}", err=True)

    coordinator = CoordinatorHome(home)
    plan = coordinator.plan
    names = frozenset(site.name for site in plan.sites)
    with coordinator.held(), ConsoleReporter(Console(stderr=True)) as reporter, ExitStack() as stack:
        transport: Transport = InProcess({})  # a training that has ended asks nobody
        if not coordinator.run.result.exists():
            opened = opened_transport(kit or coordinator.kit, names, plan.deadline, reporter.note)
            transport = stack.enter_context(opened)
        result = run_federation(coordinator, transport, reporter=reporter, heard=heard)
    where = shlex.quote(str(home))  # an attack would need the records, which are at their sites
    print_result(result, as_json, next_steps=[f"fedveil {command} {where}" for command in ("report", "certify")])


@federation_group.command("status")
@home_option
@status_options
def federation_status_command(home: Path, watch: bool, page: Path | None, as_json: bool) -> None:
    """Rounds, sites, what each has paid, what went wrong last."""
    show_status(look_at_coordinator(home), watch=watch, page=page, as_json=as_json)


@federation_group.command("demo")
@click.option("--out", type=click.Path(path_type=Path), default="federation-demo", show_default=True)
@json_option
def federation_demo_command(out: Path, as_json: bool) -> None:
    """Four hospitals on this machine, as real processes over mutual TLS: in a minute, all that a federation does."""
    from fedveil.federation.demonstration import demonstrate
    from fedveil.federation.federation_report import federation_facts
    from fedveil.report.model.number_texts import epsilon_text
    from fedveil.report.terminal.run_progress import ConsoleReporter
    from fedveil.site.site_report import site_report
    from fedveil.studies.report import report

    with ConsoleReporter(Console(stderr=True)) as reporter:
        demo = demonstrate(out, reporter, lambda line: click.echo(line, err=True))
    files = demo.home.run
    facts = {files.directory: federation_facts(demo.home)}
    page = report([files.directory], out / "report.html", federations=facts).path
    for site in demo.sites:
        site_report(site.directory, out / f"{site.name}.html")
    result = demo.result.to_dict()
    if as_json:
        summary = {"accuracy": result["accuracy"], "spent": demo.spent, "seconds": demo.seconds}
        print_json({**summary, "model": str(files.model), "report": str(page)})
        return
    click.echo(f"accuracy {result['accuracy']:.3f} on public records after {result['rounds']} rounds")
    for name, epsilon in demo.spent.items():
        click.echo(f"{name}: spent ε = {epsilon_text(epsilon)} by its own ledger; its report: {out / name}.html")
    click.echo(f"model: {files.model}")
    click.echo(f"report: {page}")
    click.echo(f"{demo.seconds:.0f} s; the directories of everybody are in {out}")
