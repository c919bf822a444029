"""`reproduce`: the papers' tables and figures, made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console

from fedveil.cli.options import json_option, print_json, workers_option
from fedveil.core.errors import FedveilError


@click.command("reproduce")
@click.argument("name", required=False)
@click.option(
    "--scale",
    type=click.Choice(["small", "paper"]),
    default="small",
    show_default=True,
    help="small: minutes on two cores, same shape; paper: the full setting.",
)
@click.option("--only", multiple=True, metavar="ROW/COLUMN", help="Only these cells; * and ? as in file names.")
@click.option("--seeds", type=int, help="Repeat every training with the seeds 1 … N; default: as the table says.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/reproduce"),
    show_default=True,
    help="Directory of all reproductions: their runs, which they share, and NAME-SCALE for each.",
)
@click.option("--no-training", is_flag=True, help="Only write the table from the runs that are finished.")
@click.option("--page", type=click.Path(path_type=Path), help="Also write the page and its picture here: NAME.md.")
@workers_option
@json_option
def reproduce_command(
    name: str | None,
    scale: str,
    only: tuple[str, ...],
    seeds: int | None,
    out: Path,
    no_training: bool,
    page: Path | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Make a table or figure of the papers again; without a NAME: list them."""
    from fedveil.papers.reproduce import reproduce
    from fedveil.papers.reproduction import Scale
    from fedveil.report.model.reproduction_notes import shown_rows
    from fedveil.report.model.reproduction_tables import reproduction_table
    from fedveil.report.terminal.run_tables import plain_text
    from fedveil.report.terminal.series_progress import SeriesReporter

    if name is None:
        _list(as_json)
        return
    with SeriesReporter(Console(stderr=True)) as follower:
        reproduced = reproduce(
            name,
            follower=follower,
            scale=cast("Scale", scale),
            only=only,
            seeds=seeds,
            out=out,
            workers=workers,
            train=not no_training,
            page=page,
        )
    if as_json:
        print_json(reproduced.to_dict())
    else:
        if reproduced.asked:
            named = {(row["row"], row["column"]) for row in reproduced.asked} if only else set()
            click.echo(plain_text(*reproduction_table(shown_rows(reproduced.asked, named))))
        click.echo("\n".join(reproduced.notes))
        click.echo(
            f"{reproduced.out}: table.md, table.csv, picture.png"
            + (f"; page: {reproduced.page}" if reproduced.page else "")
        )
    if reproduced.failed:
        raise FedveilError(f"{len(reproduced.failed)} of the runs failed: {'; '.join(reproduced.failed)}")


def _list(as_json: bool) -> None:
    from fedveil.papers.time_estimates import listing
    from fedveil.report.terminal.wrapped_lines import wrapped

    reproductions: list[dict[str, Any]] = listing()
    if as_json:
        print_json({"reproductions": reproductions})
        return
    named = ("name", "small", "paper")
    widths = [max(len(key), *(len(str(one[key])) for one in reproductions)) for key in named]
    for row in ({key: key for key in (*named, "title")}, *reproductions):
        (first, *times), (wide, *others) = [str(row[key]) for key in named], widths
        flush_right = [text.rjust(width) for text, width in zip(times, others, strict=True)]
        line = "  ".join([first.ljust(wide), *flush_right, ""])
        click.echo("\n".join(wrapped(str(row["title"]), line, " " * len(line))))
    click.echo("times: one seed, roughly, on two cores")
