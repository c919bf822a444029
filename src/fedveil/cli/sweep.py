"""`sweep`: a grid of settings."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from fedveil.cli.options import cell_options, json_option, parse_settings, print_json, settings_option, workers_option
from fedveil.core.errors import FedveilError


@click.command("sweep")
@click.argument("source", metavar="[PRESET|SPEC.toml]", default="fed-cdp")
@click.option("--over", multiple=True, required=True, metavar="KEY=V,V,…", help="A dotted key and its values.")
@click.option("--seeds", type=int, default=3, show_default=True, help="Repeat every point with the seeds 1 … N.")
@settings_option
@click.option("--rounds", type=int, help="Short for --set stop.rounds=N.")
@cell_options("The picture's ε; default: the first finite one of record × server and client × released.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Directory of the sweep; with the same one it goes on.",
)
@workers_option
@json_option
def sweep_command(
    source: str,
    over: tuple[str, ...],
    seeds: int,
    settings: tuple[str, ...],
    rounds: int | None,
    unit: str | None,
    view: str | None,
    out: Path,
    workers: int | None,
    as_json: bool,
) -> None:
    """Train a grid of settings, every point with several seeds; draw accuracy and verified ε over one or two keys."""
    from fedveil.report.terminal.series_progress import SeriesReporter
    from fedveil.report.terminal.study_lines import study_lines
    from fedveil.studies.sweep import parse_axis, sweep

    axes = [parse_axis(text) for text in over]
    with SeriesReporter(Console(stderr=True)) as follower:
        study = sweep(
            source,
            axes,
            parse_settings(settings),
            follower=follower,
            out=out,
            rounds=rounds,
            seeds=seeds,
            workers=workers,
            unit=unit,
            view=view,
        )
    if as_json:
        print_json(study.to_dict())
    else:
        click.echo("\n".join(study_lines(study.rows, study.keys, study.notes)))
        click.echo(f"picture: {study.picture or 'none, for more than two keys'}")
        click.echo(f"tables:  {study.out}/table.md, table.csv")
    if study.failed:
        raise FedveilError(f"{len(study.failed)} of the runs failed: {'; '.join(study.failed)}")
