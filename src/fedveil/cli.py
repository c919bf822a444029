"""The command line: parse, call, print. Nothing is decided here."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from fedveil import __version__
from fedveil.core.errors import FedveilError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fedveil")
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
    overrides |= {} if rounds is None else {"stop.rounds": rounds}
    overrides |= {} if seed is None else {"seed": seed}
    with ConsoleReporter(Console(stderr=True)) as reporter:
        result = run(source, overrides, out=out, workers=workers, reporter=reporter)
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


def main() -> None:
    """Entry point: errors are one line, Ctrl-C is 130."""
    try:
        sys.exit(cli(standalone_mode=False) or 0)
    except FedveilError as error:
        _fail(str(error))
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; what was published is safe: `fedveil resume RUN` goes on", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _fail(message: str) -> None:
    click.echo(f"fedveil: {' '.join(message.split())}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
