"""From tables to the examples of each site: one table with a column that names the site, or a table for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fedveil.core.deferred import torch
from fedveil.core.errors import FedveilError
from fedveil.data.encoded_table import EncodedTable, read_table
from fedveil.data.examples import Examples
from fedveil.data.schema import Schema

SiteProgress = Callable[[str, int], None]
"""Called with what is being read, the name of a site or of a table, and the number of its rows so far."""


def table_examples(table: EncodedTable) -> Examples:
    """The rows of a table as tensors, without copying them."""
    if table.labels is None:
        raise FedveilError("a table without labels can't be trained on")
    return Examples(torch.from_numpy(table.inputs), torch.from_numpy(table.labels))


def examples_by_site(
    source: object | Mapping[str, object], schema: Schema, *, progress: SiteProgress | None = None
) -> dict[str, Examples]:
    """The examples of every site, encoded by one schema and so alike.

    `source` is one table whose column `Schema.site` names the site of each row, or a mapping from names of sites to
    tables of their own, in which that column is not looked for. Tables are as for `read_table`.
    """
    if isinstance(source, Mapping):
        return {name: own_table(f"site {name!r}", table, schema, progress) for name, table in source.items()}
    if not schema.site:
        raise FedveilError(
            "schema: site: is missing; name the column that says whose row it is, or give each site a table"
        )
    report = progress and _for_table("table", progress)
    whole = read_table(source, schema, progress=report)
    if not len(whole):
        raise FedveilError(f"{_called(source)}: the schema leaves no row of it")
    assert whole.site_of_row is not None
    if len(whole.site_names) == 1:
        return {whole.site_names[0]: table_examples(whole)}
    present = np.unique(whole.site_of_row)  # the schema may leave out every row of a site
    lacking = [name for place, name in enumerate(whole.site_names) if place not in present]
    if lacking:
        raise FedveilError(f"{_called(source)}: the schema leaves no row of the site {lacking[0]!r}")
    return {name: table_examples(whole.of_site(name)) for name in whole.site_names}


def own_table(where: str, source: object, schema: Schema, progress: SiteProgress | None = None) -> Examples:
    """A table that is one site's alone; `where` is what it is called in messages."""
    try:
        table = read_table(source, schema, sited=False, progress=progress and _for_table(where, progress))
    except FedveilError as error:
        raise FedveilError(f"{where}: {error}") from None
    if not len(table):
        raise FedveilError(f"{where}: {_called(source)}: the schema leaves no row of it")
    return table_examples(table)


def _called(source: object) -> str:
    return str(source) if isinstance(source, str) or hasattr(source, "__fspath__") else type(source).__name__


def _for_table(name: str, progress: SiteProgress) -> Callable[[int], None]:
    return lambda rows: progress(name, rows)
