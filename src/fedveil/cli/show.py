"""`show`: how runs went."""

from __future__ import annotations

from pathlib import Path

import click

from fedveil.cli.options import picture_option


@click.command("show")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@picture_option("The picture; default: RUN-course.png, or course.png for several runs.")
def show_command(runs: tuple[Path, ...], out: Path | None) -> None:
    """Draw accuracy, loss, update norms and what else rounds tell, for finished and unfinished runs."""
    from fedveil.studies.histories import show

    histories, picture = show(runs, out)
    for history in histories:
        click.echo(history.line)
    click.echo(f"picture: {picture}")
