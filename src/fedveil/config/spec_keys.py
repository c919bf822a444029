"""Every key that a spec can have, read off the dataclasses, and the one that was probably meant."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from fedveil.config.convert import KINDS, NUMBERS
from fedveil.config.key_synonyms import synonym_of
from fedveil.core.suggestions import closest


@dataclass(frozen=True)
class SpecKey:
    """One key: under which kind of its part it is there, its type, its default and what is said of it."""

    key: str
    kind: str  # "" where its part has no kinds
    type: str
    default: str
    text: str


@cache
def spec_keys() -> tuple[SpecKey, ...]:
    """All keys, in the order in which a spec file is written."""
    from fedveil.config.spec import Spec

    hints = typing.get_type_hints(Spec)
    keys: list[SpecKey] = []
    for field in fields(Spec):
        if field.name == "base":
            keys.append(SpecKey("method", "", "a word", "fed-cdp", "a method's name: `fedveil methods`"))
        elif field.name == "method":
            keys += _keys_of("", hints["method"], "")
        elif field.name == "seed":
            keys.append(SpecKey("seed", "", "a whole number", "none", "reproducible, and therefore not private"))
        elif field.name != "choices":
            keys += _part(field.name, hints[field.name], "")
    return tuple(dict.fromkeys(keys))


def suggested_key(unknown: str) -> str | None:
    """The key that was probably meant by one that does not exist: by another library's name for it, or a slip."""
    known = {one.key for one in spec_keys()}
    last = unknown.rpartition(".")[2]
    meant = synonym_of(unknown) or synonym_of(last)
    if meant is not None:
        return _in_place(unknown, meant, known)
    return closest(unknown, known) or next((key for key in sorted(known) if key.endswith(f".{last}")), None)


def _in_place(unknown: str, meant: str, known: set[str]) -> str:
    """`server.noise_multiplier` means the sigma of the server, not that of examples."""
    head, _, tail = meant.partition(".")
    asked = unknown.partition(".")[0]
    moved = f"{asked}.{tail}"
    return moved if asked != head and moved in known else meant


def _keys_of(prefix: str, kind: type, tag: str) -> Iterator[SpecKey]:
    """The fields of one dataclass."""
    hints, comments = typing.get_type_hints(kind), _comments(kind)
    for field in fields(kind):
        key = f"{prefix}.{field.name}" if prefix else field.name
        inner = list(_part(key, hints[field.name], tag))
        if inner:
            yield from inner
        else:
            text = comments.get(field.name, "")
            yield SpecKey(key, tag, _type_text(hints[field.name]), _default(field), text)


def _part(key: str, hint: Any, tag: str) -> Iterator[SpecKey]:
    """The keys inside a part: of a dataclass, or of every kind of it. Nothing for a plain value."""
    kinds = next((union for union in KINDS if set(typing.get_args(union)) <= set(_members(hint))), None)
    if kinds is not None and kinds not in NUMBERS:
        for member in typing.get_args(kinds):
            yield from _with_kind(key, member, typing.get_args(kinds))
        return
    if kinds is None:
        for member in _members(hint):
            if is_dataclass(member):
                yield from _keys_of(key, typing.cast(type, member), tag)


def _with_kind(key: str, member: Any, every: tuple[Any, ...]) -> Iterator[SpecKey]:
    names = " or ".join(one.kind for one in every)
    yield SpecKey(f"{key}.kind", "", names, "", "")
    yield from _keys_of(key, member, member.kind)


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


_PLAIN = {int: "a whole number", float: "a number", str: "a word", bool: "true or false", type(None): "none"}


def _type_text(hint: Any) -> str:
    members = _members(hint)
    if any(set(typing.get_args(union)) <= set(members) for union in NUMBERS):
        return "a number or a schedule"
    if all(member in _PLAIN for member in members):
        return " or ".join(_PLAIN[member] for member in members)
    if isinstance(hint, type) and issubclass(hint, str):
        return " or ".join(hint)  # type: ignore[arg-type]  # an enumeration of words
    return "a list" if typing.get_origin(hint) is tuple else "a table"


def _default(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        value = field.default_factory()
        value = getattr(value, "value", value)
    elif field.default is not MISSING:
        value = field.default
    else:
        return "must be given"
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float | str) else "empty"


def _comments(kind: type) -> dict[str, str]:
    """What stands behind each field in the source."""
    found = {}
    for line in inspect.getsource(kind).splitlines():
        declared, hash_sign, text = line.partition("  # ")
        name, colon, _ = declared.strip().partition(":")
        if hash_sign and colon and name.isidentifier():
            found[name] = text.strip()
    return found
