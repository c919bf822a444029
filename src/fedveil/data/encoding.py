"""From the cells of a table to features and labels, by the schema alone and each row by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedveil.data.cells import NO_CATEGORY, NO_VALUE, CategoryCodes, Cells, numbers_of, text_of
from fedveil.data.schema import Column, FlagColumn, NumberColumn, Schema, feature_names

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class RowProblem:
    """A cell that the schema does not allow."""

    row: int
    column: str
    text: str


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """Features [N, F] of a column, or labels [N]; rows that the schema leaves out; what was missing or outside."""

    values: NDArray[Any]
    dropped: Mask
    missing: int
    outside: int
    problem: RowProblem | None


class ColumnEncoder:
    """Encodes the cells of one column, as features or, if it is the target, as labels."""

    def __init__(self, column: Column, missing_texts: tuple[str, ...], *, target: bool) -> None:
        self.column, self.target = column, target
        self._missing_texts = frozenset(text.strip() for text in missing_texts)
        self._codes: CategoryCodes | None = None
        if not isinstance(column, NumberColumn):
            fold = isinstance(column, FlagColumn)
            self._codes = CategoryCodes(column.spellings, self._missing_texts, fold=fold)

    @property
    def width(self) -> int:
        return len(feature_names(self.column))

    def encode(self, cells: Cells) -> EncodedColumn:
        if isinstance(self.column, NumberColumn):
            return self._numbers(self.column, cells)
        return self._categories(cells)

    def _numbers(self, column: NumberColumn, cells: Cells) -> EncodedColumn:
        numbers, missing = numbers_of(cells, self._missing_texts)
        unreadable = ~np.isfinite(numbers) & ~missing
        outside = ((numbers < column.low) | (numbers > column.high)) & ~unreadable
        scaled = scaled_numbers(np.where(missing | unreadable, column.low, numbers), column)
        scaled[missing] = 0.0
        values = scaled if self.target else self._features(scaled[:, None], missing)
        wrong = {"not a finite number": unreadable}
        if column.outside == "error":
            wrong[f"outside the range {column.low:g} to {column.high:g}"] = outside
        dropped = outside if column.outside == "drop" else np.zeros_like(missing)
        return self._result(values, cells, missing, outside, dropped, wrong)

    def _categories(self, cells: Cells) -> EncodedColumn:
        assert self._codes is not None
        assert not isinstance(self.column, NumberColumn)
        codes = self._codes.of(cells)
        missing, unknown = codes == NO_VALUE, codes == NO_CATEGORY
        values: NDArray[Any]
        if self.target:
            values = np.maximum(codes, 0)
        elif isinstance(self.column, FlagColumn):
            values = self._features((codes == 1)[:, None], missing)
        else:
            hot = np.zeros((len(codes), len(self.column.categories)), dtype=np.float32)
            present = np.flatnonzero(codes >= 0)
            hot[present, codes[present]] = 1.0
            if self.column.reference:
                hot = np.delete(hot, self.column.categories.index(self.column.reference), axis=1)
            absent = missing | unknown if self.column.outside == "missing" else missing
            values = self._features(hot, absent)
        if self.column.outside == "missing":
            missing = missing | unknown
        wrong = {"none of its categories": unknown} if self.column.outside == "error" else {}
        dropped = unknown if self.column.outside == "drop" else np.zeros_like(missing)
        return self._result(values, cells, missing, unknown, dropped, wrong)

    def _features(self, values: NDArray[Any], missing: Mask) -> NDArray[np.float32]:
        parts = [values] + ([missing[:, None]] if self.column.missing == "flag" else [])
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def _result(
        self,
        values: NDArray[Any],
        cells: Cells,
        missing: Mask,
        outside: Mask,
        dropped: Mask,
        wrong: Mapping[str, Mask],
    ) -> EncodedColumn:
        if self.column.missing == "error":
            wrong = {**wrong, "": missing}
        elif self.column.missing == "drop":
            dropped = dropped | missing
        first = min(((int(mask.argmax()), text) for text, mask in wrong.items() if mask.any()), default=None)
        problem = None
        if first is not None:
            row, text = first
            problem = RowProblem(row, self.column.name, _complaint(cells[row], text))
        return EncodedColumn(values, dropped, int(missing.sum()), int(outside.sum()), problem)


def _complaint(cell: object, text: str) -> str:
    if not text:
        return "is missing, and the schema does not allow that"
    shown = text_of(cell)
    hint = "; write 1.5, not 1,5" if shown is not None and _has_decimal_comma(shown) else ""
    return f"{(shown or '')[:40]!r} is {text}{hint}"


def _has_decimal_comma(text: str) -> bool:
    before, comma, after = text.strip().lstrip("+-").partition(",")
    return bool(comma) and before.isdecimal() and after.isdecimal()


def scaled_numbers(numbers: NDArray[np.float64], column: NumberColumn) -> NDArray[np.float32]:
    """Numbers on [−1, 1]: low becomes −1 and high 1, and what lies beyond them counts as one of them.

    With a reach above 1 they are cut at ±reach instead.
    """
    low, high, reach = column.low, column.high, column.reach
    if reach == 1:
        numbers = np.clip(numbers, low, high)
    if column.scale != "linear":
        numbers, low, high = np.log1p(np.maximum(numbers, 0.0)), float(np.log1p(low)), float(np.log1p(high))
    if column.scale == "amount":
        return np.minimum(numbers / high, reach).astype(np.float32)
    with np.errstate(over="ignore"):
        return np.clip(2.0 * ((numbers - low) / (high - low)) - 1.0, -reach, reach).astype(np.float32)


@dataclass(frozen=True, eq=False)
class EncodedBlock:
    """Some rows of a table, without those that the schema leaves out. `dropped` are the places of those."""

    inputs: NDArray[np.float32]
    labels: NDArray[Any] | None
    kept: Mask
    missing: Mapping[str, int]
    outside: Mapping[str, int]


class TableEncoder:
    """Encodes blocks of rows; which block a row stands in does not matter."""

    def __init__(self, schema: Schema, *, labelled: bool) -> None:
        self.schema = schema
        columns = schema.columns if labelled else schema.input_columns
        self._encoders = [
            ColumnEncoder(column, schema.missing_texts, target=column.name == schema.target) for column in columns
        ]

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return tuple(encoder.column.name for encoder in self._encoders)

    def encode(self, block: Mapping[str, Cells], rows: int, fail: Callable[[RowProblem], None]) -> EncodedBlock:
        """`fail` is called with the first row that the schema does not allow."""
        inputs = np.empty((rows, len(self.schema.features)), dtype=np.float32)
        labels, dropped, first = None, np.zeros(rows, dtype=np.bool_), 0
        columns: dict[str, EncodedColumn] = {}
        for encoder in self._encoders:
            encoded = columns[encoder.column.name] = encoder.encode(block[encoder.column.name])
            dropped |= encoded.dropped
            if encoder.target:
                labels = encoded.values
            else:
                inputs[:, first : first + encoder.width] = encoded.values
                first += encoder.width
        problems = [column.problem for column in columns.values() if column.problem is not None]
        if problems:
            fail(min(problems, key=lambda problem: problem.row))
        if dropped.any():
            inputs = inputs[~dropped]
            labels = None if labels is None else labels[~dropped]
        return EncodedBlock(
            inputs,
            labels,
            ~dropped,
            {name: column.missing for name, column in columns.items()},
            {name: column.outside for name, column in columns.items()},
        )
