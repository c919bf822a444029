"""Records in files, as a spec names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedveil.config.data_spec import DataSpec, data_table
from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.data.partitions import NaturalSites
from fedveil.data.picture_format import PictureFormat

SITES = '[data]\nschema = "schema.toml"\n[data.sites]\nnorth = "north.csv"\n"so.uth" = "/else/where.csv"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "spec.toml"
    path.write_text('method = "fedavg"\n' + text)
    return path


def test_paths_are_those_seen_from_the_spec_file(tmp_path: Path) -> None:
    data = resolve(written(tmp_path, SITES)).data
    assert data.sites == {"north": str(tmp_path / "north.csv"), "so.uth": "/else/where.csv"}
    assert data.schema == str(tmp_path / "schema.toml")
    assert (data.name, data.clients, data.partition, data.records) == ("sites", 2, NaturalSites(), None)


def test_paths_of_settings_are_those_seen_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = resolve("fedavg", {"data.table": "all.csv", "data.schema": "s.toml", "data.validation": "held_out.csv"})
    assert (spec.data.table, spec.data.schema) == (str(tmp_path / "all.csv"), str(tmp_path / "s.toml"))
    assert spec.data.validation == str(tmp_path / "held_out.csv")
    assert (spec.data.name, spec.data.clients) == ("all", 0)


def test_a_spec_with_files_survives_its_own_file(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "data.sites": {"a": "x", "b": "y"},
        "data.classes": ["cat", "dog"],
        "data.pictures": {"height": 4, "width": 5, "grey": True},
        "data.validation": 0.5,
        "data.validation_records": "public",
    }
    spec = resolve("fedavg", changes)
    assert spec.data.classes == ("cat", "dog")
    assert spec.data.pictures == PictureFormat(height=4, width=5, grey=True)
    assert spec.data.validation_records is Openness.PUBLIC
    (tmp_path / "other.toml").write_text(spec.to_toml())
    assert resolve(tmp_path / "other.toml") == spec


def test_a_spec_of_a_named_data_set_says_nothing_of_files() -> None:
    keys = {"name", "split", "clients", "records", "partition", "test", "seed"}
    assert set(data_table(DataSpec())) == set(resolve("fedavg", {"data.name": "heart"}).to_dict()["data"]) == keys


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"data.table": "a.csv"}, "data.schema: is missing; it says what the columns of data.table are"),
        ({"data.schema": "s.toml"}, "data.schema: is for records in files; say which, in data.sites or data.table"),
        ({"data.validation": 0.5}, "data.validation: is for records in files"),
        ({"data.sites.a": "a", "data.table": "b", "data.schema": "s"}, "data.table: is one table of all sites"),
        ({"data.sites.a": "a", "data.name": "mnist"}, "data.name: 'mnist' is a data set of its own"),
        ({"data.sites.a": "a", "data.validation": 1.5}, "data.validation: must be a share above 0 and below 1"),
        ({"data.sites.a": "a", "data.schema": "s", "data.classes": ["a"]}, "data.schema: is for tables"),
        ({"data.sites.a": "a", "data.split": "official"}, "data.split: must be 'own' for records in files"),
        ({"data.sites.a": 5}, "data.sites: expected a table of names and files, not 5"),
        ({"data.sites": ["a", "b"]}, "data.sites: expected a table of names and files"),
        ({"data.sites.a": "a", "data.classes": "cat"}, "data.classes: expected a list"),
        ({"data.sites.a": "a", "data.pictures": {"height": 4}}, "data.pictures.width: the key width is missing"),
        (
            {"data.sites.a": "a", "data.validation_records": "open"},
            "data.validation_records: must be public or private",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_with_its_key(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(FedveilError) as caught:
        resolve("fedavg", changes)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
