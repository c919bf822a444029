"""Schemas: what may be declared of a column, what follows from it, and the file it is kept in."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.core.tasks import Classification, Regression
from fedveil.data.encoded_table import read_table
from fedveil.data.schema import CategoryColumn, Column, FlagColumn, NumberColumn, Schema
from fedveil.data.schema_file import parse_schema, read_schema, schema_digest, schema_toml

HOSPITAL = """
target = "disease"
site = "hospital"

[columns.age]
type = "number"
low = 0
high = 120
unit = "years"
outside = "clip"

[columns.cholesterol]
type = "number"
low = 50
high = 600
missing = "flag"

[columns."chest pain"]
type = "category"
categories = ["typical", "atypical", "none"]
missing = "flag"

[columns.smoker]
type = "flag"

[columns.disease]
type = "category"
categories = { healthy = [0], diseased = [1, 2, 3, 4] }

[columns.patient]
drop = true
"""


def hospital() -> Schema:
    return parse_schema(HOSPITAL, "schema.toml")


def refused(text: str) -> str:
    with pytest.raises(FedveilError) as error:
        parse_schema(text, "schema.toml")
    return str(error.value)


def test_features_follow_from_the_schema_in_the_order_of_its_columns() -> None:
    assert hospital().features == (
        "age",
        "cholesterol",
        "cholesterol missing",
        "chest pain = typical",
        "chest pain = atypical",
        "chest pain = none",
        "chest pain missing",
        "smoker",
    )


def test_the_task_follows_from_the_target() -> None:
    assert hospital().task == Classification(("healthy", "diseased"))
    assert replace(hospital(), target="smoker").task == Classification(("no", "yes"))
    assert replace(hospital(), target="age").task == Regression(0.0, 120.0, "years")


def test_a_schema_with_one_range_from_the_data_is_private_until_it_is_replaced() -> None:
    assert hospital().openness is Openness.PUBLIC
    drafted = parse_schema(HOSPITAL.replace("high = 600", 'high = 600\nsource = "data"'), "schema.toml")
    assert drafted.openness is Openness.PRIVATE
    assert drafted.private_columns == ("cholesterol",)


def test_a_range_of_the_target_from_the_data_is_private_too() -> None:
    text = HOSPITAL.replace('target = "disease"', 'target = "age"').replace('unit = "years"', 'source = "data"')
    assert parse_schema(text, "schema.toml").openness is Openness.PRIVATE


TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8
)  # also quotes, dots and signs of other scripts


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    kind = draw(st.sampled_from(["number", "category", "flag"]))
    missing = draw(st.sampled_from(["error", "drop"]))
    source = draw(st.sampled_from(["documented", "data"]))
    if kind == "flag":
        return FlagColumn(name=name, missing=missing, source=source)
    if kind == "category":
        texts = draw(st.lists(TEXTS, min_size=4, max_size=6, unique=True))
        names = tuple(texts[:2])
        spellings = draw(st.sampled_from([(), ((texts[0], texts[2]), (texts[1],)), ((texts[2],), (texts[3],))]))
        return CategoryColumn(name=name, categories=names, spellings=spellings, missing=missing, source=source)
    low = draw(st.floats(-1e6, 1e6))
    high = low + draw(st.floats(1, 1e6))
    outside = draw(st.sampled_from(["error", "clip", "drop"]))
    unit = draw(st.sampled_from(["", "mg/dl", "°C"]))
    return NumberColumn(name=name, low=low, high=high, unit=unit, outside=outside, missing=missing, source=source)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(TEXTS, min_size=4, max_size=7, unique=True))
    used = tuple(draw(columns(name)) for name in names[2:])
    return Schema(
        columns=used,
        target=draw(st.sampled_from(used)).name,
        site=draw(st.sampled_from(["", names[0]])),
        dropped=draw(st.sampled_from([(), (names[1],)])),
        missing_texts=("", "N/A\u2002"),
        delimiter=draw(st.sampled_from([",", ";", "\t"])),
    )


@given(schemas())
def test_a_schema_comes_back_from_its_file_with_the_same_digest(schema: Schema) -> None:
    again = parse_schema(schema_toml(schema), "schema.toml")
    assert again == schema
    assert schema_digest(again) == schema_digest(schema)


def test_a_schema_made_in_python_has_the_digest_of_its_file() -> None:
    columns = (NumberColumn(name="age", low=0, high=120), FlagColumn(name="sick"))
    schema = Schema(columns=columns, target="sick")
    assert schema_digest(parse_schema(schema_toml(schema), "s")) == schema_digest(schema)


def test_another_range_has_another_digest() -> None:
    other = parse_schema(HOSPITAL.replace("600", "601"), "schema.toml")
    assert schema_digest(other) != schema_digest(hospital())


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ('target = "disease"', "", "schema.toml: target: is missing"),
        ('target = "disease"', 'target = "death"', "schema.toml: target: must be one of the columns, not 'death'"),
        ('target = "disease"', "target = 3", "schema.toml: target: expected a text, not 3"),
        ('site = "hospital"', 'site = "age"', "schema.toml: site: names 'age'"),
        ('site = "hospital"', 'sites = "hospital"', "schema.toml: sites: unknown key; there are target, site"),
        ("high = 120", "high = 0", "schema.toml: columns.age.high: must be above low = 0, not 0"),
        ("high = 120", "", "schema.toml: columns.age.high: is missing"),
        ("high = 120", "high = inf", "schema.toml: columns.age.high: must be a finite number, not inf"),
        ("high = 120", "high = nan", "schema.toml: columns.age.high: must be a finite number, not nan"),
        ("high = 120", "high = true", "schema.toml: columns.age.high: expected a number, not True"),
        ("high = 120", 'hihg = "120"', "schema.toml: columns.age.hihg: unknown key; there are type"),
        ("high = 120", f"high = 1{'0' * 400}", "schema.toml: columns.age.high: expected a smaller number"),
        ("high = 120", f"high = 1{'0' * 5000}", "schema.toml: not a TOML file"),
        ('outside = "clip"', 'outside = "cut"', "columns.age.outside: must be 'error' or 'clip' or 'drop', not 'cut'"),
        ('unit = "years"', 'scale = "logarithm"\nlow = -1', "schema.toml: not a TOML file"),
        ('type = "flag"', 'type = "bool"', "columns.smoker.type: must be one of number, category, flag, not 'bool'"),
        ('type = "flag"', 'type = "flag"\nyes = ["No"]', "columns.smoker.yes: has 'no' twice"),
        ('"none"]', '"typical"]', "columns.chest pain.categories: has 'typical' twice"),
        ('"none"]', '" none"]', "without spaces at their ends, not ' none'"),
        ('"none"]', '"?"]', "schema.toml: missing_texts: has '?', which is also a value of a column"),
        ('["typical", "atypical", "none"]', "[]", "columns.chest pain.categories: must be a list of names"),
        ('["typical", "atypical", "none"]', "[1.5]", "columns.chest pain.categories: expected a list of texts"),
        ("healthy = [0]", "healthy = []", "columns.disease.categories: must be a list of names"),
        ("healthy = [0]", "healthy = [1]", "columns.disease.categories: has '1' twice"),
        ("healthy = [0], diseased", "diseased", "columns.disease.categories: needs at least 2: this is the target"),
        ("drop = true", 'drop = true\ntype = "flag"', "columns.patient.type: unknown key; there are drop"),
        ("drop = true", "drop = 1", "columns.patient.drop: expected true or false, not 1"),
        ("[columns.patient]", "[columns.hospital]", "schema.toml: site: names 'hospital'"),
    ],
)
def test_what_can_not_be_is_refused_with_file_and_key(before: str, after: str, problem: str) -> None:
    assert before in HOSPITAL
    assert problem in refused(HOSPITAL.replace(before, after))


def test_a_target_is_never_flagged_as_missing_or_on_a_logarithm() -> None:
    age = HOSPITAL.replace('target = "disease"', 'target = "age"')
    assert "columns.age.scale: must be 'linear'" in refused(age.replace("unit", 'scale = "logarithm"\nunit'))
    assert "columns.age.missing: must be 'error' or 'drop'" in refused(age.replace("unit", 'missing = "flag"\nunit'))


def test_logarithms_are_for_amounts_that_are_not_negative() -> None:
    text = HOSPITAL.replace("low = 0", 'low = -1\nscale = "logarithm"')
    assert "columns.age.low: must not be negative with scale = 'logarithm', not -1" in refused(text)


def test_a_schema_of_nothing_but_a_target_is_refused() -> None:
    assert "columns: has nothing but the target" in refused('target = "a"\n[columns.a]\ntype = "flag"')


def test_a_file_that_is_not_there_or_not_text_is_said_in_one_line(tmp_path: object) -> None:
    with pytest.raises(FedveilError, match=r"nowhere\.toml: can't be read"):
        read_schema(f"{tmp_path}/nowhere.toml")
    with open(f"{tmp_path}/bytes.toml", "wb") as file:
        file.write(b"\xff\xfe")
    with pytest.raises(FedveilError, match=r"bytes\.toml: not a TOML file"):
        read_schema(f"{tmp_path}/bytes.toml")


@given(st.text())
def test_whatever_stands_in_a_schema_file_it_is_read_or_refused_in_words(text: str) -> None:
    with suppress(FedveilError):
        parse_schema(text, "schema.toml")


def test_a_reference_has_no_feature_and_amounts_begin_at_zero(tmp_path: Path) -> None:
    schema = parse_schema(
        """
        target = "sick"
        columns.pain = { type = "category", categories = ["none", "mild", "strong"], reference = "none" }
        columns.gain = { type = "number", low = 0, high = 99, scale = "amount", outside = "clip", reach = 2 }
        columns.age = { type = "number", low = 40, high = 60, outside = "clip", reach = 3, missing = "zero" }
        columns.sick = { type = "flag" }
        """,
        "s",
    )
    assert schema.features == ("pain = mild", "pain = strong", "gain", "age")
    path = tmp_path / "rows.csv"
    path.write_text("pain,gain,age,sick\nnone,0,50,0\nmild,99,70,1\nstrong,1e30,1e30,1\nnone,-5,,0\n")
    expected = [[0, 0, 0, 0], [1, 0, 1, 2], [0, 1, 2, 3], [0, 0, 0, 0]]
    assert read_table(path, schema).inputs.tolist() == expected
    assert parse_schema(schema_toml(schema), "s") == schema


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('columns.a = { type = "number", low = 0, high = 1, reach = 2 }', "a.reach: is for outside = 'clip'"),
        ('columns.a = { type = "number", low = 0, high = 1, outside = "clip", reach = 0.5 }', "a.reach: must be"),
        ('columns.a = { type = "number", low = 1, high = 2, scale = "amount" }', "a.low: must be 0 with scale"),
        ('columns.a = { type = "category", categories = ["x", "y"], reference = "z" }', "a.reference: must be one of"),
        ('columns.a = { type = "flag" }\ncolumns.t.missing = "zero"', "columns.t.missing: must be 'error' or 'drop'"),
    ],
)
def test_what_makes_no_sense_with_a_reach_or_a_reference_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(FedveilError, match=complaint):
        parse_schema(f'target = "t"\n{line}\ncolumns.t.type = "flag"\n', "s")
