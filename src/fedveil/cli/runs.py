"""`run`, `resume`, `methods`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from fedveil.cli.options import json_option, out_option, parse_settings, settings_option, workers_option

if TYPE_CHECKING:
    from fedveil.runs.result import Result


@click.command("run")
@click.argument("source", metavar="[PRESET|SPEC.toml]", default="fed-cdp")
@settings_option
@click.option("--rounds", type=int, help="Short for --set stop.rounds=N.")
@click.option("--seed", type=int, help="Reproducible, and therefore not private.")
@out_option("Run directory; default: a new one under runs/.")
@workers_option
@json_option
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
    from fedveil.report.terminal.run_progress import ConsoleReporter
    from fedveil.runs.run import run

    overrides = parse_settings(settings)
    with ConsoleReporter(Console(stderr=True)) as reporter:
        result = run(source, overrides, rounds=rounds, seed=seed, out=out, workers=workers, reporter=reporter)
    print_result(result, as_json)


@click.command("resume")
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@workers_option
@json_option
def resume_command(directory: Path, workers: int | None, as_json: bool) -> None:
    """Go on with an interrupted run."""
    from fedveil.core.errors import FedveilError
    from fedveil.report.terminal.run_progress import ConsoleReporter
    from fedveil.runs.files import RunFiles
    from fedveil.runs.run import resume

    files = RunFiles(directory)
    finished = files.result.exists()
    with ConsoleReporter(Console(stderr=True)) as reporter:
        result = resume(directory, workers=workers, reporter=reporter)
        if finished and not files.ledger.is_file():
            raise FedveilError(f"{files.ledger}: the ledger is missing, so what was spent is not known")
        if finished:
            reporter.note("it is finished already; this is how it ended")
    print_result(result, as_json)


@click.command("methods")
@json_option
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


def print_result(ended: Result, as_json: bool) -> None:
    from fedveil.core.guarantee import SEEDED
    from fedveil.core.scores import FIGURES
    from fedveil.ledger.chain import SHORT_HEAD
    from fedveil.report.model.score_texts import figure_text, main_text, scores_text, useless_text, worst_text
    from fedveil.report.terminal.guarantee_lines import table_lines
    from fedveil.report.terminal.site_lines import site_lines

    result = ended.to_dict()
    if as_json:
        click.echo(json.dumps(result))
        return
    quality = main_text(None, ended.accuracy) if ended.scores is None else scores_text(ended.scores)
    click.echo(
        f"{result['method']} on {result['data']}: {quality}, loss {result['loss']:.4f}"
        f" after {result['rounds']} rounds in {result['seconds']:.1f} s"
    )
    for line in [] if ended.scores is None else [worst_text(ended.scores), useless_text(ended.scores)]:
        if line is not None:
            click.echo(line)
    if ended.diverged:
        click.echo("the training diverged: this model is worse than any guess; try a smaller local.rate")
    for name, figure in (("accuracy", FIGURES["accuracy"]), ("mae", FIGURES["mae"])):
        if result[f"personal_{name}"] is not None:
            own, shared = (figure_text(figure, result[f"{whose}_{name}"]) for whose in ("personal", "own"))
            click.echo(
                f"on the clients' own test sets, {figure.name}: their own models {own}, the global one {shared} (means"
                " over clients)"
            )
    if result["saved_bytes"]:
        share = result["saved_bytes"] / (result["saved_bytes"] + result["sent_bytes"])
        click.echo(f"clients sent {result['sent_bytes']:,} bytes, {share:.0%} less than whole updates")
    if result["receipts"]:
        click.echo(f"noise: {result['receipts']:,} receipts, all as declared")
    click.echo("\n".join([*table_lines("spent", ended.guarantees), *site_lines(ended.site_guarantees)]))
    if result["seeded"]:
        click.echo(SEEDED.text)
    if ended.ledger_head is not None:
        click.echo(f"ledger: head {ended.ledger_head[:SHORT_HEAD]}")
    click.echo(f"run: {result['run']}")
    where = shlex.quote(result["run"])
    click.echo(f"next: fedveil account {where}, fedveil show {where}, or any other of `fedveil methods`")
