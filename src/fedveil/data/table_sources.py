"""Tables as people have them, read a block of rows at a time: CSV files, Parquet files, pandas DataFrames.

CSV needs nothing but Python. Parquet needs pyarrow, which comes with the extra `fedveil[tables]`.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np

from fedveil.core.errors import FedveilError
from fedveil.data.cells import Cells, texts_of

BLOCK_ROWS = 2_048
"""Small enough for the cells of a block to stay in the processor's cache: twice as fast as 32,768."""
DELIMITERS = (",", ";", "\t", "|")


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows: the cells of each column, and where a row stands in its table, in words."""

    columns: Mapping[str, Cells]
    rows: int
    place: Callable[[int], str]


class TableSource(Protocol):
    """A table that can be read once from its beginning."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    def header(self) -> list[str]:
        """The names of its columns."""

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[Block]:
        """The named columns, so many rows at a time."""


def open_table(source: object, delimiter: str = ",") -> TableSource:
    """A CSV or Parquet file by the ending of its name, or a pandas DataFrame."""
    if isinstance(source, str | Path):
        path = Path(source)
        if path.is_dir():
            raise FedveilError(f"{path}: a directory, not a table")
        return ParquetFile(path) if path.suffix in (".parquet", ".pq") else CsvFile(path, delimiter)
    if type(source).__name__ == "DataFrame" and type(source).__module__.partition(".")[0] == "pandas":
        return FrameTable(source)
    kind = f"{type(source).__module__}.{type(source).__name__}".removeprefix("builtins.")
    raise FedveilError(f"a table must be the path of a CSV or Parquet file or a pandas DataFrame, not {kind}")


def check_columns(table: TableSource, needed: Sequence[str]) -> list[str]:
    """Refuse a table that lacks a column, or has it twice. The result are the names of its other columns."""
    header = table.header()
    counted = Counter(header)
    for name in needed:
        if counted[name] > 1:
            raise FedveilError(f"{table.name}: has the column {name!r} {counted[name]} times")
    lacking = [name for name in needed if not counted[name]]
    if lacking:
        several = "s" if len(lacking) > 1 else ""
        there = ", ".join(map(repr, header[:20])) + (", …" if len(header) > 20 else "")
        hint = ""
        if len(header) == 1 and (other := [mark for mark in DELIMITERS if mark in header[0]]):
            hint = f"; if its fields are separated by {other[0]!r}, say so in the schema: delimiter = {other[0]!r}"
        names = ", ".join(map(repr, lacking[:20]))
        raise FedveilError(f"{table.name}: lacks the column{several} {names}; it has {there}{hint}")
    return [name for name in dict.fromkeys(header) if name not in set(needed)]


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FedveilError(f"{path}: can't be read ({error.strerror or error})") from None
    except UnicodeDecodeError:
        raise FedveilError(f"{path}: not a text in UTF-8; save it as CSV in UTF-8") from None


@dataclass(frozen=True)
class CsvFile:
    """A CSV file in UTF-8 whose first line names the columns. Fields may be quoted; empty lines are skipped."""

    path: Path
    delimiter: str = ","

    @property
    def name(self) -> str:
        return str(self.path)

    def header(self) -> list[str]:
        with self._open() as file:
            return self._header(self._reader(file))

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[Block]:
        with self._open() as file:
            reader = self._reader(file)
            header = self._header(reader)
            places = {name: header.index(name) for name in columns}
            while True:
                first = reader.line_num + 1
                lines = self._next(reader, rows)
                if not lines:
                    return
                full = [line for line in lines if line]  # an empty line has no fields
                starts = _LineNumbers(first, lines)
                self._check_widths(full, len(header), starts)
                cells = list(zip(*full, strict=True)) or [()] * len(header)
                yield Block({name: cells[place] for name, place in places.items()}, len(full), starts.place)

    def _check_widths(self, rows: list[list[str]], width: int, starts: _LineNumbers) -> None:
        if set(map(len, rows)) - {width}:
            row, fields = next((row, len(line)) for row, line in enumerate(rows) if len(line) != width)
            counted = f"{fields} field{'s' if fields > 1 else ''}"
            raise FedveilError(f"{self.path}, {starts.place(row)}: has {counted}, and the header has {width}")

    @contextmanager
    def _open(self) -> Iterator[TextIO]:
        with _readable(self.path), open(self.path, encoding="utf-8-sig", newline="") as file:
            yield file

    def _reader(self, file: TextIO) -> Any:
        return csv.reader(file, delimiter=self.delimiter, strict=True)

    def _header(self, reader: Any) -> list[str]:
        for line in iter(lambda: self._next(reader, 1), []):
            if line[0]:
                return [name.strip() for name in line[0]]
        raise FedveilError(f"{self.path}: is empty; its first line must name the columns")

    def _next(self, reader: Any, rows: int) -> list[list[str]]:
        try:
            return list(islice(reader, rows))
        except csv.Error as error:
            raise FedveilError(f"{self.path}, line {reader.line_num}: not CSV ({error})") from None


@dataclass(frozen=True)
class _LineNumbers:
    """The line in which each row of a block begins; a quoted field may hold line ends."""

    first: int
    lines: list[list[str]]

    def place(self, row: int) -> str:
        number, rows = self.first, -1
        for line in self.lines:
            rows += bool(line)
            if rows == row:
                break
            number += 1 + sum(len(re.findall(r"\r\n|\r|\n", field)) for field in line)
        return f"line {number}"


def _row_place(first: int) -> Callable[[int], str]:
    return lambda row: f"row {first + row + 1}"


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file, read in batches of its rows."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def header(self) -> list[str]:
        with self._open() as file:
            return list(file.schema_arrow.names)

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[Block]:
        done = 0
        with self._open() as file:
            for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
                cells = {name: _arrow_cells(batch.column(name)) for name in columns}
                yield Block(cells, batch.num_rows, _row_place(done))
                done += batch.num_rows

    @contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise FedveilError(
                f"{self.path}: reading Parquet needs pyarrow; install it: pip install 'fedveil[tables]'"
            ) from None
        with _readable(self.path):
            try:
                with parquet.ParquetFile(self.path) as file:
                    yield file
            except (ArrowException, OSError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                raise FedveilError(f"{self.path}: not a Parquet file ({' '.join(str(error).split())[:200]})") from None


def _arrow_cells(column: Any) -> Cells:
    from pyarrow import types

    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return texts_of(column.to_pylist())


@dataclass(frozen=True, eq=False)
class FrameTable:
    """A pandas DataFrame. Its index is not looked at."""

    frame: Any
    name: str = "DataFrame"

    def header(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[Block]:
        places = {name: self.header().index(name) for name in columns}
        for first in range(0, len(self.frame), rows):
            part = self.frame.iloc[first : first + rows]
            cells = {name: _series_cells(part.iloc[:, place]) for name, place in places.items()}
            yield Block(cells, len(part), _row_place(first))


def _series_cells(series: Any) -> Cells:
    if getattr(series.dtype, "kind", "O") in "iuf" and isinstance(series.dtype, np.dtype):
        return np.asarray(series.to_numpy())
    absent = series.isna().tolist()
    return texts_of(None if gone else value for gone, value in zip(absent, series.tolist(), strict=True))
