"""Every command that prints JSON has a schema; `conftest.py` holds whatever is printed in any test to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
import jsonschema
import pytest
from missing_data import skip_without_data

from fedveil.cli import cli
from fedveil.cli.json_outputs import OUTPUTS
from fedveil.cli.json_schema import all_schemas, schema_of


def with_json(group: click.Group, above: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from with_json(command, f"{above}{name} ")
        elif any(one.name == "as_json" for one in command.params):
            yield f"{above}{name}"


def test_every_command_with_json_has_a_schema_and_no_other_has() -> None:
    assert set(OUTPUTS) == set(with_json(cli))
    for schema in all_schemas().values():
        jsonschema.Draft202012Validator.check_schema(schema)


PRINTED = (
    ["methods"],
    ["doctor"],
    ["data", "list"],
    ["key"],
    ["reproduce"],
    ["account", "fed-cdp", "--all-accountants"],
    ["calibrate", "fed-cdp", "--epsilon", "3", "--out", "spec.toml"],
    ["explain", "private-records", "--set", "data.name=cancer", "--set", "privacy.epsilon=1"],
)


@pytest.mark.parametrize("words", PRINTED, ids=" ".join)
def test_what_is_printed_follows_it(call: Any, words: list[str]) -> None:
    code, out, err = call(*words, "--json")
    skip_without_data(err)
    assert code == 0, err
    command = " ".join(words[: 2 if words[0] == "data" else 1])
    jsonschema.validate(json.loads(out), schema_of(command, closed=True))


def test_an_unknown_field_a_missing_one_and_another_version_are_refused() -> None:
    told = {"version": 1, "private": "a", "public": "b", "fingerprint": "c"}
    jsonschema.validate(told, schema_of("key", closed=True))
    jsonschema.validate(told | {"new": 1}, schema_of("key"))
    for wrong in (told | {"new": 1}, told | {"version": 2}, {"version": 1}, told | {"private": None}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema_of("key", closed=True))


def test_infinity_is_a_text_and_a_cell_says_of_what_against_whom() -> None:
    schema = schema_of("account")["properties"]["guarantees"]["items"]
    cell = dict.fromkeys(schema["required"], "") | {"unit": "record", "view": "server", "delta": 1e-5, "caveats": []}
    jsonschema.validate(cell | {"epsilon": "inf"}, schema)
    for wrong in ({"epsilon": "none"}, {"epsilon": 1.0, "view": "nobody"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(cell | wrong, schema)
