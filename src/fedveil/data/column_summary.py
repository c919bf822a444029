"""What can be said of a column by looking at its cells. All of it is private: it comes from records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from fedveil.data.cells import Cells, as_number, plain_category, texts_of
from fedveil.data.schema import FlagColumn

ALSO_MISSING = ("N/A", "NaN", "nan", "null", "NULL")
"""What programs write for a missing value besides the texts that a schema takes for one."""

MOST_CATEGORIES = 50

_FLAGS = FlagColumn(name="any")
_NO, _YES = frozenset(_FLAGS.no), frozenset(_FLAGS.yes)


@dataclass
class ColumnSummary:
    """Extremes, different texts (up to one more than `MOST_CATEGORIES`), and what is missing, block by block."""

    missing_texts: tuple[str, ...]
    rows: int = 0
    missing: int = 0
    numbers: int = 0
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    whole: bool = True
    texts: dict[str, None] = field(default_factory=dict)
    no_number: str | None = None  # the first text that is not a finite number
    seen_missing: set[str] = field(default_factory=set)

    def add(self, cells: Cells) -> None:
        texts = texts_of(cells.tolist()) if isinstance(cells, np.ndarray) else cells
        self.rows += len(texts)
        for text in texts:
            value = None if text is None else text.strip()
            if value is None or value in self.missing_texts or value in ALSO_MISSING:
                self.missing += 1
                self.seen_missing.update([] if value is None else [value])
                continue
            if len(self.texts) <= MOST_CATEGORIES:
                self.texts[plain_category(value)] = None
            number = as_number(value)
            if not math.isfinite(number):
                self.no_number = self.no_number or value
                continue
            self.numbers += 1
            self.low, self.high = min(self.low, number), max(self.high, number)
            self.total += number
            self.whole = self.whole and number.is_integer()

    @property
    def present(self) -> int:
        return self.rows - self.missing

    @property
    def numeric(self) -> bool:
        return bool(self.present) and self.numbers == self.present

    @property
    def by_factors(self) -> bool:
        """Whether these are amounts of which most are far below the largest: incomes, prices, counts."""
        return self.low >= 0 and self.high > 1000 * max(1.0, self.low) and 10 * self.total < self.high * self.numbers

    @property
    def few(self) -> bool:
        """Whether all its texts are known."""
        return len(self.texts) <= MOST_CATEGORIES

    @property
    def flags(self) -> bool:
        """Whether it has nothing but texts for yes and no, and of both one."""
        folded = {text.casefold() for text in self.texts}
        return len(folded) == 2 and len(folded & _NO) == 1 and len(folded & _YES) == 1
