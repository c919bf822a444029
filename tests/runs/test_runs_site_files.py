"""Hospitals with a file each, from the shell: run, go on, account; and what is refused before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.data import site_reader
from fedveil.data.dataset import Dataset
from fedveil.runs.account import account
from fedveil.runs.files import RunFiles
from fedveil.runs.prepare import load_for
from fedveil.runs.run import resume, run
from fedveil.studies.report import report

SIZES = {"north": 200, "south": 24, "east": 60, "west": 40, "the centre": 90}
SCHEMA = """
target = "sick"
[columns.age]
type = "number"
low = 0
high = 100
[columns.pressure]
type = "number"
low = 60
high = 220
missing = "flag"
[columns.sick]
type = "flag"
"""
SPEC = """
method = "fed-cdp-batch"
[data]
name = "hospitals"
schema = "schema.toml"
[batch]
kind = "all"
[local]
steps = 1
[stop]
rounds = 2
"""


def rows_of(count: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    ages, pressures = generator.integers(20, 90, count), generator.integers(90, 200, count)
    rows = zip(ages, pressures, generator.random(count) < 0.1, strict=True)
    return [f"{age},{'' if gone else pressure},{int(age + pressure > 190)}" for age, pressure, gone in rows]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A spec, a schema, and a CSV file for each of five hospitals."""
    place = tmp_path / "files"
    place.mkdir()
    (place / "schema.toml").write_text(SCHEMA)
    lines = [f'"{name}" = "{name}.csv"' for name in SIZES]
    (place / "spec.toml").write_text("\n".join([SPEC, "[data.sites]", *lines]))
    for name, count in SIZES.items():
        (place / f"{name}.csv").write_text("\n".join(["age,pressure,sick", *rows_of(count, count)]))
    return place


def loaded(place: Path, **changes: Any) -> Dataset:
    return load_for(resolve(place / "spec.toml", changes).data)


def test_five_hospitals_are_trained_from_the_shell(folder: Path, call: Any) -> None:
    code, printed, _ = call("run", str(folder / "spec.toml"), "--out", "run", "--workers", "1", "--json")
    assert code == 0
    result = json.loads(printed)
    assert (result["data"], result["rounds"]) == ("hospitals", 2)
    assert call("account", "run")[1].startswith("fed-cdp-batch on hospitals, 2 rounds: 5 sites with 18 to 150 records")
    assert call("resume", "run")[0] == 0


def test_a_run_finds_its_records_again_from_anywhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    first = run("spec.toml", out=tmp_path / "run", workers=1)
    RunFiles(tmp_path / "run").result.unlink()
    monkeypatch.chdir("/")
    assert resume(tmp_path / "run", workers=1).ledger_head == first.ledger_head
    assert account(tmp_path / "run").context.population.names == tuple(SIZES)


def test_a_page_for_release_does_not_say_where_files_lie(folder: Path, tmp_path: Path) -> None:
    run(folder / "spec.toml", out=tmp_path / "run", workers=1)
    report([tmp_path / "run"], tmp_path / "page.html", release=True)
    page = (tmp_path / "page.html").read_text()
    assert "north.csv" in page
    assert str(folder) not in page


def test_records_that_have_changed_are_refused(folder: Path, tmp_path: Path) -> None:
    run(folder / "spec.toml", out=tmp_path / "run", workers=1)
    RunFiles(tmp_path / "run").result.unlink()
    (folder / "south.csv").write_text("\n".join(["age,pressure,sick", *rows_of(24, 99)]))
    with pytest.raises(FedveilError, match="records"):
        resume(tmp_path / "run", workers=1)


def test_one_table_with_a_column_for_the_site_gives_the_same_sites(folder: Path) -> None:
    tables = {name: (folder / f"{name}.csv").read_text().splitlines()[1:] for name in SIZES}
    rows = [f"{row},{name}" for name, rows in tables.items() for row in rows]
    (folder / "all.csv").write_text("\n".join(["age,pressure,sick,clinic", *rows]))
    (folder / "sited.toml").write_text('site = "clinic"\n' + SCHEMA)
    text = SPEC.replace('schema = "schema.toml"', 'schema = "sited.toml"\ntable = "all.csv"')
    (folder / "table.toml").write_text(text)
    whole = load_for(resolve(folder / "table.toml").data)
    assert whole.sites == loaded(folder).sites
    assert whole.fingerprint == loaded(folder).fingerprint


def test_the_sites_of_a_table_are_counted_when_it_is_read(folder: Path, tmp_path: Path) -> None:
    rows = [f"{row},{'ab'[number % 2]}" for number, row in enumerate(rows_of(40, 1))]
    (folder / "all.csv").write_text("\n".join(["age,pressure,sick,clinic", *rows]))
    (folder / "sited.toml").write_text('site = "clinic"\n' + SCHEMA)
    text = SPEC.replace('schema = "schema.toml"', 'schema = "sited.toml"\ntable = "all.csv"')
    (folder / "table.toml").write_text(text)
    assert resolve(folder / "table.toml").data.clients == 0
    run(folder / "table.toml", out=tmp_path / "run", workers=1)
    assert resolve(tmp_path / "run" / "spec.toml").data.clients == 2
    assert account(tmp_path / "run").context.population.names == ("a", "b")


def test_the_files_of_a_front_door_are_read_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings follow from the number of records, which are then trained on."""
    read: list[str] = []
    original = site_reader.own_table

    def counting(where: str, *others: Any) -> Any:
        read.append(where)
        return original(where, *others)

    monkeypatch.setattr(site_reader, "own_table", counting)
    (folder / "spec.toml").write_text((folder / "spec.toml").read_text().replace("fed-cdp-batch", "private-records"))
    result = run(folder / "spec.toml", {"privacy.epsilon": 2.0}, out=tmp_path / "run", workers=1)
    assert result.rounds == 2
    assert read == [f"site '{name}'" for name in SIZES]


def test_a_file_of_validation_records_is_nobody_s(folder: Path) -> None:
    (folder / "held_out.csv").write_text("\n".join(["age,pressure,sick", *rows_of(30, 7)]))
    dataset = loaded(folder, **{"data.validation": str(folder / "held_out.csv")})
    assert len(dataset.validation) == 30
    assert [len(site.train) for site in dataset.sites] == list(SIZES.values())
    assert not any(len(site.validation) for site in dataset.sites)


def test_folders_of_pictures_are_sites(tmp_path: Path) -> None:
    for number in range(24):
        path = tmp_path / ("one", "two")[number % 2] / ("cat", "dog")[number // 2 % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9), (number * 10, 0, 255 * (number // 2 % 2))).save(path)
    spec = """
    method = "fedavg"
    [data]
    classes = ["dog", "cat"]
    pictures = {height = 8, width = 8}
    [data.sites]
    one = "one"
    two = "two"
    [model]
    name = "mlp"
    [batch]
    size = 2
    [stop]
    rounds = 1
    """
    (tmp_path / "spec.toml").write_text(spec)
    result = run(tmp_path / "spec.toml", out=tmp_path / "run", workers=1)
    assert result.data == "sites"
    found = account(tmp_path / "run")
    assert found.context.population.names == ("one", "two")
    kinds = {str(caveat.kind) for caveat in found.context.caveats}
    assert kinds == {"private-evaluation"}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("south.csv", "", "site 'south': .*south.csv: is empty"),
        ("south.csv", "age,pressure,sick\n", "site 'south': .*south.csv: has no rows"),
        ("south.csv", "age,sick\n30,1\n", "site 'south': .*lacks the column 'pressure'"),
        ("south.csv", "age,pressure,sick\n30,120,1\nold,120,0\n", "south.csv, line 3, column 'age'"),
        ("south.csv", "age,pressure,sick\n30,inf,1\n", "south.csv, line 2, column 'pressure'"),
        ("south.csv", "age,pressure,sick\n30,120,maybe\n", "south.csv, line 2, column 'sick'"),
        ("schema.toml", SCHEMA.replace('target = "sick"', ""), "schema.toml: target: is missing"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_before_anything_is_written(
    name: str, text: str, problem: str, folder: Path, tmp_path: Path
) -> None:
    (folder / name).write_text(text)
    with pytest.raises(FedveilError, match=problem) as caught:
        run(folder / "spec.toml", out=tmp_path / "run", workers=1)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_not_there_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "west.csv").unlink()
    with pytest.raises(FedveilError, match=r"site 'west': .*west.csv: can't be read \(No such file"):
        run(folder / "spec.toml", out=tmp_path / "run", workers=1)


def test_a_site_that_stands_twice_is_refused(folder: Path) -> None:
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text() + '\nnorth = "other.csv"\n')
    with pytest.raises(FedveilError, match=r"spec.toml: not a TOML file .*overwrite"):
        resolve(spec)
