"""JSON schemas (draft 2020-12) of what `--json` prints, made from the types in `json_outputs`."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal, NotRequired

from fedveil.cli.json_outputs import OUTPUTS
from fedveil.cli.options import JSON_VERSION

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def schema_of(command: str, *, closed: bool = False) -> dict[str, Any]:
    """The schema of one command's output. `closed` allows no undeclared field; a later version may have some."""
    head = {"$schema": DIALECT, "title": f"fedveil {command} --json"}
    kinds = typing.get_args(OUTPUTS[command])
    if kinds:  # a command that prints one thing or another
        return head | {"anyOf": [_versioned(kind, closed) for kind in kinds]}
    return head | _versioned(OUTPUTS[command], closed)


def all_schemas() -> dict[str, Any]:
    """Every command's, by its words."""
    return {command: schema_of(command) for command in OUTPUTS}


def _versioned(output: type, closed: bool) -> dict[str, Any]:
    made = _object(output, closed)
    made["properties"] = {"version": {"const": JSON_VERSION}, **made["properties"]}
    made["required"] = ["version", *made["required"]]
    return made


def _object(output: type, closed: bool) -> dict[str, Any]:
    hints = typing.get_type_hints(output, include_extras=True)
    optional = {name for name, hint in hints.items() if typing.get_origin(hint) is NotRequired}
    plain = {name: typing.get_args(hint)[0] if name in optional else hint for name, hint in hints.items()}
    return {
        "type": "object",
        "description": " ".join((output.__doc__ or "").split()),
        "properties": {name: _schema(hint, closed) for name, hint in plain.items()},
        "required": [name for name in hints if name not in optional],
        **({"additionalProperties": False} if closed else {}),
    }


def _schema(hint: Any, closed: bool) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(one, closed) for one in arguments]}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], closed)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], closed)}
    return _object(hint, closed)
