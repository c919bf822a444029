"""`federation init | run | demo`: what a coordinator does."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
from rich.console import Console

from fedveil.cli.options import json_option


@click.group("federation")
def federation_group() -> None:
    """Train with sites that keep their records: the coordinator's part."""


@federation_group.command("init")
@click.argument("plan", metavar="PLAN.toml", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new directory of the coordinator's.")
@click.option("--host", default="localhost", show_default=True, help="The name by which sites reach this machine.")
@click.option("--port", type=int, default=8002, show_default=True, help="The port at which it listens.")
def init_command(plan: Path, out: Path, host: str, port: int) -> None:
    """Make a plan of a spec and the sites' registrations, and an invitation for each site."""
    import tomllib

    from fedveil.federation.connecting import invite
    from fedveil.federation.planning import make_federation_plan

    home = make_federation_plan(plan, out)
    listed = tomllib.loads(plan.read_text(encoding="utf-8"))["federation"]["sites"]
    invitations = invite(home, [plan.parent / one for one in listed], host, port)
    click.echo(f"plan '{home.plan.name}': {home.plan.hash}")
    for path in invitations:
        click.echo(f"send to {path.stem}: {path}")
    click.echo(f"next: fedveil federation run {shlex.quote(str(out))}, when sites have agreed and are serving")


@federation_group.command("run")
@click.argument("home", metavar="DIRECTORY", type=click.Path(path_type=Path))
@json_option
def run_federation_command(home: Path, as_json: bool) -> None:
    """Train by the plan with the sites that are serving, or go on with a training that was interrupted."""
    from fedveil.cli.runs import print_result
    from fedveil.federation.connecting import run_connected
    from fedveil.federation.coordinator_home import CoordinatorHome
    from fedveil.report.terminal.run_progress import ConsoleReporter

    with ConsoleReporter(Console(stderr=True)) as reporter:
        result = run_connected(CoordinatorHome(home), reporter=reporter)
    print_result(result, as_json)


@federation_group.command("demo")
@click.option("--out", type=click.Path(path_type=Path), default="federation-demo", show_default=True)
@json_option
def demo_command(out: Path, as_json: bool) -> None:
    """Four hospitals on this machine, as real processes over mutual TLS: in a minute, all that a federation does."""
    from fedveil.federation.demonstration import demonstrate
    from fedveil.report.terminal.run_progress import ConsoleReporter
    from fedveil.studies.report import report

    with ConsoleReporter(Console(stderr=True)) as reporter:
        shown = demonstrate(out, reporter, lambda line: click.echo(line, err=True))
    run = shown.home.run.directory
    page = report([run], out / "report.html").path
    if as_json:
        summary = {"accuracy": shown.result.to_dict()["accuracy"], "spent": shown.spent, "seconds": shown.seconds}
        click.echo(json.dumps({**summary, "model": str(shown.home.run.model), "report": str(page)}))
        return
    result = shown.result.to_dict()
    click.echo(f"accuracy {result['accuracy']:.3f} on public records after {result['rounds']} rounds")
    for name, epsilon in shown.spent.items():
        click.echo(f"{name}: spent ε = {epsilon:.2f} by its own ledger")
    click.echo(f"model: {shown.home.run.model}")
    click.echo(f"report: {page}")
    click.echo(f"{shown.seconds:.0f} s")
