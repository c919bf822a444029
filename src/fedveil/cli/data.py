"""`data list`, `data fetch`, `data show`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fedveil.cli.options import json_option, parse_settings, picture_option, print_json, settings_option


@click.group("data")
def data_group() -> None:
    """Data sets: list, fetch, show who holds what."""


@data_group.command("list")
@json_option
def data_list_command(as_json: bool) -> None:
    """List the data sets and whether their files are here and sound."""
    from fedveil.data.known_sets import SETS
    from fedveil.data.sources import data_directories

    lacking = {name: len(one.missing_files()) for name, one in SETS.items()}
    if as_json:
        print_json({"sets": [{"name": name, "available": not count} for name, count in lacking.items()]})
        return
    for name, count in lacking.items():
        click.echo(f"{name:8}  {'here' if not count else f'missing: fedveil data fetch {name}'}")
    click.echo(f"looked in {' and '.join(str(directory) for directory in data_directories())}")


@data_group.command("fetch")
@click.argument("name")
def data_fetch_command(name: str) -> None:
    """Get a data set's files and verify them; what is here and sound is not fetched again."""
    from fedveil.data.download_progress import progress_on
    from fedveil.data.fetching import fetch

    with progress_on(sys.stderr) as progress:
        fetch(name, progress)
    click.echo(f"{name}: here and verified")


@data_group.command("show")
@click.argument("name")
@click.option("--clients", type=int, help="How many clients; default: the task's.")
@click.option("--records", type=int, help="Records per client.")
@click.option("--partition", help="sites, shards, random, dirichlet or copy.")
@settings_option
@picture_option("The picture; default: NAME-PARTITION.png.")
def data_show_command(
    name: str,
    clients: int | None,
    records: int | None,
    partition: str | None,
    settings: tuple[str, ...],
    out: Path | None,
) -> None:
    """Divide a data set over clients; print a summary and draw who holds which labels."""
    from fedveil.config.public_facts import divide, load_for
    from fedveil.config.spec import resolve
    from fedveil.core.atomic import disk_errors
    from fedveil.data.partition_picture import draw_partition, summarise_partition

    asked = {"data.clients": clients, "data.records": records, "data.partition": partition}
    overrides = {"data.name": name, **{key: value for key, value in asked.items() if value is not None}}
    spec = resolve("fedavg", overrides | parse_settings(settings)).data
    dataset = load_for(spec)
    divided = divide(spec, dataset.outline)
    path = out or Path(f"{spec.name}-{spec.partition.kind}.png")
    with disk_errors(path):
        draw_partition(divided, dataset.train.labels, dataset.classes, path, dataset.class_names)
    for line in summarise_partition(divided, dataset.train.labels, dataset.classes).lines():
        click.echo(line)
    click.echo(f"picture: {path}")
