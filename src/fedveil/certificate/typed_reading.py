"""Frozen dataclasses ⇄ plain JSON values, by their annotations alone, and strict: nothing is coerced or left over.

A value of another type, a missing key, an unknown key or an unknown word of an enum is a `WrongValue` that names the
place. An infinite number is the text "inf". No class is ever looked up by a name that stands in a file.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from fedveil.core.errors import FedveilError

Read = TypeVar("Read")

INFINITE = "inf"


class WrongValue(ValueError):
    """What stands at a place is not what must stand there."""


def as_plain(value: Any) -> Any:
    """Ready for JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [as_plain(entry) for entry in value]
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        return INFINITE if value > 0 else f"-{INFINITE}"
    return value


def typed(value: Any, kind: type[Read], where: str) -> Read:
    """The dataclass that `as_plain` wrote, from what stands at `where`."""
    return _read(value, kind, where)  # type: ignore[no-any-return]


def _read(value: Any, kind: Any, where: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _read_union(value, inner, where)
    if origin is tuple:
        return _read_tuple(value, inner, where)
    if is_dataclass(kind) and isinstance(kind, type):
        return _read_table(value, kind, where)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _read_word(value, kind, where)
    if kind is float:
        return _read_number(value, where)
    if kind in (str, int, bool) and type(value) is kind:
        return value
    raise WrongValue(f"{where}: not {_NAMES.get(kind, 'what must stand there')}: {_short(value)}")


_NAMES = {str: "a text", int: "a whole number", bool: "true or false"}


def _read_union(value: Any, kinds: tuple[Any, ...], where: str) -> Any:
    """A type or nothing. Others are not needed, and would be guessing."""
    inner = [kind for kind in kinds if kind is not NoneType]
    if value is None and len(inner) < len(kinds):
        return None
    if len(inner) != 1:
        raise TypeError(f"{where}: no rule to choose among {inner}")
    return _read(value, inner[0], where)


def _read_tuple(value: Any, kinds: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise WrongValue(f"{where}: not a list: {_short(value)}")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_read(entry, kinds[0], f"{where}[{place}]") for place, entry in enumerate(value))
    if len(kinds) != len(value):
        raise WrongValue(f"{where}: {len(kinds)} entries are wanted, not {len(value)}")
    each = enumerate(zip(value, kinds, strict=True))
    return tuple(_read(entry, kind, f"{where}[{place}]") for place, (entry, kind) in each)


def _read_table(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, dict):
        raise WrongValue(f"{where}: not a table: {_short(value)}")
    known = _kinds_of(kind)
    unknown = sorted(value.keys() - known.keys())
    missing = sorted(known.keys() - value.keys())
    if unknown or missing:
        problem = f"unknown field {unknown[0]!r}" if unknown else f"the field {missing[0]!r} is missing"
        raise WrongValue(f"{where}: {problem[:80]}")
    read = {name: _read(value[name], its, f"{where}.{name}") for name, its in known.items()}
    try:
        return kind(**read)
    except (FedveilError, ValueError, TypeError, OverflowError) as error:  # what a class checks by itself
        raise WrongValue(f"{where}: {error}") from None


@cache
def _kinds_of(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    assert is_dataclass(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.init or field.default is MISSING}


def _read_word(value: Any, kind: type[StrEnum], where: str) -> StrEnum:
    if type(value) is not str or value not in {str(member) for member in kind}:
        raise WrongValue(f"{where}: unknown kind {_short(value)}; this version knows {', '.join(kind)}")
    return kind(value)


def _read_number(value: Any, where: str) -> float:
    if value == INFINITE:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongValue(f"{where}: not a number: {_short(value)}")
    return float(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
