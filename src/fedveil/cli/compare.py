"""`compare`: several methods on one task."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from fedveil.cli.options import (
    cell_options,
    json_option,
    out_option,
    parse_settings,
    print_json,
    settings_option,
    workers_option,
)
from fedveil.core.errors import FedveilError


@click.command("compare")
@click.argument("sources", metavar="[PRESET|SPEC.toml]...", nargs=-1)
@click.option("--methods", metavar="A,B,C", help="More methods, by name.")
@settings_option
@click.option("--rounds", type=int, help="Short for --set stop.rounds=N.")
@click.option("--seed", type=int, help="Reproducible, and therefore not private.")
@click.option("--seeds", type=int, help="Repeat every method with the seeds 1 … N, and give mean and deviation.")
@cell_options("The picture's ε; default: the first finite one of record × server and client × released.")
@out_option("Directory of the comparison; with the same one it goes on. Default: a new one under runs/.")
@workers_option
@json_option
def compare_command(
    sources: tuple[str, ...],
    methods: str | None,
    settings: tuple[str, ...],
    rounds: int | None,
    seed: int | None,
    seeds: int | None,
    unit: str | None,
    view: str | None,
    out: Path | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Train several methods on one task; draw accuracy over rounds and over verified ε."""
    from fedveil.report.terminal.series_progress import SeriesReporter
    from fedveil.report.terminal.study_lines import study_lines
    from fedveil.studies.compare import compare
    from fedveil.studies.series import count_seeds

    if seed is not None and seeds is not None:
        raise FedveilError("--seed and --seeds: give one of them")
    named = [name.strip() for name in methods.split(",")] if methods is not None else []
    if not all(named):
        raise FedveilError(f"--methods {methods}: expected names with commas between them")
    repeated = count_seeds(seeds) if seeds is not None else None if seed is None else (seed,)
    with SeriesReporter(Console(stderr=True)) as follower:
        study = compare(
            [*sources, *named],
            parse_settings(settings),
            follower=follower,
            rounds=rounds,
            seeds=repeated,
            out=out,
            workers=workers,
            unit=unit,
            view=view,
        )
    if as_json:
        print_json(study.to_dict())
    else:
        click.echo("\n".join(study_lines(study.rows, remarks=study.notes)))
        click.echo(f"picture: {study.picture}\ntables:  {study.out}/table.md, table.csv")
    if study.failed:
        raise FedveilError(f"{len(study.failed)} of the runs failed: {'; '.join(study.failed)}")
