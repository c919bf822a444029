"""How a schema encodes its columns, in words and formulas for whoever writes that again in another language."""

from __future__ import annotations

from fedveil.data.schema import FROM_DATA, CategoryColumn, Column, NumberColumn, feature_names

PRIVATE_RANGE = "by what was read off private records; only schema.toml has it"


def column_meaning(column: Column) -> str:
    """What stands in a column: its range and unit, or its categories."""
    if column.source == FROM_DATA:
        return column.kind
    if isinstance(column, NumberColumn):
        return f"{column.low:g} to {column.high:g}{f' {column.unit}' if column.unit else ''}"
    return "; ".join(
        name if texts == (name,) else f"{name} ({', '.join(texts)})"
        for name, texts in zip(column.categories, column.spellings, strict=True)
    )


def column_encoding(column: Column) -> str:
    """The features of a column: their formula, and what a missing value becomes."""
    several = len(feature_names(column)) > 1
    missing = "; missing: 0, and the last feature is 1" if several and column.missing == "flag" else ""
    missing = "; missing: 0" if column.missing == "zero" else missing
    if column.source == FROM_DATA:
        return f"{PRIVATE_RANGE}{missing}"
    if isinstance(column, NumberColumn):
        low, high = f"{column.low:g}", f"{column.high:g}"
        if column.scale == "amount":
            return f"log(1 + x)/log(1 + {high}), at least 0 and at most {column.reach:g}{missing}"
        value, low, high = (
            ("log(1 + x)", f"log(1 + {low})", f"log(1 + {high})")
            if column.scale == "logarithm"
            else (
                "x",
                low,
                high,
            )
        )
        cut = "x cut to the range" if column.reach == 1 else f"cut to ±{column.reach:g}"
        return f"2·({value} − {low})/({high} − {low}) − 1, {cut}{missing}"
    if isinstance(column, CategoryColumn):
        but = f" but {column.reference}" if column.reference else ""
        return f"for each category{but} 1 or 0{missing}"
    return f"no: 0, yes: 1{missing}"
