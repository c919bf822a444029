"""A draft describes the table it was made from, and marks as private whatever it took from there."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.openness import Openness
from fedveil.data.encoded_table import read_table
from fedveil.data.schema import CategoryColumn, FlagColumn, NumberColumn, Schema
from fedveil.data.schema_draft import draft_schema
from fedveil.data.schema_file import parse_schema

PATIENTS = """\
patient,age,sex,pain,cholesterol,visits,note,disease,hospital
p1,63,1.0,mild,233,3,x,0,north
p2,41,0.0,strong,N/A,3,x,2,south
p3,70,1.0,,286.5,3,x,1,north
p4,55,1.0,mild,200,3,,0,south
"""


def drafted(content: str, tmp_path: Path, **options: str) -> Schema:
    path = tmp_path / "patients.csv"
    path.write_text(content)
    return parse_schema(draft_schema(path, **options), "draft")  # type: ignore[arg-type]


def test_every_range_and_list_is_marked_as_private(tmp_path: Path) -> None:
    schema = drafted(PATIENTS, tmp_path, target="disease", site="hospital")
    assert schema.openness is Openness.PRIVATE
    assert set(schema.private_columns) == {column.name for column in schema.columns}
    text = draft_schema(tmp_path / "patients.csv", target="disease")
    assert "PRIVATE UNTIL YOU REPLACE IT" in text
    assert text.count("# private until you replace it") == text.count('source = "data"  #')


def test_types_follow_from_what_stands_in_the_columns(tmp_path: Path) -> None:
    schema = drafted(PATIENTS, tmp_path, target="disease", site="hospital")
    columns = {column.name: column for column in schema.columns}
    assert columns["age"] == NumberColumn(name="age", low=41, high=70, outside="clip", source="data")
    assert columns["sex"] == FlagColumn(name="sex", source="data")
    pain = CategoryColumn(name="pain", categories=("mild", "strong"), missing="flag", source="data")
    assert columns["pain"] == pain
    assert columns["cholesterol"].missing == "flag"
    assert columns["disease"] == CategoryColumn(name="disease", categories=("0", "1", "2"), source="data")
    assert schema.dropped == ("visits", "note")  # the same everywhere
    assert schema.missing_texts == ("", "?", "NA", "N/A")
    assert schema.site == "hospital"


def test_names_and_broken_numbers_are_left_out_with_the_reason(tmp_path: Path) -> None:
    rows = "".join(f"name{number},{number},{number}\n" for number in range(60))
    path = tmp_path / "names.csv"
    path.write_text(f'who,price,y\n{rows}other,"3,5",7\n')
    text = draft_schema(path, target="y")
    assert "# too many different texts for categories: a name, a date or an identifier?\ndrop = true" in text
    assert "# mostly numbers, but '3,5' is none; mend that and draft again\ndrop = true" in text


def test_a_missing_target_leaves_rows_out(tmp_path: Path) -> None:
    schema = drafted(PATIENTS.replace("x,2,", "x,?,"), tmp_path, target="disease")
    assert schema.target_column.missing == "drop"
    assert read_table(tmp_path / "patients.csv", schema).dropped.tolist() == [1]


def test_a_draft_without_a_target_asks_for_it(tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match="draft: target: is missing; name the column that is to be predicted"):
        drafted(PATIENTS, tmp_path)


def test_the_delimiter_is_the_one_that_makes_columns(tmp_path: Path) -> None:
    assert drafted(PATIENTS.replace(",", ";"), tmp_path, target="disease").delimiter == ";"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"target": "death"}, "target: .*patients.csv has no column 'death'; it has patient, age"),
        ({"target": "disease", "site": "ward"}, "site: .* has no column 'ward'"),
        ({"target": "visits"}, "target: column 'visits' can't be predicted: it has the same value in every row"),
    ],
)
def test_a_column_that_can_not_be_used_is_refused_by_its_argument(
    options: dict[str, str], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=problem):
        drafted(PATIENTS, tmp_path, **options)


@pytest.mark.parametrize("content", ["", "a,b\n", "a,a\n1,2\n", "a,b\n1\n"])
def test_what_is_no_table_is_refused_in_words(content: str, tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match=r"patients\.csv"):
        drafted(content, tmp_path)


CELLS = st.one_of(
    st.sampled_from(["", "?", "NaN", "yes", "no", "a", "b", "1", "0", "1.0", " x "]),
    st.integers(-5, 5).map(str),
    st.floats().map(repr),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4),
)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    names = draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=4), min_size=1, max_size=3, unique=True))
    pools = [draw(st.lists(CELLS, min_size=1, max_size=4)) for _ in names]
    rows = draw(st.lists(st.tuples(*map(st.sampled_from, pools)), min_size=1, max_size=10))
    rows = [(str(place % 3), *row) for place, row in enumerate(rows)]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["the target", *names], *rows])
    return text.getvalue().encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drafts")


@given(tables())
@settings(deadline=None, max_examples=300)
def test_a_table_follows_the_draft_that_was_made_from_it(folder: Path, content: bytes) -> None:
    path = folder / "table.csv"
    path.write_bytes(content)
    try:
        text = draft_schema(path, target="the target")
    except FedveilError:
        return  # one class only, or two columns of one name
    try:
        schema = parse_schema(text, "draft")
    except FedveilError as error:
        if "nothing but the target" in str(error):
            return
        raise
    table = read_table(path, schema)
    assert len(table) == table.rows
    assert abs(table.inputs).max() <= 1


@given(st.binary(max_size=100))
@settings(deadline=None)
def test_whatever_the_bytes_of_a_file_a_draft_is_made_or_refused_in_words(folder: Path, content: bytes) -> None:
    path = folder / "bytes.csv"
    path.write_bytes(content)
    with suppress(FedveilError):
        draft_schema(path)


def test_amounts_of_which_most_are_far_below_the_largest_are_compared_by_factors(tmp_path: Path) -> None:
    rows = "".join(
        f"{2.0 ** (row % 30) + row / 100},{row * 1000.5},{3.0 ** (row % 30) + row / 100}\n" for row in range(60)
    )
    schema = drafted("income,evenly,costs\n" + rows, tmp_path, target="costs")
    columns = {column.name: column for column in schema.columns}
    assert columns["income"].scale == "logarithm"  # type: ignore[union-attr]
    assert columns["evenly"].scale == "linear"  # type: ignore[union-attr]
    assert columns["costs"].scale == "linear"  # type: ignore[union-attr]  # it is the target
