"""Writes the pages of the reference from the commands, the types of their outputs and the dataclasses themselves.

`python docs/site/reference_pages.py` after a change; a test compares what it would write with what is there.
"""

from __future__ import annotations

import json
import re
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import click

from fedveil.cli import cli
from fedveil.cli.json_outputs import OUTPUTS, Number
from fedveil.cli.json_schema import all_schemas
from fedveil.cli.options import JSON_VERSION
from fedveil.config.key_synonyms import SYNONYMS
from fedveil.config.spec import Spec
from fedveil.config.spec_keys import spec_keys
from fedveil.method import Method

HEAD = """# Command line

For whoever types `fedveil`, or calls it from a script. Generated from the commands themselves.

## For scripts

Results go to standard output, progress and remarks to standard error. Progress is a bar on a terminal and a plain line
now and then elsewhere.

| exit code | meaning |
| --- | --- |
| 0 | done; for `audit`: consistent with the promise, or nothing was promised |
| 1 | `audit`: the promise is broken; `verify`: the certificate is not sound; or whoever read the output went away |
| 2 | it could not be done: one line on standard error says why |
| 3 | `audit`: inconclusive |
| 130 | interrupted; what is finished is kept, and a line says how to go on; `audit` prints what it knows by then |

With `--json` a command prints one JSON object. [JSON output](json-output.md) says what is in it.

Completion: `eval "$(fedveil completion bash)"` where your shell starts; also `zsh` and `fish`.

## Commands
"""

JSON_HEAD = """# JSON output

For whoever reads fedveil's results with a program. Generated from the types of the outputs; every output that a test
sees is held to them.

With `--json` a command prints one JSON object to standard output. [json-schemas.json](json-schemas.json) has a JSON
schema (draft 2020-12) for each command, by its words.

- `version` is {version}. It grows when a field goes or changes its meaning. New fields may come at any time, so ignore
  those that you do not know.
- An infinite number is the text `"inf"`. Python's `float` reads both.
- A field in *italics* may be missing. `null` means that there is none.
"""

KEYS_HEAD = """# Keys of a spec

For whoever writes a spec file, or changes one key with `--set KEY=VALUE`. Generated from the code that reads them.

A part with a `kind` has that kind's keys; a bare word names a kind with its defaults (`cohort = "everyone"`). A bare
number is a value that never changes; a schedule is a table with a kind (`constant`, `linear` …). `none` takes a part
away. What you leave out is filled in from the method, then from the data set's task, then from plain FedAvg; the
defaults below are the last of these.
"""


WORDS = {
    str: "text",
    bool: "true or false",
    int: "whole number",
    float: "number",
    type(None): "null",
    Any: "anything",
    Number: 'number or `"inf"`',
    Literal["inf"]: '`"inf"`',
}
"""Types in a few words."""


def command_line() -> str:
    """The whole page."""
    return HEAD + "".join(_sections(cli, "fedveil"))


def _sections(group: click.Group, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _sections(command, f"{path} {name}")
        else:
            yield f"\n### `{path} {name}`\n\n{_text(command)}\n{_options(command)}"


def _text(command: click.Command) -> str:
    arguments = [one.make_metavar(click.Context(command)) for one in command.params if isinstance(one, click.Argument)]
    given = f"Argument: `{' '.join(arguments)}`. " if arguments else ""
    return _wrapped(f"{given}{' '.join((command.help or '').split())}")


def _options(command: click.Command) -> str:
    rows = [_row(one) for one in command.params if isinstance(one, click.Option)]
    return "\n| option | meaning |\n| --- | --- |\n" + "\n".join(rows) + "\n" if rows else ""


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    kind = " " + " or ".join(option.type.choices) if isinstance(option.type, click.Choice) else ""
    plain = isinstance(option.default, int | float | str | Path) and not option.is_flag and not option.multiple
    default = f" Default: `{option.default}`." if plain and option.show_default else ""
    return f"| {names}{kind} | {option.help or ''}{default} |"


def json_page() -> str:
    """The whole page: a table for every kind of object, those of commands first."""
    parts, nested = [JSON_HEAD.format(version=JSON_VERSION)], dict[str, type]()
    kinds = {one: None for output in OUTPUTS.values() for one in typing.get_args(output) or (output,)}
    for output in kinds:
        parts.append(f"\n## {', '.join(f'`{name}`' for name in _commands(output))}\n\n{_fields(output, nested)}")
    seen = set(kinds)
    while left := [one for one in nested.values() if one not in seen]:
        for output in left:
            seen.add(output)
            parts.append(f"\n## {_title(output)}\n\n{_fields(output, nested)}")
    return "".join(parts)


def _title(output: type) -> str:
    words = re.sub(r"(?<!^)([A-Z])", r" \1", output.__name__.removesuffix("Output")).lower()
    return f"Inside: {words}"


def _commands(output: Any) -> list[str]:
    return [name for name, one in OUTPUTS.items() if output in (typing.get_args(one) or (one,))]


def _fields(output: type, nested: dict[str, type]) -> str:
    hints = typing.get_type_hints(output, include_extras=True)
    rows = ["| field | value |", "| --- | --- |"]
    for name, hint in hints.items():
        missing = typing.get_origin(hint) is typing.NotRequired
        kind = typing.get_args(hint)[0] if missing else hint
        rows.append(f"| {f'*`{name}`*' if missing else f'`{name}`'} | {_value(kind, nested)} |")
    text = re.sub(r"^`[^.]*`[:.] ?", "", " ".join((output.__doc__ or "").split()))
    return f"{_wrapped(text[:1].upper() + text[1:])}\n\n" * bool(text) + "\n".join(rows) + "\n"


def _value(hint: Any, nested: dict[str, type]) -> str:
    """A type in words, with a link where it is an object of its own."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in WORDS:
        return WORDS[hint]
    if origin is typing.Literal:
        return " or ".join(f"`{one}`" for one in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_value(one, nested) for one in arguments)
    if origin is list:
        return f"list: {_value(arguments[0], nested)}"
    if origin is dict:
        return f"by name: {_value(arguments[1], nested)}"
    nested[hint.__name__] = hint
    heading = ", ".join(_commands(hint)) or _title(hint)
    slug = re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
    return f"[{_title(hint).removeprefix('Inside: ')}](#{slug})"


def json_schemas() -> str:
    """One line for each command."""
    lines = [f"{json.dumps(name)}: {json.dumps(schema, ensure_ascii=False)}" for name, schema in all_schemas().items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def keys_page() -> str:
    """The whole page."""
    parts = [KEYS_HEAD]
    for table, keys in groupby(spec_keys(), key=lambda one: one.key.partition(".")[0]):
        rows = [f"| `{one.key}` | {one.kind} | {one.type} | {one.default} | {one.text} |" for one in keys]
        parts.append(f"\n## `{table}`\n\n{_about(table)}")
        parts.append("| key | of kind | value | default | |\n| --- | --- | --- | --- | --- |\n")
        parts.append("\n".join(rows) + "\n")
    parts.append("\n## Other names\n\nWhat other libraries and papers call a key; an error then names ours.\n\n")
    parts.append("| theirs | ours |\n| --- | --- |\n")
    parts.append("\n".join(f"| `{theirs}` | `{ours}` |" for theirs, ours in SYNONYMS.items()) + "\n")
    return "".join(parts)


def _about(table: str) -> str:
    """What the dataclass of a table says of itself."""
    hints = typing.get_type_hints(Spec) | typing.get_type_hints(Method)
    known = {one.name for one in (*fields(Spec), *fields(Method))}
    members = typing.get_args(hints[table]) or (hints[table],) if table in known and table != "method" else ()
    texts = []
    for member in members:
        if isinstance(member, type) and member.__module__.startswith("fedveil"):
            kind = getattr(member, "kind", "")
            texts.append(f"{f'`{kind}`: ' if kind else ''}{' '.join((member.__doc__ or '').split())}")
    return "".join(f"{_wrapped(text)}\n\n" for text in texts)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


PAGES = {
    "command-line.md": command_line,
    "spec-keys.md": keys_page,
    "json-output.md": json_page,
    "json-schemas.json": json_schemas,
}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (Path(__file__).parent.parent / name).write_text(page(), encoding="utf-8")
