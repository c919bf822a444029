"""Sites with tables of their own, or rows of one table, become examples that are encoded alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedveil.core.errors import FedveilError
from fedveil.data.schema_file import parse_schema
from fedveil.data.site_tables import examples_by_site

SCHEMA = parse_schema(
    """
    target = "sick"
    site = "hospital"
    columns.age = { type = "number", low = 0, high = 100, outside = "drop" }
    columns.sick = { type = "flag" }
    """,
    "schema.toml",
)


def written(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def test_a_column_of_sites_and_a_table_for_each_site_give_the_same(tmp_path: Path) -> None:
    both = written(tmp_path / "both.csv", "hospital,age,sick\nnorth,0,yes\nsouth,50,no\nnorth,75,no\n")
    north = written(tmp_path / "north.csv", "age,sick\n0,1\n75,0\n")
    south = written(tmp_path / "south.csv", "sick,age,hospital\nfalse,50,elsewhere\n")
    together = examples_by_site(both, SCHEMA)
    apart = examples_by_site({"north": north, "south": south}, SCHEMA)
    assert list(together) == list(apart) == ["north", "south"]
    for name in together:
        assert torch.equal(together[name].inputs, apart[name].inputs)
        assert torch.equal(together[name].labels, apart[name].labels)
    assert together["north"].inputs.tolist() == [[-1.0], [0.5]]
    assert together["north"].labels.tolist() == [1, 0]


def test_what_is_wrong_with_a_table_names_the_site(tmp_path: Path) -> None:
    good = written(tmp_path / "good.csv", "age,sick\n0,1\n")
    bad = written(tmp_path / "bad.csv", "age,sick\nold,1\n")
    with pytest.raises(FedveilError, match=r"site 'south': .*bad\.csv, line 2, column 'age': 'old' is not a finite"):
        examples_by_site({"north": good, "south": bad}, SCHEMA)


def test_a_site_without_a_row_is_refused(tmp_path: Path) -> None:
    table = written(tmp_path / "one.csv", "hospital,age,sick\nnorth,0,yes\nsouth,101,no\n")
    with pytest.raises(FedveilError, match=r"one\.csv: the schema leaves no row of the site 'south'"):
        examples_by_site(table, SCHEMA)
    own = written(tmp_path / "own.csv", "age,sick\n101,no\n")
    with pytest.raises(FedveilError, match=r"site 'south': .*own\.csv: the schema leaves no row of it"):
        examples_by_site({"south": own}, SCHEMA)


def test_one_table_needs_a_column_of_sites(tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match="schema: site: is missing"):
        examples_by_site(tmp_path / "any.csv", replace(SCHEMA, site=""))


def test_progress_names_the_site(tmp_path: Path) -> None:
    north = written(tmp_path / "north.csv", "age,sick\n0,1\n75,0\n")
    seen: list[tuple[str, int]] = []
    examples_by_site({"north": north}, SCHEMA, progress=lambda name, rows: seen.append((name, rows)))
    assert seen == [("site 'north'", 2)]
