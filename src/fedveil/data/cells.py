"""The cells of a column as they stand in a table, and what they are: numbers, or places in a list of categories."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cells = Sequence[str | None] | NDArray[Any]
"""Texts (None: nothing is there), or an array of numbers in which NaN stands for nothing."""

NO_VALUE, NO_CATEGORY = -1, -2
"""Codes of cells in which there is nothing, and of those that are no category."""

_MOST_REMEMBERED = 10_000
_FIRST_INEXACT = 2.0**53
"""From here on neighbouring whole numbers are the same float."""


def texts_of(values: Iterable[object]) -> list[str | None]:
    """Any Python values as the texts that would stand for them in a file."""
    return [text_of(value) for value in values]


def text_of(value: object) -> str | None:
    """The text of one value; whole numbers have no point, since a missing value makes floats of a column of codes."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return None if math.isnan(value) else str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 10**300 else repr(math.copysign(math.inf, value))
    if isinstance(value, Decimal):
        return None if value.is_nan() else str(value)
    if isinstance(value, datetime.date):
        return value.isoformat() if value == value else None  # NaT is not equal to itself
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return None if value is None else str(value)


def as_number(text: str) -> float:
    """The number that a text says, NaN if it says none; `1_000` and `1,5` are none."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def plain_category(text: str) -> str:
    """The shortest text for a whole number (1 for 1.0), any other text as it is."""
    number = as_number(text)
    return str(int(number)) if number.is_integer() and abs(number) < _FIRST_INEXACT else text


def numbers_of(cells: Cells, missing_texts: frozenset[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers, NaN where there is none, and where nothing is there at all. Infinite numbers are left as they are."""
    if isinstance(cells, np.ndarray):
        numbers = cells.astype(np.float64)
        return numbers, np.isnan(numbers)
    if any(not math.isnan(as_number(text)) for text in missing_texts):
        cells = [None if cell is None else cell.strip() for cell in cells]  # ` -9` is missing where `-9` is
    absent = dict.fromkeys([*missing_texts, None], "nan")
    try:
        readable = cells if absent.keys().isdisjoint(cells) else [absent.get(cell, cell) for cell in cells]
        numbers = np.fromiter(map(float, readable), dtype=np.float64, count=len(cells))  # type: ignore[arg-type]
        if "_" in "".join(readable):  # type: ignore[arg-type]
            raise ValueError
    except ValueError:
        numbers = np.array([math.nan if cell is None else as_number(cell) for cell in cells], dtype=np.float64)
        for row, cell in enumerate(cells):
            if cell in absent:
                numbers[row] = math.nan
    missing = np.zeros(len(cells), dtype=np.bool_)
    for row in np.flatnonzero(np.isnan(numbers)).tolist():
        cell = cells[row]
        missing[row] = cell is None or cell.strip() in missing_texts
    return numbers, missing


class CategoryCodes(dict[str | None, int]):
    """From a cell to the place of its category. What was looked up is remembered, up to a number.

    A cell is compared without the spaces around it. Where no spelling is equal, whole numbers are compared as numbers:
    1.0 is 1. With `fold`, capitals do not matter.
    """

    def __init__(
        self, spellings: Sequence[Sequence[str]], missing_texts: frozenset[str], *, fold: bool = False
    ) -> None:
        super().__init__()
        self._codes = {
            (text.casefold() if fold else text): code for code, texts in enumerate(spellings) for text in texts
        }
        self._missing_texts, self._fold = missing_texts, fold

    def __missing__(self, cell: str | None) -> int:
        code = self._resolve(cell)
        if len(self) < _MOST_REMEMBERED:
            self[cell] = code
        return code

    def _resolve(self, cell: str | None) -> int:
        text = None if cell is None else cell.strip()
        if text is None or text in self._missing_texts:
            return NO_VALUE
        text = text.casefold() if self._fold else text
        if text in self._codes:
            return self._codes[text]
        return self._codes.get(plain_category(text), NO_CATEGORY)

    def of(self, cells: Cells) -> NDArray[np.int64]:
        """The code of every cell; `NO_VALUE` or `NO_CATEGORY` where there is no category."""
        if isinstance(cells, np.ndarray):
            different, places = np.unique(cells, return_inverse=True)
            return self.of(texts_of(different.tolist()))[places.reshape(-1)]
        return np.fromiter(map(self.__getitem__, cells), dtype=np.int64, count=len(cells))
