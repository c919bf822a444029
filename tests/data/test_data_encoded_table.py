"""Tables become features by their schema alone: the same for every format, block and neighbour."""

from __future__ import annotations

import csv
import io
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.core.errors import FedveilError
from fedveil.data.encoded_table import EncodedTable, read_table
from fedveil.data.schema import CategoryColumn, FlagColumn, NumberColumn, Schema
from fedveil.data.schema_file import parse_schema

SCHEMA = Schema(
    columns=(
        NumberColumn(name="age", low=0, high=100, outside="clip"),
        NumberColumn(name="cholesterol", low=100, high=300, missing="flag"),
        NumberColumn(name="income", low=0, high=1e6, scale="logarithm"),
        CategoryColumn(name="pain", categories=("mild", "strong"), missing="flag", outside="missing"),
        FlagColumn(name="smoker", missing="flag"),
        CategoryColumn(name="disease", categories=("no", "yes"), spellings=(("0",), ("1", "2", "3"))),
    ),
    target="disease",
    site="hospital",
)
HEADER = "age,cholesterol,income,pain,smoker,disease,hospital\n"
GOOD = "50,200,0,mild,TRUE,0,north\n"


def read(content: str | bytes, tmp_path: Path, schema: Schema = SCHEMA, **options: Any) -> EncodedTable:
    path = tmp_path / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, schema, **options)


def refused(content: str | bytes, tmp_path: Path, schema: Schema = SCHEMA) -> str:
    with pytest.raises(FedveilError) as error:
        read(content, tmp_path, schema)
    return str(error.value).replace(f"{tmp_path}/", "")


def features(row: str, tmp_path: Path) -> dict[str, float]:
    table = read(HEADER + row, tmp_path)
    return dict(zip(SCHEMA.features, table.inputs[0].tolist(), strict=True))


# What a row becomes


def test_numbers_categories_and_flags_become_features_between_minus_one_and_one(tmp_path: Path) -> None:
    assert features(GOOD, tmp_path) == {
        "age": 0.0,
        "cholesterol": 0.0,
        "cholesterol missing": 0.0,
        "income": -1.0,
        "pain = mild": 1.0,
        "pain = strong": 0.0,
        "pain missing": 0.0,
        "smoker": 1.0,
        "smoker missing": 0.0,
    }


def test_a_missing_value_is_zero_with_a_flag_of_its_own(tmp_path: Path) -> None:
    encoded = features("50,?,0, NA,,0,north\n", tmp_path)
    assert [encoded[name] for name in ("cholesterol", "cholesterol missing")] == [0.0, 1.0]
    assert [encoded[name] for name in ("pain = mild", "pain = strong", "pain missing")] == [0.0, 0.0, 1.0]
    assert [encoded[name] for name in ("smoker", "smoker missing")] == [0.0, 1.0]


def test_numbers_beyond_the_range_are_cut_where_the_schema_says_so(tmp_path: Path) -> None:
    assert features(GOOD.replace("50,", "-3,"), tmp_path)["age"] == -1.0
    assert features(GOOD.replace("50,", "1e9,"), tmp_path)["age"] == 1.0
    assert read(HEADER + GOOD.replace("50,", "1e9,"), tmp_path).outside["age"] == 1


def test_an_amount_on_a_logarithm_is_compared_by_factors(tmp_path: Path) -> None:
    expected = 2 * math.log1p(1000) / math.log1p(1e6) - 1
    assert features(GOOD.replace(",0,mild", ",1000,mild"), tmp_path)["income"] == pytest.approx(expected)


def test_labels_are_places_of_classes_and_several_spellings_are_one_class(tmp_path: Path) -> None:
    rows = "".join(GOOD.replace("TRUE,0", f"TRUE,{value}") for value in ("0", "1", "2.0", " 3"))
    labels = read(HEADER + rows, tmp_path).labels
    assert labels is not None
    assert labels.dtype == np.int64
    assert labels.tolist() == [0, 1, 1, 1]


def test_a_number_as_target_is_scaled_to_its_range(tmp_path: Path) -> None:
    schema = parse_schema(
        'target = "y"\n[columns.x]\ntype = "flag"\n[columns.y]\ntype = "number"\nlow = 10\nhigh = 30', "s"
    )
    labels = read("x,y\n1,10\n0,25\n", tmp_path, schema).labels
    assert labels is not None
    assert labels.dtype == np.float32
    assert labels.tolist() == [-1.0, 0.5]


def test_rows_know_their_sites(tmp_path: Path) -> None:
    table = read(HEADER + GOOD + GOOD.replace("north", "south").replace("50,", "100,") + GOOD, tmp_path)
    assert table.site_names == ("north", "south")
    assert table.site_of_row is not None
    assert table.site_of_row.tolist() == [0, 1, 0]
    assert table.of_site("south").inputs[:, 0].tolist() == [1.0]
    assert len(table.of_site("north")) == 2


def test_rows_that_the_schema_leaves_out_are_left_out_and_counted(tmp_path: Path) -> None:
    text = """
        target = "y"
        site = "s"
        columns.x = { type = "number", low = 0, high = 1, outside = "drop", missing = "flag" }
        columns.y = { type = "category", categories = ["a", "b"], missing = "drop", outside = "drop" }
    """
    content = "x,y,s\n0,a,p\n7,a,p\n1,,p\n1,c,p\n,b,q\n"
    table = read(content, tmp_path, parse_schema(text, "s"))
    assert table.rows == 5
    assert table.dropped.tolist() == [1, 2, 3]
    assert table.inputs.tolist() == [[-1.0, 0.0], [0.0, 1.0]]
    assert table.labels is not None
    assert table.labels.tolist() == [0, 1]
    assert table.site_of_row is not None
    assert table.site_of_row.tolist() == [0, 1]


def test_where_they_are_not_asked_for_neither_target_nor_site_are_needed(tmp_path: Path) -> None:
    content = "age,cholesterol,income,pain,smoker\n50,200,0,mild,no\n"
    table = read(content, tmp_path, labelled=False, sited=False)
    assert table.labels is None
    assert table.site_of_row is None
    assert len(table) == 1


# How a file may look


def test_a_byte_order_mark_quotes_spaces_empty_lines_and_other_line_ends_change_nothing(tmp_path: Path) -> None:
    plain = read(HEADER + GOOD + GOOD, tmp_path).inputs
    odd = '\ufeff age , "cholesterol",income,pain,smoker,disease,hospital\r\n\r\n" 50 ",200,"0",mild , true,0,north\r\n'
    odd += "50,200,0,mild,yes,0,north\r\n\r\n"
    with pytest.raises(FedveilError, match="lacks the column 'cholesterol'"):  # a quote must begin its field
        read(odd, tmp_path)
    assert (read(odd.replace(', "cholesterol"', ',"cholesterol"'), tmp_path).inputs == plain).all()


def test_columns_may_stand_in_any_order_and_others_are_ignored_and_named(tmp_path: Path) -> None:
    plain = read(HEADER + GOOD, tmp_path)
    table = read("hospital,note,disease,smoker,pain,income,cholesterol,age,\nnorth,x,0,1,mild,0,200,50,\n", tmp_path)
    assert (table.inputs == plain.inputs).all()
    assert table.ignored == ("note", "")
    assert plain.ignored == ()


def test_a_file_with_another_delimiter_is_read_as_the_schema_says(tmp_path: Path) -> None:
    content = (HEADER + GOOD).replace(",", ";")
    other = Schema(columns=SCHEMA.columns, target="disease", site="hospital", delimiter=";")
    assert len(read(content, tmp_path, other)) == 1
    assert "delimiter = ';'" in refused(content, tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "table.csv: is empty; its first line must name the columns"),
        ("\n\n", "table.csv: is empty; its first line must name the columns"),
        (HEADER, "table.csv: has no rows"),
        (HEADER.replace("age,", ""), "table.csv: lacks the column 'age'; it has 'cholesterol', 'income'"),
        (HEADER.replace("income", "age") + GOOD, "table.csv: has the column 'age' 2 times"),
        (HEADER + GOOD + "50,200\n", "table.csv, line 3: has 2 fields, and the header has 7"),
        (HEADER + GOOD + "x" + GOOD, "table.csv, line 3, column 'age': 'x50' is not a finite number"),
        (HEADER + GOOD.replace("50", "inf"), "table.csv, line 2, column 'age': 'inf' is not a finite number"),
        (HEADER + GOOD.replace("50", "1e999"), "line 2, column 'age': '1e999' is not a finite number"),
        (HEADER + GOOD.replace("50", "nan"), "line 2, column 'age': 'nan' is not a finite number"),
        (HEADER + GOOD.replace("50", "1_0"), "line 2, column 'age': '1_0' is not a finite number"),
        (HEADER + GOOD.replace("50", '"5,5"'), "column 'age': '5,5' is not a finite number; write 1.5, not 1,5"),
        (HEADER + GOOD.replace("50", ""), "line 2, column 'age': is missing, and the schema does not allow that"),
        (HEADER + GOOD.replace("200", "301"), "column 'cholesterol': '301' is outside the range 100 to 300"),
        (HEADER + GOOD.replace("TRUE", "maybe"), "line 2, column 'smoker': 'maybe' is none of its categories"),
        (HEADER + GOOD.replace("TRUE,0", "TRUE,9"), "line 2, column 'disease': '9' is none of its categories"),
        (HEADER + GOOD.replace("TRUE,0", "TRUE,?"), "line 2, column 'disease': is missing"),
        (HEADER + GOOD.replace("north", " "), "line 2, column 'hospital': is missing, so whose row it is can't"),
        (HEADER + GOOD.replace("north", "a/b"), "line 2, column 'hospital': the site must be a plain name"),
        (HEADER + '"50', "table.csv, line 2: not CSV (unexpected end of data)"),
        (HEADER + "5" * 200_000, "table.csv, line 2: not CSV (field larger than field limit (131072))"),
        (HEADER.encode() + b"\xe9\xff", "table.csv: not a text in UTF-8; save it as CSV in UTF-8"),
    ],
)
def test_what_the_schema_does_not_allow_is_said_with_file_line_and_column(
    content: str | bytes, problem: str, tmp_path: Path
) -> None:
    assert problem in refused(content, tmp_path)


def test_lines_are_counted_through_quoted_line_ends_and_empty_lines(tmp_path: Path) -> None:
    rows = GOOD.replace("mild", '"mi\r\nld"') + "\n" + GOOD.replace("50", "young")
    assert "table.csv, line 5, column 'age': 'young'" in refused(HEADER + rows, tmp_path)


def test_the_first_bad_row_is_named_whichever_column_it_is_in(tmp_path: Path) -> None:
    rows = GOOD + GOOD.replace("TRUE,0", "TRUE,9") + GOOD.replace("50", "old")
    assert "line 3, column 'disease'" in refused(HEADER + rows, tmp_path)
    with pytest.raises(FedveilError, match="line 3, column 'disease'"):
        read(HEADER + rows, tmp_path, block_rows=1)


def test_a_number_may_stand_for_a_missing_value(tmp_path: Path) -> None:
    text = """
        target = "y"
        missing_texts = ["-9"]
        columns.x = { type = "number", low = -10, high = 10, missing = "flag" }
        columns.y = { type = "flag" }
    """
    assert read("x,y\n-9,1\n -9,0\n5,0\n", tmp_path, parse_schema(text, "s")).inputs.tolist() == [
        [0.0, 1.0],
        [0.0, 1.0],
        [0.5, 0.0],
    ]


@pytest.mark.parametrize("source", [5, None, {"a": [1]}, [[1]], np.zeros((2, 2))])
def test_what_is_no_table_is_refused_by_its_type(source: object) -> None:
    with pytest.raises(FedveilError, match="a table must be the path of a CSV or Parquet file or a pandas DataFrame"):
        read_table(source, SCHEMA)


def test_a_file_that_is_not_there_and_a_directory_are_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match=r"none\.csv: can't be read \(No such file"):
        read_table(tmp_path / "none.csv", SCHEMA)
    with pytest.raises(FedveilError, match="a directory, not a table"):
        read_table(tmp_path, SCHEMA)


# Properties


def optional(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return values | st.sampled_from(["", "?", " NA"])


NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(-999, 999).map(str)
ROWS = st.tuples(
    NUMBERS,
    optional(st.floats(100, 300).map(repr)),
    st.floats(0, 1e6).map(repr),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5) | st.sampled_from(["mild", "strong"]),
    optional(st.sampled_from(["yes", "NO", "1", "0.0", "true"])),
    st.sampled_from(["0", "1", "2.0", " 3 "]),
    st.sampled_from(["north", "south", "Zürich, see"]),
)


def as_csv(rows: list[tuple[str, ...]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([HEADER.strip().split(","), *rows])
    return text.getvalue().encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@given(st.lists(ROWS, min_size=1, max_size=20), st.integers(1, 21))
@settings(deadline=None)
def test_a_row_is_encoded_alike_in_any_block_and_beside_any_other_rows(
    folder: Path, rows: list[tuple[str, ...]], block_rows: int
) -> None:
    whole = read(as_csv(rows), folder)
    assert np.abs(whole.inputs).max() <= 1
    assert np.isfinite(whole.inputs).all()
    blocks = read(as_csv(rows), folder, block_rows=block_rows)
    assert (blocks.inputs == whole.inputs).all()
    assert (blocks.labels == whole.labels).all()
    assert (blocks.site_names, blocks.missing, blocks.outside) == (whole.site_names, whole.missing, whole.outside)
    for place, row in enumerate(rows):
        alone = read(as_csv([row]), folder)
        assert (alone.inputs[0] == whole.inputs[place]).all()


@given(st.binary(max_size=200), st.booleans())
@settings(deadline=None, max_examples=300)
def test_whatever_the_bytes_of_a_file_they_are_read_or_refused_in_words(
    folder: Path, content: bytes, begun: bool
) -> None:
    with suppress(FedveilError):
        read((HEADER + GOOD).encode() + content if begun else content, folder)


# Memory


def test_a_large_table_is_never_held_as_text(tmp_path: Path) -> None:
    import tracemalloc

    read(HEADER + GOOD, tmp_path)
    rows = 40_000
    content = HEADER + GOOD * rows
    reported: list[int] = []
    path = tmp_path / "large.csv"
    path.write_text(content)
    tracemalloc.start()
    table = read_table(path, SCHEMA, block_rows=1000, progress=reported.append)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    held = table.inputs.nbytes + rows * (8 + 4)  # features, labels, sites
    assert len(table) == rows
    assert peak < 1.3 * held + 3e6
    assert reported == list(range(1000, rows + 1, 1000))


# Other formats


def test_a_frame_and_a_parquet_file_give_what_the_same_csv_file_gives(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rows = GOOD + "101,,5.5,,,3,south\n" + "7,123.25,1000000,strong,False,1,north\n"
    expected = read(HEADER + rows, tmp_path)
    frame = pandas.read_csv(tmp_path / "table.csv")
    frame["disease"] = frame["disease"].astype("Int64")
    frame["pain"] = frame["pain"].astype("category")
    frame.to_parquet(tmp_path / "table.parquet")
    for source in (frame, frame.astype(object), tmp_path / "table.parquet"):
        for block_rows in (1, 2, 100):
            table = read_table(source, SCHEMA, block_rows=block_rows)
            assert (table.inputs == expected.inputs).all()
            assert (table.labels == expected.labels).all()
            assert table.site_names == expected.site_names


def test_a_bad_cell_of_a_frame_is_named_by_its_row(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    read(HEADER + GOOD * 3, tmp_path)
    frame = pandas.read_csv(tmp_path / "table.csv", index_col=False)
    frame.loc[2, "cholesterol"] = 1000
    with pytest.raises(FedveilError, match="DataFrame, row 3, column 'cholesterol': '1000' is outside"):
        read_table(frame, SCHEMA, block_rows=2)
    frame["cholesterol"] = math.inf
    with pytest.raises(FedveilError, match="DataFrame, row 1, column 'cholesterol': 'inf' is not a finite"):
        read_table(frame, SCHEMA)


def test_mixed_types_in_one_column_are_read_cell_by_cell() -> None:
    pandas = pytest.importorskip("pandas")
    schema = parse_schema(
        'target = "y"\ncolumns.x = { type = "category", categories = [1, 2] }\ncolumns.y = { type = "flag" }', "s"
    )
    frame = pandas.DataFrame({"x": [1, "2", 1.0, np.int8(2)], "y": [True, "no", 1, 0.0]})
    table = read_table(frame, schema)
    assert table.inputs.tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]
    assert table.labels is not None
    assert table.labels.tolist() == [1, 0, 1, 0]
    frame["x"] = frame["x"].astype(object)
    frame.loc[1, "x"] = object()
    with pytest.raises(FedveilError, match="row 2, column 'x'"):
        read_table(frame, schema)


def test_a_damaged_parquet_file_is_said_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "broken.parquet"
    for content in (b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"):
        path.write_bytes(content)
        with pytest.raises(FedveilError, match=r"broken\.parquet: not a Parquet file"):
            read_table(path, SCHEMA)


def test_without_the_extra_a_parquet_file_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FedveilError, match=r"needs pyarrow; install it: pip install 'fedveil\[tables\]'"):
        read_table(tmp_path / "table.parquet", SCHEMA)
