"""The command line: parse, call, print. Nothing is decided here."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from fedveil.core.errors import FedveilError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("fedveil"), prog_name="fedveil")
def cli() -> None:
    """Differentially private federated learning: train, prove, attack."""


def _workers_option(command: Any) -> Any:
    return click.option("--workers", type=int, help="Worker processes; default: one per core.")(command)


def _json_option(command: Any) -> Any:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")(command)


@cli.command("run")
@click.argument("source", metavar="[PRESET|SPEC.toml]", default="fed-cdp")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a dotted key of the spec.")
@click.option("--rounds", type=int, help="Short for --set stop.rounds=N.")
@click.option("--seed", type=int, help="Reproducible, and therefore not private.")
@click.option("--out", type=click.Path(path_type=Path), help="Run directory; default: a new one under runs/.")
@_workers_option
@_json_option
def run_command(
    source: str,
    settings: tuple[str, ...],
    rounds: int | None,
    seed: int | None,
    out: Path | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Train a method (fed-cdp unless you name another) or a spec file."""
    from fedveil.experiment.layers import parse_setting
    from fedveil.experiment.run import run
    from fedveil.report.progress import ConsoleReporter

    overrides = dict(parse_setting(text) for text in settings)
    with ConsoleReporter(Console(stderr=True)) as reporter:
        result = run(source, overrides, rounds=rounds, seed=seed, out=out, workers=workers, reporter=reporter)
    _print_result(result.to_dict(), as_json)


@cli.command("resume")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@_workers_option
@_json_option
def resume_command(directory: Path, workers: int | None, as_json: bool) -> None:
    """Go on with an interrupted run."""
    from fedveil.experiment.run import resume
    from fedveil.report.progress import ConsoleReporter

    with ConsoleReporter(Console(stderr=True)) as reporter:
        result = resume(directory, workers=workers, reporter=reporter)
    _print_result(result.to_dict(), as_json)


@cli.command("methods")
@_json_option
def methods_command(as_json: bool) -> None:
    """List the methods that exist."""
    from fedveil.zoo import ZOO

    if as_json:
        click.echo(json.dumps([{"name": n, "paper": e.paper, "summary": e.summary} for n, e in ZOO.items()]))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("method", "what it does", "paper"):
        table.add_column(heading)
    for name, entry in ZOO.items():
        table.add_row(name, entry.summary, entry.paper)
    Console().print(table)


@cli.group("data")
def data_group() -> None:
    """Data sets: list, fetch, show who holds what."""


@data_group.command("list")
@_json_option
def data_list_command(as_json: bool) -> None:
    """List the data sets and whether their files are here and sound."""
    from fedveil.data.fetching import missing_files
    from fedveil.data.sources import CATALOGUE, data_directories

    lacking = {name: len(missing_files(name)) for name in CATALOGUE}
    if as_json:
        click.echo(json.dumps([{"name": name, "available": not count} for name, count in lacking.items()]))
        return
    for name, count in lacking.items():
        click.echo(f"{name:8}  {'here' if not count else f'missing: fedveil data fetch {name}'}")
    click.echo(f"looked in {' and '.join(str(directory) for directory in data_directories())}")


@data_group.command("fetch")
@click.argument("name")
def data_fetch_command(name: str) -> None:
    """Get a data set's files and verify them; what is here and sound is not fetched again."""
    from fedveil.data.fetching import fetch
    from fedveil.data.progress import progress_on

    with progress_on(sys.stderr) as progress:
        fetch(name, progress)
    click.echo(f"{name}: here and verified")


@data_group.command("show")
@click.argument("name")
@click.option("--clients", type=int, help="How many clients; default: the task's.")
@click.option("--records", type=int, help="Records per client.")
@click.option("--partition", help="shards, random, dirichlet or copy.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="E.g. data.partition.per_client=4.")
@click.option("--out", type=click.Path(path_type=Path), help="The picture; default: NAME-PARTITION.png.")
def data_show_command(
    name: str,
    clients: int | None,
    records: int | None,
    partition: str | None,
    settings: tuple[str, ...],
    out: Path | None,
) -> None:
    """Divide a data set over clients; print a summary and draw who holds which labels."""
    from fedveil.data.dataset import load
    from fedveil.data.picture import draw, summary
    from fedveil.experiment.files import disk_errors
    from fedveil.experiment.layers import parse_setting
    from fedveil.experiment.prepare import divide
    from fedveil.experiment.spec import resolve

    asked = {"data.clients": clients, "data.records": records, "data.partition": partition}
    overrides = {"data.name": name, **{key: value for key, value in asked.items() if value is not None}}
    spec = resolve("fedavg", overrides | dict(parse_setting(text) for text in settings)).data
    dataset = load(name)
    divided = divide(spec, dataset)
    path = out or Path(f"{name}-{spec.partition.kind}.png")
    with disk_errors(path):
        draw(divided, dataset.train.labels, dataset.classes, path, dataset.class_names)
    for line in summary(divided, dataset.train.labels, dataset.classes).lines():
        click.echo(line)
    click.echo(f"picture: {path}")


def _print_result(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result))
        return
    click.echo(
        f"{result['method']} on {result['data']}: accuracy {result['accuracy']:.4f}, loss {result['loss']:.4f}"
        f" after {result['rounds']} rounds in {result['seconds']:.1f} s"
    )
    if result["receipts"]:
        click.echo(f"noise: {result['receipts']:,} receipts, all as declared")
    if result["seeded"]:
        click.echo("not private: seeded")
    click.echo(f"run: {result['run']}")
    other = "fed-cdp" if result["method"] == "fedavg" else "fedavg"
    click.echo(f"next: fedveil run {other} --set data.name={result['data']}, or any other of `fedveil methods`")


def main() -> None:
    """Entry point: errors are one line, Ctrl-C is 130."""
    try:
        sys.exit(cli(standalone_mode=False) or 0)
    except FedveilError as error:
        _fail(str(error))
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except click.ClickException as error:
        _fail(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        click.echo("fedveil: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _fail(message: str) -> None:
    click.echo(f"fedveil: {' '.join(message.split())}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
