"""`schema draft`, `schema check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fedveil.cli.options import json_option, print_json
from fedveil.cli.row_progress import row_progress


@click.group("schema")
def schema_group() -> None:
    """What is publicly known of a table: make a first draft, check it."""


@schema_group.command("draft")
@click.argument("table", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--target", metavar="COLUMN", help="The column that is to be predicted.")
@click.option("--site", metavar="COLUMN", help="The column that says whose row it is.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("schema.toml"), show_default=True, help="The file to write."
)
def schema_draft_command(table: Path, target: str | None, site: str | None, out: Path) -> None:
    """Write a schema for a CSV or Parquet FILE, to be edited. What was read off the data in it is private."""
    from fedveil.core.atomic import write_whole
    from fedveil.core.errors import FedveilError
    from fedveil.data.schema_draft import draft_schema

    if out.exists():
        raise FedveilError(f"--out: {out} already exists; choose another, or remove it")
    with row_progress(table) as progress:
        text = draft_schema(table, target=target, site=site, progress=progress)
    write_whole(out, text.encode(), private=True)
    click.echo(f'{out}: replace every range and every list that is marked source = "data", then: fedveil schema check')


@schema_group.command("check")
@click.argument("schema", metavar="SCHEMA.toml", type=click.Path(path_type=Path))
@click.argument("tables", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@json_option
def schema_check_command(schema: Path, tables: tuple[Path, ...], as_json: bool) -> None:
    """Say what a schema makes of a table, and whether tables follow it."""
    from fedveil.data.encoded_table import read_table
    from fedveil.data.schema_checks import checked_schema, checked_table
    from fedveil.data.schema_file import read_schema

    read = read_schema(schema)
    facts: dict[str, Any] = {"schema": checked_schema(read), "tables": {}}
    for path in tables:
        with row_progress(path) as progress:
            facts["tables"][str(path)] = checked_table(read_table(path, read, progress=progress))
    if as_json:
        print_json(facts)
    else:
        click.echo("\n".join(_lines(schema, facts)))


def _lines(path: Path, facts: dict[str, Any]) -> list[str]:
    schema = facts["schema"]
    lines = [f"{path}: {len(schema['features'])} features predict {schema['target']} ({schema['predicts']})"]
    if schema["private_columns"]:
        lines.append(f"private until you replace what was read off the data: {', '.join(schema['private_columns'])}")
    for name, table in facts["tables"].items():
        lines.append(f"{name}: {table['rows']:,} rows follow it" + _listed(", left out", table["dropped"]))
        lines += [f"  sites: {', '.join(f'{site} {rows:,}' for site, rows in table['sites'].items())}"] * bool(
            table["sites"]
        )
        for column in schema["columns"]:
            counted = _listed(", missing", table["missing"].get(column, 0))
            counted += _listed(", outside the schema", table["outside"].get(column, 0))
            lines += [f"  {column}: {counted.removeprefix(', ')}"] if counted else []
        lines += [f"  not in the schema, so ignored: {', '.join(table['ignored'])}"] * bool(table["ignored"])
    return lines


def _listed(what: str, number: int) -> str:
    return f"{what} {number:,}" if number else ""
