"""A schema as a TOML file: read strictly, with errors that name the file and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import tomli_w

from fedveil.core.checks import FieldError
from fedveil.core.digests import text_digest
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.data.schema import CategoryColumn, Column, FlagColumn, NumberColumn, Schema

_LATER_KEYS = ("reach", "reference")

COLUMN_TYPES: dict[str, type[Column]] = {kind.kind: kind for kind in (NumberColumn, CategoryColumn, FlagColumn)}


def read_schema(path: str | Path) -> Schema:
    """The schema in a TOML file."""
    if not isinstance(path, str | Path):
        raise ArgumentError("path", f"must be the path of a schema, not {path!r}")
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FedveilError(f"{path}: can't be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise FedveilError(f"{path}: not a TOML file ({error})") from None
    return parse_schema(text, str(path))


def parse_schema(text: str, where: str) -> Schema:
    """The schema that a text says; `where` stands before the key in messages."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of too many digits is a plain ValueError
        raise FedveilError(f"{where}: not a TOML file ({error})") from None
    try:
        return _schema(table)
    except FieldError as error:
        raise FedveilError(f"{where}: {error.field}: {error.problem}") from None


def schema_toml(schema: Schema) -> str:
    """The file of a schema, everything spelt out: the same schema gives the same text."""
    head: dict[str, Any] = {"target": schema.target}
    head |= {"site": schema.site} if schema.site else {}
    head |= {"missing_texts": list(schema.missing_texts), "delimiter": schema.delimiter}
    columns = {column.name: _column_table(column) for column in schema.columns}
    columns |= {name: {"drop": True} for name in schema.dropped}
    return tomli_w.dumps({**head, "columns": columns})


def schema_digest(schema: Schema) -> str:
    """A hash by which encodings can be compared."""
    return text_digest(schema_toml(schema))


def _column_table(column: Column) -> dict[str, Any]:
    table: dict[str, Any] = {"type": column.kind}
    table |= {part.name: getattr(column, part.name) for part in fields(column) if part.name != "name"}
    for key in _LATER_KEYS:  # spelt out only where they say something: digests of older schemas stay as they are
        if key in table and table[key] == getattr(type(column), key):
            del table[key]
    if isinstance(column, CategoryColumn):
        spellings = table.pop("spellings")
        alike = all(texts == (name,) for name, texts in zip(column.categories, spellings, strict=True))
        if not alike:
            table["categories"] = dict(zip(column.categories, spellings, strict=True))
    return table


def _schema(table: Mapping[str, Any]) -> Schema:
    known = ("target", "site", "missing_texts", "delimiter", "columns")
    _check_keys("", table, known)
    columns = _read(table, "columns", "", _table, {})
    dropped, used = [], []
    for name, entry in columns.items():
        where = f"columns.{name}"
        if not isinstance(entry, dict):
            raise FieldError(where, f"expected a table, not {entry!r}")
        if _read(entry, "drop", where, _truth, False):
            _check_keys(where, entry, ("drop",))
            dropped.append(name)
        else:
            used.append(_column(name, entry, where))
    return Schema(
        columns=tuple(used),
        target=_read(table, "target", "", _text, ""),
        site=_read(table, "site", "", _text, ""),
        dropped=tuple(dropped),
        missing_texts=_read(table, "missing_texts", "", _texts, Schema.missing_texts),
        delimiter=_read(table, "delimiter", "", _text, Schema.delimiter),
    )


def _column(name: str, table: Mapping[str, Any], where: str) -> Column:
    kind = _read(table, "type", where, _text, "")
    if kind not in COLUMN_TYPES:
        raise FieldError(f"{where}.type", f"must be one of {', '.join(COLUMN_TYPES)}, not {kind!r}; or say drop = true")
    declared = COLUMN_TYPES[kind]
    readers = {part.name: _READERS[part.name] for part in fields(declared) if part.name not in ("name", "spellings")}
    _check_keys(where, table, ("type", "drop", *readers))
    values = {key: _read(table, key, where, read, None) for key, read in readers.items() if key in table}
    needed = {"number": ("low", "high"), "category": ("categories",), "flag": ()}[kind]
    for key in needed:
        if key not in values:
            raise FieldError(f"{where}.{key}", "is missing")
    if isinstance(values.get("categories"), dict):
        groups = values["categories"]
        values |= {"categories": tuple(groups), "spellings": tuple(groups.values())}
    try:
        return declared(name=name, **values)
    except FieldError as error:
        raise FieldError(f"{where}.{error.field}", error.problem) from None


def _read(table: Mapping[str, Any], key: str, where: str, read: Callable[[Any], Any], default: Any) -> Any:
    if key not in table:
        return default
    try:
        return read(table[key])
    except _Unexpected as error:
        raise FieldError(f"{where}.{key}".lstrip("."), f"expected {error}, not {table[key]!r}") from None


class _Unexpected(Exception):
    """A value of the wrong type; says what was expected."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Unexpected("a text")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Unexpected("true or false")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unexpected("a number")
    try:
        return float(value)
    except OverflowError:
        raise _Unexpected("a smaller number") from None


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unexpected("a table")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    """A list of texts; whole numbers are written as they stand in a file."""
    if not isinstance(value, list) or any(isinstance(one, bool) or not isinstance(one, str | int) for one in value):
        raise _Unexpected("a list of texts or whole numbers")
    return tuple(map(str, value))


def _categories(value: Any) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
    if isinstance(value, dict):
        return {name: _texts(texts) for name, texts in value.items()}
    return _texts(value)


def _check_keys(where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise FieldError(f"{where}.{key}".lstrip("."), f"unknown key; there are {', '.join(known)}")


_READERS: dict[str, Callable[[Any], Any]] = {
    "low": _number,
    "high": _number,
    "unit": _text,
    "scale": _text,
    "missing": _text,
    "outside": _text,
    "source": _text,
    "reach": _number,
    "reference": _text,
    "categories": _categories,
    "no": _texts,
    "yes": _texts,
}
