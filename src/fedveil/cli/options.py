"""Options that several commands share."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from fedveil.core.types import Unit, View

Command = TypeVar("Command", bound=Callable[..., Any])


def settings_option(command: Command) -> Command:
    help = "Change a dotted key of the spec."
    return click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=help)(command)


def workers_option(command: Command) -> Command:
    return click.option("--workers", type=int, help="Worker processes; default: one per core.")(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")(command)


def verbose_option(command: Command) -> Command:
    help = "Say everything: the whole promise, what was composed, by which accountant."
    return click.option("--verbose", "-v", is_flag=True, help=help)(command)


JSON_VERSION = 1
"""Of all that `--json` prints. It grows when a field goes or changes its meaning; new fields may come at any time."""


def print_json(table: Mapping[str, Any]) -> None:
    """One JSON object, which says of which version it is."""
    click.echo(json_text({"version": JSON_VERSION, **table}))


def json_text(table: Mapping[str, Any]) -> str:
    """In one line. `json_outputs` says what stands in it; the tests look at whatever they see printed."""
    return json.dumps(table)


def keep_option(command: Command) -> Command:
    help = "Whether a RUN's directory keeps the result, for `fedveil report`."
    return click.option("--keep/--no-keep", default=True, show_default=True, help=help)(command)


def out_option(help: str) -> Callable[[Command], Command]:
    return click.option("--out", type=click.Path(path_type=Path), help=help)


def picture_option(help: str) -> Callable[[Command], Command]:
    return click.option("--out", type=click.Path(path_type=Path), callback=_picture, help=help)


def _picture(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Anything else would be drawn under another name, or not at all."""
    if path is not None and path.suffix.lower() != ".png":
        raise click.BadParameter(f"{path}: a picture is a PNG file, as in {path.with_suffix('.png')}")
    return path


def choice(values: Iterable[str]) -> click.Choice[str]:
    """One of these values, as plain text (an enum would show its class)."""
    return click.Choice([str(value) for value in values])


def cell_options(help: str) -> Callable[[Command], Command]:
    """--unit and --view, for a cell of the privacy table."""

    def both(command: Command) -> Command:
        return click.option("--unit", type=choice(Unit), help=help)(
            click.option("--view", type=choice(View), help="See --unit.")(command)
        )

    return both


def echo_wrapped(lines: Iterable[str]) -> None:
    """Print lines; on a terminal those that are too long for it are broken between words."""
    from fedveil.report.terminal.wrapped_lines import paragraphs

    width = shutil.get_terminal_size().columns
    click.echo("\n".join(paragraphs(lines, width) if sys.stdout.isatty() else lines))


def parse_settings(settings: tuple[str, ...]) -> dict[str, Any]:
    from fedveil.config.merge import parse_setting

    return dict(parse_setting(text) for text in settings)
