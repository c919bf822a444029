"""Tables ⇄ frozen dataclasses (cattrs), strict about types, with errors that name the key."""

from __future__ import annotations

import difflib
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_args

from cattrs import Converter, transform_error
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.strategies import configure_tagged_union

from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit
from fedveil.data.partitions import PartitionKind
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant, Schedule
from fedveil.parts.batches import BatchSampler
from fedveil.parts.cohorts import Cohort
from fedveil.parts.optimisers import Optimiser

Declared = TypeVar("Declared")
KINDS: tuple[UnionType, ...] = (Cohort, BatchSampler, Optimiser, PartitionKind, Schedule)


class _Wrong(Exception):
    """A value of the wrong type."""


def structure(table: Any, kind: type[Declared], where: str) -> Declared:
    """The dataclass `kind` from a table found at the key `where`."""
    if not isinstance(table, dict):
        raise FedveilError(f"{where}: expected a table, not {table!r}")
    try:
        return _CONVERTER.structure(table, kind)
    except Exception as error:
        if isinstance(error, FedveilError):
            raise FedveilError(f"{where}: {error}" if where else str(error)) from None
        problems = transform_error(error, path="", format_exception=_describe)
        raise FedveilError("; ".join(_located(problem, where) for problem in problems)) from None


def unstructure(value: Any) -> dict[str, Any]:
    """The table of a dataclass; absent parts are the word "none", since TOML has no null."""
    return _spell_out(_CONVERTER.unstructure(value))  # type: ignore[no-any-return]


def _spell_out(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _spell_out(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_spell_out(entry) for entry in value]
    return "none" if value is None else value


def _located(problem: str, where: str) -> str:
    message, _, path = problem.rpartition(" @ ")
    key = ".".join(part for part in (where, path.lstrip(".")) if part)
    return f"{key}: {message}" if key else message


def _describe(error: BaseException, kind: type | None) -> str:
    if isinstance(error, ForbiddenExtraKeysError):
        known = [entry.name for entry in fields(error.cl)] if is_dataclass(error.cl) else []
        unknown = ", ".join(sorted(error.extra_fields))
        close = difflib.get_close_matches(next(iter(error.extra_fields)), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known) or 'none'}"
        return f"unknown key {unknown}; {hint}"
    if isinstance(error, KeyError):
        return f"the key {error.args[0]} is missing"
    return str(error)


def _make_converter() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook(int, lambda value, _: _expect(value, int, "a whole number"))
    converter.register_structure_hook(float, lambda value, _: float(_expect(value, (int, float), "a number")))
    converter.register_structure_hook(str, lambda value, _: _expect(value, str, "a word"))
    converter.register_structure_hook(
        bool, lambda value, _: value if isinstance(value, bool) else _fail(value, "true or false")
    )
    converter.register_structure_hook(Unit, lambda value, _: _unit(value))
    for kinds in KINDS:
        configure_tagged_union(kinds, converter, tag_name="kind", tag_generator=lambda part: part.kind)
        _friendly_kind(converter, kinds)
    for optional, inner in ((int | None, int), (Gaussian | None, Gaussian)):
        _friendly_none(converter, optional, inner)
    return converter


def _friendly_kind(converter: Converter, kinds: UnionType) -> None:
    """A bare word names a kind with its defaults; a bare number is a constant schedule; unknown kinds are listed."""
    tagged = converter.get_structure_hook(kinds)
    spelt = converter.get_unstructure_hook(kinds)
    names = [member.kind for member in get_args(kinds)]

    def read(value: Any, _: Any) -> Any:
        if kinds is Schedule and isinstance(value, int | float) and not isinstance(value, bool):
            return Constant(float(value))
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, dict):
            _fail(value, f"a table with a kind ({', '.join(names)})")
        if value.get("kind") not in names:
            raise _Wrong(f"kind must be one of {', '.join(names)}, not {value.get('kind')!r}")
        return tagged(value, kinds)

    def write(value: Any) -> Any:
        return value.value if isinstance(value, Constant) else spelt(value)

    converter.register_structure_hook(kinds, read)
    converter.register_unstructure_hook(kinds, write)


def _friendly_none(converter: Converter, optional: Any, inner: type) -> None:
    def read(value: Any, _: Any) -> Any:
        return None if value is None or value == "none" else converter.structure(value, inner)

    converter.register_structure_hook(optional, read)


def _unit(value: Any) -> Unit:
    try:
        return Unit(value)
    except ValueError:
        raise _Wrong(f"must be {' or '.join(Unit)}, not {value!r}") from None


def _expect(value: Any, kind: type | tuple[type, ...], words: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, kind):
        _fail(value, words)
    return value


def _fail(value: Any, words: str) -> Any:
    raise _Wrong(f"expected {words}, not {value!r}")


_CONVERTER = _make_converter()
