"""Reading a whole table by its schema, block by block: features, labels, and whose rows they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedveil.core.checks import FieldError, plain_name
from fedveil.core.errors import FedveilError
from fedveil.data.cells import Cells, texts_of
from fedveil.data.dealing import Integers
from fedveil.data.encoding import EncodedBlock, RowProblem, TableEncoder
from fedveil.data.growing_array import GrowingArray
from fedveil.data.schema import Schema
from fedveil.data.table_sources import BLOCK_ROWS, Block, TableSource, check_columns, open_table

Labels = Integers | NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """Features [N, F] in [−1, 1], labels [N], and for each row the place of its site in `site_names`.

    Labels are places of classes, or numbers on [−1, 1] (`Schema.task`). `rows` counts all rows of the table; those in
    `dropped` were left out by the schema. `missing` and `outside` count values by column, for the owner of the table:
    they are statistics of its records. `ignored` columns are not in the schema.
    """

    schema: Schema
    inputs: NDArray[np.float32]
    labels: Labels | None
    site_names: tuple[str, ...]
    site_of_row: Integers | None
    rows: int
    dropped: Integers
    ignored: tuple[str, ...]
    missing: Mapping[str, int]
    outside: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.inputs)

    def of_site(self, name: str) -> EncodedTable:
        """The rows of one site, in their order."""
        if self.site_of_row is None or name not in self.site_names:
            raise FedveilError(f"there is no site {name!r}; there are {', '.join(self.site_names) or 'none'}")
        mine = np.flatnonzero(self.site_of_row == self.site_names.index(name))
        labels = None if self.labels is None else self.labels[mine]
        return replace(self, inputs=self.inputs[mine], labels=labels, site_names=(), site_of_row=None, rows=len(mine))


def read_table(
    source: object,
    schema: Schema,
    *,
    labelled: bool = True,
    sited: bool = True,
    block_rows: int = BLOCK_ROWS,
    progress: Callable[[int], None] | None = None,
) -> EncodedTable:
    """A CSV file, a Parquet file or a pandas DataFrame, encoded by a schema.

    Only a block of rows is held as it stands in the file. Without `labelled` the target is not looked for, and without
    `sited` the column that names the site is not.
    `progress` is called with the number of rows that were read. A row that the schema does not allow is an error that
    says where it stands.
    """
    table = open_table(source, schema.delimiter)
    encoder = TableEncoder(schema, labelled=labelled)
    sited = bool(sited and schema.site)
    needed = [*encoder.needed, *([schema.site] if sited else [])]
    others = check_columns(table, needed)
    known = {schema.site, schema.target, *schema.dropped}
    inputs = GrowingArray((len(schema.features),), np.float32)
    labels = GrowingArray((), np.int64 if schema.target_column.kind != "number" else np.float32)
    sites, site_of_row = _SiteNames(table.name), GrowingArray((), np.int32)
    dropped: list[Integers] = []
    missing, outside = Counter[str](), Counter[str]()
    rows = 0
    for block, encoded in encoded_blocks(table, encoder, needed, block_rows):
        inputs.add(encoded.inputs)
        if encoded.labels is not None:
            labels.add(encoded.labels)
        if sited:
            site_of_row.add(sites.places(block, schema.site, frozenset(schema.missing_texts))[encoded.kept])
        dropped.append(rows + np.flatnonzero(~encoded.kept))
        missing.update(encoded.missing)
        outside.update(encoded.outside)
        rows += block.rows
        if progress is not None:
            progress(rows)
    if not rows:
        raise FedveilError(f"{table.name}: has no rows")
    return EncodedTable(
        schema=schema,
        inputs=inputs.finish(),
        labels=labels.finish() if labelled else None,
        site_names=sites.names,
        site_of_row=site_of_row.finish() if sited else None,
        rows=rows,
        dropped=np.concatenate(dropped).astype(np.int64),
        ignored=tuple(name for name in others if name not in known),
        missing=dict(missing),
        outside=dict(outside),
    )


def encoded_blocks(
    table: TableSource, encoder: TableEncoder, columns: Sequence[str], block_rows: int = BLOCK_ROWS
) -> Iterator[tuple[Block, EncodedBlock]]:
    """The blocks of a table, as they stand there and encoded. `columns` has those that the encoder needs."""
    for block in table.blocks(columns, block_rows):
        yield block, encoder.encode(block.columns, block.rows, _raise_at(table.name, block))


def _raise_at(table: str, block: Block) -> Callable[[RowProblem], None]:
    def fail(problem: RowProblem) -> None:
        raise FedveilError(f"{table}, {block.place(problem.row)}, column {problem.column!r}: {problem.text}")

    return fail


class _SiteNames:
    """The sites in the order in which they are met."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._places: dict[str, int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._places)

    def places(self, block: Block, column: str, missing_texts: frozenset[str]) -> NDArray[Any]:
        cells: Cells = block.columns[column]
        texts = texts_of(cells.tolist()) if isinstance(cells, np.ndarray) else cells
        places = np.empty(len(texts), dtype=np.int32)
        for row, text in enumerate(texts):
            name = "" if text is None else text.strip()
            place = self._places.get(name)
            if place is None:
                where = f"{self._table}, {block.place(row)}, column {column!r}"
                if text is None or name in missing_texts:
                    raise FedveilError(f"{where}: is missing, so whose row it is can't be told")
                try:
                    plain_name("the site", name)
                except FieldError as error:
                    raise FedveilError(f"{where}: {error}") from None
                place = self._places[name] = len(self._places)
            places[row] = place
        return places
