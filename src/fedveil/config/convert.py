"""Tables ⇄ frozen dataclasses (cattrs), strict about types, with errors that name the key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from types import UnionType
from typing import Any, TypeVar, get_args

from cattrs import Converter, transform_error
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.strategies import configure_tagged_union

from fedveil.config.key_synonyms import synonym_of
from fedveil.config.merge import ABSENT
from fedveil.core.checks import FieldError
from fedveil.core.errors import FedveilError
from fedveil.core.objectives import Objective
from fedveil.core.openness import Openness
from fedveil.core.suggestions import did_you_mean
from fedveil.core.types import Unit, View
from fedveil.data.partitions import PartitionKind
from fedveil.data.picture_format import PictureFormat
from fedveil.mechanisms.clip import Bound
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant, Schedule
from fedveil.parts.batches import BatchSampler
from fedveil.parts.cohorts import Cohort
from fedveil.parts.compression import Compression
from fedveil.parts.optimisers import Optimiser
from fedveil.parts.personal import Personalisation

Declared = TypeVar("Declared")
KINDS: tuple[UnionType, ...] = (
    Schedule,  # first: others have schedules among their fields
    Bound,
    Cohort,
    BatchSampler,
    Optimiser,
    PartitionKind,
    Compression,
    Personalisation,
    Objective,
)
"""What a spec can name."""
NUMBERS = (Schedule, Bound)
"""Kinds for which a bare number stands for a value that never changes."""


_FIELD = "\x1f"
"""Marks the field's name in a message on its way through cattrs."""


class _Wrong(Exception):
    """A value of the wrong type."""


class Conversion:
    """Tables ⇄ dataclasses in which these unions occur."""

    def __init__(self, kinds: tuple[UnionType, ...]) -> None:
        self._converter = _make_converter(kinds)

    def structure(self, table: Any, kind: type[Declared], where: str) -> Declared:
        """The dataclass `kind` from a table found at the key `where`."""
        try:
            return self._converter.structure(table, kind)
        except Exception as error:
            located = (_located(one, where) for one in transform_error(error, path="", format_exception=_describe))
            raise FedveilError("; ".join(dict.fromkeys(located))) from None

    def unstructure(self, value: Any, kinds: UnionType | None = None) -> dict[str, Any]:
        """The table of a dataclass, as one of its `kinds` where it has any; absent parts are the word "none", since
        TOML has no null.
        """
        return _spell_out(self._converter.unstructure(value, unstructure_as=kinds))  # type: ignore[no-any-return]


def _spell_out(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _spell_out(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_spell_out(entry) for entry in value]
    return ABSENT if value is None else value


def _located(problem: str, where: str) -> str:
    message, _, path = problem.rpartition(" @ ")
    field, marked, rest = message.partition(_FIELD)
    key = ".".join(part for part in (where, path.lstrip("."), field if marked else "") if part)
    return f"{key}: {rest if marked else message}" if key else message


def _describe(error: BaseException, kind: type | None) -> str:
    if isinstance(error, ForbiddenExtraKeysError):
        known = [entry.name for entry in fields(error.cl)] if is_dataclass(error.cl) else []
        unknown = ", ".join(sorted(error.extra_fields))
        near = _near(next(iter(error.extra_fields)), known)
        return f"unknown key {unknown}{near}"
    if isinstance(error, FieldError):
        return f"{error.field}{_FIELD}{error.problem}"
    if isinstance(error, KeyError):
        return f"the key {error.args[0]} is missing"
    return str(error)


def _near(unknown: str, known: list[str]) -> str:
    """What may have been meant by a key of one part: another library's name for it, or a slip."""
    synonym = (synonym_of(unknown) or "").partition(".")[2].partition(".")[0]
    if synonym in known:
        return f"; did you mean {synonym}?"
    return did_you_mean(unknown, known) or f"; there are {', '.join(known) or 'none'}"


def _make_converter(unions: tuple[UnionType, ...]) -> Converter:
    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook(int, lambda value, _: _expect(value, int, "a whole number"))
    converter.register_structure_hook(float, lambda value, _: _number(value))
    converter.register_structure_hook(str, lambda value, _: _expect(value, str, "a word"))
    converter.register_structure_hook(
        bool, lambda value, _: value if isinstance(value, bool) else _fail(value, "true or false")
    )
    for choices in (Unit, View, Openness):
        converter.register_structure_hook(choices, _word_of)
    converter.register_structure_hook_factory(is_dataclass, lambda kind: _table_hook(kind, converter))
    converter.register_structure_hook_func(lambda kind: kind == dict[str, Any], lambda value, _: _expect_table(value))
    converter.register_structure_hook_func(
        lambda kind: kind == tuple[float, ...], lambda value, _: tuple(map(_number, _expect_list(value, "numbers")))
    )
    converter.register_structure_hook_func(
        lambda kind: kind == tuple[str, ...],
        lambda value, _: tuple(_expect(one, str, "a list of words") for one in _expect_list(value, "words")),
    )
    converter.register_structure_hook_func(lambda kind: kind == dict[str, str], lambda value, _: _expect_files(value))
    converter.register_structure_hook(float | str, lambda value, _: value if isinstance(value, str) else _number(value))
    # In this order: a hook is made from the hooks of its fields.
    for number in (int, float):
        _friendly_none(converter, number | None, number)
    for kinds in unions:
        for sampler in (
            get_args(kinds) if kinds == Cohort else ()
        ):  # a spec without a quorum is written as it always was
            without_none = make_dict_unstructure_fn(sampler, converter, quorum=override(omit_if_default=True))
            converter.register_unstructure_hook(sampler, without_none)
        configure_tagged_union(kinds, converter, tag_name="kind", tag_generator=lambda part: part.kind)
        _friendly_kind(converter, kinds)
    for part in (Gaussian, Compression, Objective, PictureFormat, Openness):
        _friendly_none(converter, part | None, part)
    return converter


def _table_hook(kind: type, converter: Converter) -> Callable[[Any, Any], Any]:
    fill: Callable[[Any, Any], Any] = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)
    return lambda value, _: fill(_expect_table(value), kind)


def _friendly_kind(converter: Converter, kinds: UnionType) -> None:
    """A bare word names a kind with its defaults; a bare number is a constant schedule; unknown kinds are listed."""
    tagged = converter.get_structure_hook(kinds)
    spelt = converter.get_unstructure_hook(kinds)
    names = [member.kind for member in get_args(kinds)]

    def read(value: Any, _: Any) -> Any:
        if kinds in NUMBERS and isinstance(value, int | float) and not isinstance(value, bool):
            return _constant(value)
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, dict):
            _fail(value, f"a table with a kind ({', '.join(names)})")
        if value.get("kind") not in names:
            near = did_you_mean(str(value.get("kind")), names)
            raise _Wrong(f"kind must be one of {', '.join(names)}, not {value.get('kind')!r}{near}")
        return tagged(value, kinds)

    def write(value: Any) -> Any:
        return value.value if isinstance(value, Constant) else spelt(value)

    converter.register_structure_hook(kinds, read)
    converter.register_unstructure_hook(kinds, write)


def _constant(value: float) -> Constant:
    try:
        return Constant(_number(value))
    except FieldError as error:  # the number stands for the schedule: it has no field of its own
        raise _Wrong(error.problem) from None


def _friendly_none(converter: Converter, optional: Any, inner: Any) -> None:
    def read(value: Any, _: Any) -> Any:
        return None if value is None or value == ABSENT else converter.structure(value, inner)

    def write(value: Any) -> Any:
        return None if value is None else converter.unstructure(value, unstructure_as=inner)

    converter.register_structure_hook(optional, read)
    converter.register_unstructure_hook(optional, write)


def _word_of(value: Any, choices: type[StrEnum]) -> StrEnum:
    try:
        return choices(value)
    except ValueError:
        raise _Wrong(f"must be {' or '.join(choices)}, not {value!r}") from None


def _number(value: Any) -> float:
    try:
        return float(_expect(value, (int, float), "a number"))
    except OverflowError:
        raise _Wrong("the number is too large") from None


def _expect_files(value: Any) -> dict[str, str]:
    wanted = "a table of names and files"
    return {name: _expect(path, str, wanted) for name, path in _expect(value, dict, wanted).items()}


def _expect_table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else _fail(value, "a table")


def _expect_list(value: Any, of: str) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else _fail(value, f"a list of {of}")


def _expect(value: Any, kind: type | tuple[type, ...], wanted: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, kind):
        _fail(value, wanted)
    return value


def _fail(value: Any, wanted: str) -> Any:
    raise _Wrong(f"expected {wanted}, not {value!r}")


_SPECS = Conversion(KINDS)
structure, unstructure = _SPECS.structure, _SPECS.unstructure
