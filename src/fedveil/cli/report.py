"""`report`: one page about runs."""

from __future__ import annotations

from pathlib import Path

import click

from fedveil.cli.options import json_option, print_json


@click.command("report")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default="report.html", show_default=True, help="The page.")
@click.option("--without-pictures", is_flag=True, help="Leave out reconstructions, which show training records.")
@click.option(
    "--for-release", is_flag=True, help="Leave out whatever no guarantee covers, and who took part: a page to publish."
)
@json_option
def report_command(runs: tuple[Path, ...], out: Path, without_pictures: bool, for_release: bool, as_json: bool) -> None:
    """Write one HTML page about runs, finished or not: what was trained, what is guaranteed, what attacks got."""
    from fedveil.studies.report import report

    written = report(runs, out, pictures=not without_pictures, release=for_release)
    if as_json:
        print_json(written.to_dict())
        return
    for run in written.runs:
        state = "" if run.status.state == "finished" else " (unfinished)"
        click.echo(f"{run.name}: {run.status.published} of {run.status.planned} rounds{state}")
        for problem in run.problems:
            click.echo(f"  {problem}")
    click.echo(f"report: {written.path}")
