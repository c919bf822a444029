"""Merging tables of settings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from fedveil.core.errors import FedveilError

ABSENT = "none"
"""How a table says that a part is not there; TOML has no null."""


def merge(below: Mapping[str, Any], above: Mapping[str, Any], *, partial: bool = False) -> dict[str, Any]:
    """`above` laid over `below`, table by table.

    A part that names another kind starts afresh (its fields are not the old kind's); a bare name stands for a kind with
    its defaults; a bare number laid over a clip changes its bound. `partial` means that `below` is
    incomplete: it may have a field of a part without its kind, or a kind without its fields, and none of them is lost.
    """
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge_value(*(_spelt(old, value) if partial else (old, value)), partial)
    return merged


def _spelt(old: Any, new: Any) -> tuple[Any, Any]:
    """A bare word or number, and the fields given beside it, as two tables that can be merged."""
    if isinstance(old, Mapping) and "kind" not in old and isinstance(new, str) and new != ABSENT:
        return {**old, "kind": new}, {"kind": new}
    if isinstance(old, Mapping) and "kind" not in old and isinstance(new, Mapping) and "kind" in new:
        return {**old, "kind": new["kind"]}, new
    if isinstance(old, Mapping) and "by" in old and _is_number(new):
        return {**old, "bound": new}, {}
    if isinstance(old, str) and old != ABSENT and isinstance(new, Mapping):
        return {"kind": old}, new
    if _is_number(old) and isinstance(new, Mapping) and "by" in new:
        return {"bound": old}, new
    return old, new


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _merge_value(old: Any, new: Any, partial: bool) -> Any:
    if not isinstance(old, Mapping):
        return new
    if isinstance(new, str) and "kind" in old:
        return new if new == ABSENT else {"kind": new}
    if _is_number(new) and "bound" in old:
        return {**old, "bound": new}
    if not isinstance(new, Mapping):
        return new
    if "kind" in new and new["kind"] != old.get("kind"):
        return dict(new)
    return merge(old, new, partial=partial)


def difference(table: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """What must be laid over `base` to get `table`."""
    changed: dict[str, Any] = {}
    for key, value in table.items():
        old = base.get(key)
        if value == old:
            continue
        if isinstance(value, Mapping) and isinstance(old, Mapping) and value.get("kind") == old.get("kind"):
            changed[key] = difference(value, old)
        else:
            changed[key] = value
    return changed


def without(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A copy of `table` without one key."""
    return {name: value for name, value in table.items() if name != key}


def set_dotted(table: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy of `table`, the settings given so far, with the value of a dotted `key` merged into it."""
    if not all(key.split(".")):
        raise FedveilError(f"{key!r}: not a dotted key")
    nested: Any = value
    for part in reversed(key.split(".")):
        nested = {part: nested}
    return merge(table, nested, partial=True)


def parse_setting(text: str) -> tuple[str, Any]:
    """`key=value` from the command line; the value as `parse_value` reads it."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise FedveilError(f"{text}: expected key=value")
    return key.strip(), parse_value(value)


def parse_value(text: str) -> Any:
    """Read as TOML, or else taken as a plain word."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
