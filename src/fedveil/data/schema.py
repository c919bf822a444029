"""What is publicly known of a table: its columns, their ranges and categories, what is to be predicted.

A table is encoded by its schema alone, so every site encodes alike and a record's features depend on that record only.
A number becomes one feature in [−1, 1], a flag one that is 0 or 1, a category one feature for each of its values, 0 or
1. Where a value may be missing, the column has one more feature, which is 1 where it is, and its others are 0.
(Flags are not −1 and 1: of many flags most say no, and a row of many −1 would be long without saying much. Private
training cuts the gradients of long rows.)
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from fedveil.core.checks import LARGEST, FieldError, one_of
from fedveil.core.openness import Openness
from fedveil.core.tasks import Classification, Regression, Task

DOCUMENTED, FROM_DATA = "documented", "data"
"""Where the ranges and categories of a column come from. What was read off records is private until it is replaced."""

LONGEST_TEXT = 1000


@dataclass(frozen=True, kw_only=True)
class NumberColumn:
    """A number between `low` and `high`, in a unit. `scale` = "logarithm" is for amounts that differ by factors.

    `scale` = "amount" is for those of which most are 0: its feature is 0 there, too, and 1 at `high`, by logarithms.
    `missing`: "error", "flag" (a feature of its own), "zero" (all features are 0), or "drop" (the row is left out).
    `outside` says the same of a number beyond the range: "error", "clip" (it counts as the nearest bound), or "drop".
    Features of clipped numbers lie within ±`reach`: 1 clips at the bounds.
    """

    name: str
    low: float
    high: float
    unit: str = ""
    scale: str = "linear"
    missing: str = "error"
    outside: str = "error"
    source: str = DOCUMENTED
    reach: float = 1.0
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        _check_column(self.name, self.missing, self.source)
        one_of("scale", self.scale, ("linear", "logarithm", "amount"))
        if self.unit:
            _check_text("unit", self.unit)
        one_of("outside", self.outside, ("error", "clip", "drop"))
        for field, value in (("low", self.low), ("high", self.high)):
            if not abs(value) <= LARGEST:
                raise FieldError(field, f"must be a finite number, not {value}")
            object.__setattr__(self, field, float(value))  # 20 and 20.0 are one schema, with one digest
        if not 1 <= self.reach <= LARGEST:
            raise FieldError("reach", f"must be a number from 1 on, not {self.reach}")
        object.__setattr__(self, "reach", float(self.reach))
        if self.reach > 1 and self.outside != "clip":
            raise FieldError("reach", f"is for outside = 'clip', not {self.outside!r}")
        if not self.low < self.high:
            raise FieldError("high", f"must be above low = {self.low:g}, not {self.high:g}")
        if self.scale == "logarithm" and self.low < 0:
            raise FieldError("low", f"must not be negative with scale = 'logarithm', not {self.low:g}")
        if self.scale == "amount" and self.low != 0:
            raise FieldError("low", f"must be 0 with scale = 'amount', not {self.low:g}")
        if self.scale == "logarithm" and not math.log1p(self.low) < math.log1p(self.high):
            raise FieldError("high", "is too near to low for scale = 'logarithm'")

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the features, without that of a missing value."""
        return (self.name,)


@dataclass(frozen=True, kw_only=True)
class CategoryColumn:
    """One of several named categories. `spellings` has for each what stands for it in a file.

    `outside` is for what is none of them: "error", "missing" (it counts as missing), or "drop" (the row is left out).
    `reference` names the category that has no feature of its own: all the others are 0.
    """

    name: str
    categories: tuple[str, ...]
    spellings: tuple[tuple[str, ...], ...] = ()
    missing: str = "error"
    outside: str = "error"
    source: str = DOCUMENTED
    reference: str = ""
    kind: ClassVar[str] = "category"

    def __post_init__(self) -> None:
        _check_column(self.name, self.missing, self.source)
        one_of("outside", self.outside, ("error", "missing", "drop"))
        if self.outside == "missing" and self.missing == "error":
            raise FieldError("outside", "is 'missing', so missing must be 'flag', 'zero' or 'drop'")
        if not self.spellings:
            object.__setattr__(self, "spellings", tuple((name,) for name in self.categories))
        if not self.categories or len(self.spellings) != len(self.categories) or not all(self.spellings):
            raise FieldError("categories", "must be a list of names, or a table of names and lists of spellings")
        for text in (*self.categories, *(text for texts in self.spellings for text in texts)):
            _check_text("categories", text)
        _no_text_twice("categories", self.categories)
        _no_text_twice("categories", [text for texts in self.spellings for text in texts])
        if self.reference and (self.reference not in self.categories or len(self.categories) < 2):
            raise FieldError("reference", f"must be one of two or more categories, not {self.reference!r}")

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(f"{self.name} = {category}" for category in self.categories if category != self.reference)


@dataclass(frozen=True, kw_only=True)
class FlagColumn:
    """Yes or no. The texts that mean it are compared without regard to capitals."""

    name: str
    no: tuple[str, ...] = ("no", "false", "0", "n", "f")
    yes: tuple[str, ...] = ("yes", "true", "1", "y", "t")
    missing: str = "error"
    source: str = DOCUMENTED
    kind: ClassVar[str] = "flag"
    categories: ClassVar[tuple[str, ...]] = ("no", "yes")
    outside: ClassVar[str] = "error"

    def __post_init__(self) -> None:
        _check_column(self.name, self.missing, self.source)
        for field, texts in (("no", self.no), ("yes", self.yes)):
            if not texts:
                raise FieldError(field, "must be a list of texts, and not empty")
            for text in texts:
                _check_text(field, text)
        _no_text_twice("yes", [text.casefold() for text in (*self.no, *self.yes)])

    @property
    def values(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def spellings(self) -> tuple[tuple[str, ...], ...]:
        return (self.no, self.yes)


Column = NumberColumn | CategoryColumn | FlagColumn


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The columns of a table in the order of their features. `target` is the column that is to be predicted.

    `site` names the column that says whose row it is, where one table has the rows of several sites. `dropped` columns
    are known and not used. `missing_texts` stand for a missing value.
    """

    columns: tuple[Column, ...]
    target: str
    site: str = ""
    dropped: tuple[str, ...] = ()
    missing_texts: tuple[str, ...] = ("", "?", "NA")
    delimiter: str = ","

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        _no_text_twice("columns", [*names, *self.dropped])
        if not self.target:
            raise FieldError("target", "is missing; name the column that is to be predicted")
        if self.target not in names:
            raise FieldError("target", f"must be one of the columns, not {self.target!r}")
        if self.site in names or (self.site and self.site in self.dropped):
            raise FieldError("site", f"names {self.site!r}, which stands among the columns, too; leave it out there")
        if len(names) < 2:
            raise FieldError("columns", "has nothing but the target; describe what it is to be predicted from")
        if self.delimiter not in (",", ";", "\t", "|"):
            raise FieldError("delimiter", f"must be ',', ';', '|' or a tab, not {self.delimiter!r}")
        known = {text for column in self.columns if column.kind != "number" for text in _texts_of(column)}
        if clash := sorted(known & set(self.missing_texts)):
            raise FieldError("missing_texts", f"has {clash[0]!r}, which is also a value of a column")
        self._check_target()

    def _check_target(self) -> None:
        where = f"columns.{self.target}"
        if self.target_column.missing in ("flag", "zero"):
            raise FieldError(f"{where}.missing", "must be 'error' or 'drop': this is the target")
        if isinstance(self.target_column, NumberColumn) and self.target_column.scale != "linear":
            raise FieldError(f"{where}.scale", "must be 'linear': this is the target")
        if isinstance(self.target_column, NumberColumn) and self.target_column.reach != 1:
            raise FieldError(f"{where}.reach", "must be 1: this is the target")
        if isinstance(self.target_column, CategoryColumn) and len(self.target_column.categories) < 2:
            raise FieldError(f"{where}.categories", "needs at least 2: this is the target")
        if isinstance(self.target_column, CategoryColumn) and self.target_column.reference:
            raise FieldError(f"{where}.reference", "must be left out: this is the target")

    @cached_property
    def target_column(self) -> Column:
        return next(column for column in self.columns if column.name == self.target)

    @cached_property
    def input_columns(self) -> tuple[Column, ...]:
        """What features are made of: all columns but the target."""
        return tuple(column for column in self.columns if column.name != self.target)

    @property
    def task(self) -> Task:
        column = self.target_column
        if isinstance(column, NumberColumn):
            return Regression(column.low, column.high, column.unit)
        return Classification(column.categories)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of the encoded features, in their order."""
        return tuple(name for column in self.input_columns for name in feature_names(column))

    @property
    def private_columns(self) -> tuple[str, ...]:
        """The columns whose ranges or categories were read off records, and so are private until they are replaced."""
        return tuple(column.name for column in self.columns if column.source == FROM_DATA)

    @property
    def openness(self) -> Openness:
        """Whether features are made with public constants alone."""
        return Openness.PRIVATE if self.private_columns else Openness.PUBLIC


def feature_names(column: Column) -> tuple[str, ...]:
    """What the features of one column are called."""
    return column.values + ((f"{column.name} missing",) if column.missing == "flag" else ())


def _texts_of(column: Column) -> list[str]:
    return [] if isinstance(column, NumberColumn) else [text for texts in column.spellings for text in texts]


def _check_column(name: str, missing: str, source: str) -> None:
    _check_text("name", name)
    one_of("missing", missing, ("error", "flag", "zero", "drop"))
    one_of("source", source, (DOCUMENTED, FROM_DATA))


def _check_text(field: str, text: str) -> None:
    if text != text.strip() or not text.isprintable() or not 0 < len(text) <= LONGEST_TEXT:
        raise FieldError(field, f"must be printable texts without spaces at their ends, not {text!r}")


def _no_text_twice(field: str, texts: list[str] | tuple[str, ...]) -> None:
    repeated = [text for text, number in Counter(texts).items() if number > 1]
    if repeated:
        raise FieldError(field, f"has {repeated[0]!r} twice")
