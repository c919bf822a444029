"""`demo`: what fedveil does, in a minute."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from fedveil.cli.options import json_option, print_json


@click.command("demo")
@click.option("--out", type=click.Path(path_type=Path), default="fedveil-demo", show_default=True)
@click.option("--rounds", type=int, default=30, show_default=True, help="Of both trainings.")
@click.option(
    "--data", type=click.Choice(["mnist", "cancer"]), help="Default: mnist if it is here; cancer comes with fedveil."
)
@click.option("--open", "open_report", is_flag=True, help="Open the report in a browser.")
@json_option
def demo_command(out: Path, rounds: int, data: str | None, open_report: bool, as_json: bool) -> None:
    """In a minute: a gradient gives its record away, noise hides it, and a private model is nearly as good."""
    from fedveil.studies.showcase import showcase
    from fedveil.studies.showcase_screen import ShowcaseScreen, final_lines, kept_lines

    with ShowcaseScreen(Console(stderr=True)) as screen:
        try:
            shown = showcase(out, screen, rounds=rounds, data=data)
        except KeyboardInterrupt:
            screen.note("\n".join(kept_lines(out)))
            raise
    if as_json:
        print_json(shown.to_dict())
    else:
        click.echo("\n".join(final_lines(shown)))
    if open_report:
        click.launch(str(shown.report))
