"""`run`, `resume`, `methods`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from fedveil.cli.options import (
    json_option,
    out_option,
    parse_settings,
    print_json,
    settings_option,
    verbose_option,
    workers_option,
)

if TYPE_CHECKING:
    from fedveil.runs.result import Result
    from fedveil.runs.round_updates import OnRound, RoundUpdate

log_option = click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Choice(["csv", "tensorboard", "mlflow"]),
    help="Write figures and ε of every round there too.",
)


@contextmanager
def opened_logs(kinds: tuple[str, ...]) -> Iterator[OnRound | None]:
    """All of these logs as one; None where none is asked for."""
    if not kinds:
        yield None
        return
    from fedveil.runs.round_updates import round_log

    with ExitStack() as opened:
        logs = [opened.enter_context(round_log(kind)) for kind in dict.fromkeys(kinds)]

        def write(update: RoundUpdate) -> None:
            for log in logs:
                log(update)

        yield write


@click.command("run")
@click.argument("source", metavar="[PRESET|SPEC.toml]", default="fed-cdp")
@settings_option
@click.option("--rounds", type=int, help="Short for --set stop.rounds=N.")
@click.option("--seed", type=int, help="Reproducible, and therefore not private.")
@out_option("Run directory; default: a new one under runs/.")
@workers_option
@log_option
@verbose_option
@json_option
def run_command(
    source: str,
    settings: tuple[str, ...],
    rounds: int | None,
    seed: int | None,
    out: Path | None,
    workers: int | None,
    logs: tuple[str, ...],
    verbose: bool,
    as_json: bool,
) -> None:
    """Train a method (fed-cdp unless you name another) or a spec file."""
    from fedveil.config.spec import resolve
    from fedveil.report.terminal.run_progress import ConsoleReporter
    from fedveil.runs.outlook import files_of

    overrides = parse_settings(settings)
    if files_of(source, overrides) is None:
        resolve(source, overrides)  # what is wrong with it is said before PyTorch is loaded
    from fedveil.runs.run import run

    with opened_logs(logs) as on_round, ConsoleReporter(Console(stderr=True), verbose=verbose) as reporter:
        result = run(
            source,
            overrides,
            rounds=rounds,
            seed=seed,
            out=out,
            workers=workers,
            reporter=reporter,
            on_round=on_round,
        )
    print_result(result, as_json, verbose)


@click.command("resume")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@workers_option
@log_option
@verbose_option
@json_option
def resume_command(directory: Path, workers: int | None, logs: tuple[str, ...], verbose: bool, as_json: bool) -> None:
    """Go on with an interrupted run."""
    from fedveil.core.errors import FedveilError
    from fedveil.report.terminal.run_progress import ConsoleReporter
    from fedveil.runs.files import RunFiles
    from fedveil.runs.run import resume

    files = RunFiles(directory)
    finished = files.result.exists()
    with opened_logs(logs) as on_round, ConsoleReporter(Console(stderr=True), verbose=verbose) as reporter:
        result = resume(directory, workers=workers, reporter=reporter, on_round=on_round)
        if finished and not files.ledger.is_file():
            raise FedveilError(f"{files.ledger}: the ledger is missing, so what was spent is not known")
        if finished:
            reporter.note("it is finished already; this is how it ended")
    print_result(result, as_json, verbose)


@click.command("methods")
@json_option
def methods_command(as_json: bool) -> None:
    """List the methods that exist."""
    from fedveil.report.terminal.wrapped_lines import wrapped
    from fedveil.zoo import ZOO

    if as_json:
        print_json({"methods": [{"name": n, "paper": e.paper, "summary": e.summary} for n, e in ZOO.items()]})
        return
    width = max(map(len, ZOO)) + 2
    for name, entry in ZOO.items():
        click.echo("\n".join(wrapped(f"{entry.summary} ({entry.paper})", f"{name:{width}}", " " * width)))


def print_result(ended: Result, as_json: bool, verbose: bool = False, next_steps: Sequence[str] = ()) -> None:
    from fedveil.runs.result_lines import result_lines

    if as_json:
        print_json(ended.to_dict())
    else:
        click.echo("\n".join(result_lines(ended, verbose=verbose, next_steps=next_steps)))
