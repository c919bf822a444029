"""`status`: how a site or a coordinator stands, once or again and again, on the terminal or on a page."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedveil.cli.options import Command, json_option, print_json
from fedveil.cli.roles import Role, role_of

if TYPE_CHECKING:
    from fedveil.report.model.status_facts import StatusFacts

PAUSE = 2.0
"""Seconds between two looks; three times as long as a look takes, where that is more."""

Look = Callable[[], tuple["StatusFacts", dict[str, Any]]]
"""How things stand now: to be shown, and ready for JSON."""

PLACES = (Path("."), Path("fedveil-site"), Path("federation"))
"""Where `status` looks when it is not told: here, and in the directories that `init` makes."""


def status_options(command: Command) -> Command:
    """--watch, --page and --json."""
    watch = click.option("--watch", is_flag=True, help="Look again every two seconds, until interrupted.")
    page = click.option(
        "--page",
        type=click.Path(path_type=Path),
        help="Write a page that refreshes itself; with --watch, again and again.",
    )
    return watch(page(json_option(command)))


@click.command("status")
@click.argument("directory", metavar="[DIRECTORY]", required=False, type=click.Path(path_type=Path))
@status_options
def status_command(directory: Path | None, watch: bool, page: Path | None, as_json: bool) -> None:
    """How a site or a coordinator stands: by default the one whose directory is here."""
    if directory is None:
        known = [path for path in PLACES if role_of(path) is not None]
        if len(known) != 1:
            why = "there is none here" if not known else f"there are {' and '.join(map(str, known))}"
            raise click.UsageError(f"say which directory of a site or a coordinator you mean: {why}")
        (directory,) = known
    role = role_of(directory)
    if role is None:
        raise click.UsageError(f"{directory}: neither a site's directory nor a coordinator's")
    look = look_at_site(directory) if role is Role.SITE else look_at_coordinator(directory)
    show_status(look, watch=watch, page=page, as_json=as_json)


def look_at_site(directory: Path) -> Look:
    from fedveil.site.home import SiteHome
    from fedveil.site.site_status import site_facts, site_status

    site = SiteHome(directory)

    def look() -> tuple[StatusFacts, dict[str, Any]]:
        status = site_status(site)
        return site_facts(status), status.to_dict()

    return look


def look_at_coordinator(directory: Path) -> Look:
    from fedveil.federation.coordinator_home import CoordinatorHome
    from fedveil.federation.federation_status import federation_status, federation_summary

    home = CoordinatorHome(directory)

    def look() -> tuple[StatusFacts, dict[str, Any]]:
        status = federation_status(home)
        return federation_summary(status), status.to_dict()

    return look


def show_status(look: Look, *, watch: bool, page: Path | None, as_json: bool) -> None:
    """Once, or until interrupted, which ends it quietly, or until nothing changes any more."""
    from fedveil.report.terminal.status_screen import screen_lines
    from fedveil.report.terminal.wrapped_lines import COLUMNS

    if as_json and watch:
        raise click.UsageError("--json prints one look; leave --watch out")
    looks = 0
    try:
        while True:
            begun = time.monotonic()
            facts, table = look()
            if page is not None:
                _write_page(facts, page)
            if as_json:
                print_json(table)
                return
            lines = screen_lines(facts, min(shutil.get_terminal_size().columns, COLUMNS))
            lines += [] if page is None else [f"page: {page}"]
            if watch and looks == 0:
                click.clear()
            _show(lines, over_the_last=looks > 0)
            looks += 1
            if not watch or facts.over:
                return
            time.sleep(max(PAUSE, 3 * (time.monotonic() - begun)))
    except KeyboardInterrupt:
        if not watch:
            raise


def _show(lines: list[str], *, over_the_last: bool) -> None:
    """In one piece, in place of what was shown before: nothing flickers."""
    if not sys.stdout.isatty():
        click.echo("\n".join(lines) + "\n" * over_the_last)
        return
    start = "\x1b[H" if over_the_last else ""
    click.echo(start + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J", nl=False)


def _write_page(facts: StatusFacts, page: Path) -> None:
    import datetime
    from importlib.metadata import version

    from fedveil.core.atomic import write_whole
    from fedveil.core.errors import ArgumentError
    from fedveil.report.page.status_page import status_page_html

    if page.is_dir() or not page.parent.is_dir():
        raise ArgumentError("page", f"{page} can't be written ({'is' if page.is_dir() else 'is not in'} a directory)")
    made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    write_whole(page, status_page_html(facts, made=made, version=version("fedveil")).encode(), private=True)
