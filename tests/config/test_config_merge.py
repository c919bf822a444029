"""Laying settings over settings."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedveil.config.merge import difference, merge, parse_setting, set_dotted
from fedveil.core.errors import FedveilError


@pytest.mark.parametrize(
    ("below", "above", "merged"),
    [
        ({"a": 1}, {}, {"a": 1}),
        ({"a": 1}, {"a": 2, "b": 3}, {"a": 2, "b": 3}),
        ({"t": {"a": 1, "b": 2}}, {"t": {"b": 3}}, {"t": {"a": 1, "b": 3}}),
        ({"t": {"u": {"a": 1}}}, {"t": {"u": {"b": 2}}}, {"t": {"u": {"a": 1, "b": 2}}}),
        ({"t": 1}, {"t": {"a": 1}}, {"t": {"a": 1}}),
        ({"t": {"a": 1}}, {"t": 5}, {"t": 5}),
        ({"t": {"a": 1}}, {"t": "none"}, {"t": "none"}),
        ({"t": {"kind": "prune", "share": 1}}, {"t": "none"}, {"t": "none"}),
        ({"t": {"kind": "prune", "share": 1}}, {"t": "share"}, {"t": {"kind": "share"}}),
        ({"t": [1, 2]}, {"t": [3]}, {"t": [3]}),
    ],
)
def test_tables_are_merged_and_everything_else_is_replaced(
    below: dict[str, Any], above: dict[str, Any], merged: dict[str, Any]
) -> None:
    assert merge(below, above) == merged


def test_the_same_kind_keeps_its_other_fields() -> None:
    below = {"batch": {"kind": "poisson", "size": 5, "cap": 9}}
    assert merge(below, {"batch": {"kind": "poisson", "size": 6}}) == {
        "batch": {"kind": "poisson", "size": 6, "cap": 9}
    }
    assert merge(below, {"batch": {"size": 6}}) == {"batch": {"kind": "poisson", "size": 6, "cap": 9}}


def test_another_kind_starts_afresh() -> None:
    below = {"cohort": {"kind": "fixed", "size": 100}}
    assert merge(below, {"cohort": {"kind": "poisson", "rate": 0.1}}) == {"cohort": {"kind": "poisson", "rate": 0.1}}
    assert merge(below, {"cohort": "everyone"}) == {"cohort": {"kind": "everyone"}}


def test_a_number_over_a_schedule_is_the_constant_and_over_a_clip_its_bound() -> None:
    assert merge({"rate": {"kind": "linear", "start": 1, "end": 2}}, {"rate": 0.1}) == {"rate": 0.1}
    clip = {"clip": {"bound": {"kind": "linear", "start": 6.0, "end": 2.0}, "by": "layer"}}
    assert merge(clip, {"clip": 3}) == {"clip": {"bound": 3, "by": "layer"}}
    assert merge(clip, {"clip": True}) == {"clip": True}


def test_neither_table_is_changed() -> None:
    below, above = {"t": {"a": {"b": 1}}}, {"t": {"a": {"c": 2}}}
    merged = merge(below, above)
    merged["t"]["a"]["d"] = 3
    assert below == {"t": {"a": {"b": 1}}}
    assert above == {"t": {"a": {"c": 2}}}


def test_a_dotted_key_reaches_into_tables_and_makes_them() -> None:
    table = {"local": {"rate": 0.1, "steps": 5}}
    assert set_dotted(table, "local.rate", 0.2) == {"local": {"rate": 0.2, "steps": 5}}
    assert set_dotted(table, "model.options.hidden", [3]) == {**table, "model": {"options": {"hidden": [3]}}}
    assert set_dotted(table, "seed", 1) == {**table, "seed": 1}
    assert table == {"local": {"rate": 0.1, "steps": 5}}


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b"])
def test_a_key_with_an_empty_part_is_refused(key: str) -> None:
    with pytest.raises(FedveilError, match="not a dotted key"):
        set_dotted({}, key, 1)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("stop.rounds=3", "stop.rounds", 3),
        (" local.rate = 0.5 ", "local.rate", 0.5),
        ("batch=poisson", "batch", "poisson"),
        ("batch='poisson'", "batch", "poisson"),
        ("example=none", "example", "none"),
        ("model.options.hidden=[4, 2]", "model.options.hidden", [4, 2]),
        ("cohort={kind='poisson', rate=0.1}", "cohort", {"kind": "poisson", "rate": 0.1}),
        ("model.options.bias=false", "model.options.bias", False),
        ("data.name=a=b", "data.name", "a=b"),
        ("data.name=", "data.name", ""),
        ("model.name=my.package:factory", "model.name", "my.package:factory"),
    ],
)
def test_a_setting_is_a_key_and_a_toml_value_or_a_word(text: str, key: str, value: object) -> None:
    assert parse_setting(text) == (key, value)


def test_a_setting_may_be_nan_so_that_the_checks_can_refuse_it() -> None:
    assert math.isnan(parse_setting("example.sigma=nan")[1])


@pytest.mark.parametrize("text", ["rounds", "=3", " =3", ""])
def test_a_setting_without_key_or_equals_sign_is_refused(text: str) -> None:
    with pytest.raises(FedveilError, match="expected key=value"):
        parse_setting(text)


TABLES = st.recursive(
    st.one_of(st.integers(0, 3), st.sampled_from(["a", "b"])),
    lambda inner: st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from("pqr"), TABLES), st.dictionaries(st.sampled_from("pqr"), TABLES))
def test_the_difference_laid_over_the_base_gives_the_table(table: dict[str, Any], base: dict[str, Any]) -> None:
    complete = merge(base, table)  # nothing of the base may be missing: a difference cannot take away
    assert merge(base, difference(complete, base)) == complete


def test_a_difference_holds_only_what_changed() -> None:
    base = {"local": {"steps": 100, "rate": 0.05}, "cohort": {"kind": "fixed", "size": 3}}
    table = {"local": {"steps": 100, "rate": 0.01}, "cohort": {"kind": "everyone"}}
    assert difference(table, base) == {"local": {"rate": 0.01}, "cohort": {"kind": "everyone"}}
