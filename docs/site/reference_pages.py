"""Writes docs/command-line.md and docs/spec-keys.md from the commands and the dataclasses themselves.

`python docs/site/reference_pages.py` after a change; a test compares what it would write with what is there.
"""

from __future__ import annotations

import textwrap
import typing
from collections.abc import Iterator
from dataclasses import fields
from itertools import groupby
from pathlib import Path

import click

from fedveil.cli import cli
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
| 130 | interrupted; what was published or finished is kept, and a line says how to go on |

With `--json` a command prints one JSON object. Its field `version` is {version}. It grows when a field goes or changes
its meaning; new fields may come at any time. Infinite numbers are the text `"inf"`. Lists stand under a name:
`methods`, `sets`, `reproductions`, `findings`.

| command | the fields to look for |
| --- | --- |
| `run`, `resume` | `accuracy`, `loss`, `rounds`, `seeded`, `guarantees` (unit, view, relation, epsilon, delta), `run` |
| `account` | `guarantees` (spent, or promised where nothing ran), `promised`, `per_client`, `claimed`, `ledger` |
| `calibrate` | `solved`, `value`, `guarantee` |
| `attack` | `success_rate`, `rmse`, `blind_rmse`, `tried`, `per_victim` |
| `audit` | `verdict`, `epsilon_lower`, `epsilon_verified`, `power`, `checks` |
| `compare`, `sweep` | `rows`: a method or a point each, with its figures and ε |
| `doctor` | `findings`: `name`, `found`, `well`, `disables`, `mend` |

Completion: `eval "$(fedveil completion bash)"` where your shell starts; also `zsh` and `fish`.

## Commands
"""

KEYS_HEAD = """# Keys of a spec

For whoever writes a spec file, or changes one key with `--set KEY=VALUE`. Generated from the code that reads them.

A part with a `kind` has that kind's keys; a bare word names a kind with its defaults (`cohort = "everyone"`). A bare
number is a value that never changes; a schedule is a table with a kind (`constant`, `linear` …). `none` takes a part
away. What you leave out is filled in from the method, then from the data set's task, then from plain FedAvg; the
defaults below are the last of these.
"""


def command_line() -> str:
    """The whole page."""
    return HEAD.format(version=JSON_VERSION) + "".join(_sections(cli, "fedveil"))


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


PAGES = {"command-line.md": command_line, "spec-keys.md": keys_page}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (Path(__file__).parent.parent / name).write_text(page(), encoding="utf-8")
