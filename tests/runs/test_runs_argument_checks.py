"""What is of the wrong type is named in one line, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from series_follower import Follower

import fedveil
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.studies.compare import compare
from fedveil.studies.sweep import parse_axis, sweep

Call = Callable[..., Any]
RANGE = fedveil.Regression(0.0, 1.0)


def compared(**arguments: Any) -> Any:
    return compare(["fedavg"], **{"follower": Follower(), **arguments})


def swept(**arguments: Any) -> Any:
    return sweep("fedavg", [parse_axis("stop.rounds=1,2")], **{"follower": Follower(), "out": "x", **arguments})


@pytest.mark.parametrize("call", [fedveil.run, fedveil.account, fedveil.attack, fedveil.audit, compared, swept])
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"dataset": "cancer"}, "dataset: must be a data set, not 'cancer'; load('cancer') gives that one"),
        ({"dataset": "mine"}, "dataset: must be a data set, not 'mine'; from_tensors and from_sites make one"),
        ({"dataset": (torch.zeros(2, 2), torch.zeros(2))}, "dataset: must be a data set, not a tuple; from_tensors"),
        ({"dataset": np.zeros((2, 2))}, "dataset: must be a data set, not a numpy.ndarray"),
        ({"overrides": ["stop.rounds=3"]}, "overrides: must be a table of settings, as {'stop.rounds': 5}, not a list"),
        ({"overrides": {3: 4}}, "overrides: must be a table of settings, as {'stop.rounds': 5}; the key 3 is no text"),
    ],
)
def test_records_and_settings_of_the_wrong_type_are_named(
    call: Call, arguments: dict[str, Any], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"source": "fedavg"} if call in (fedveil.run, fedveil.account, fedveil.attack, fedveil.audit) else {}
    with pytest.raises(ArgumentError) as caught:
        call(**given, **arguments)
    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"workers": "2"}, "workers: must be a whole number, not '2'"),
        ({"workers": 1.5}, "workers: must be a whole number, not 1.5"),
        ({"workers": True}, "workers: must be a whole number, not True"),
        ({"rounds": "3"}, "rounds: must be a whole number, not '3'"),
        ({"seed": 0.5}, "seed: must be a whole number, not 0.5"),
        ({"chunk": [1]}, "chunk: must be a whole number, not a list"),
        ({"out": 5}, "out: must be a path, not 5"),
        ({"on_round": 3}, "on_round: must be a function, not 3"),
        ({"runtime": "local"}, "runtime: must be a function, not 'local'"),
        ({"source": 5}, "source: must be a method's name, a spec file, a table of settings or a Spec, not int"),
        (
            {"source": ["fedavg"]},
            "source: must be a method's name, a spec file, a table of settings or a Spec, not list",
        ),
    ],
)
def test_other_arguments_of_a_run_are_named_too(
    arguments: dict[str, Any], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError) as caught:
        fedveil.run(**{"source": "fedavg", **arguments})
    assert str(caught.value) == problem
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: fedveil.resume(5), "directory: must be a path, not 5"),  # type: ignore[arg-type]
        (lambda: fedveil.audit("fedavg", unit="people"), "unit: must be record or client, not 'people'"),
        (lambda: fedveil.attack("fedavg", victims="two"), "victims: must be a whole number, not 'two'"),  # type: ignore[arg-type]
        (lambda: fedveil.from_sites({}, name=5), "name must be a text, not 5"),  # type: ignore[arg-type]
        (lambda: fedveil.from_sites({}, classes="ab"), "classes: must be a list of labels, not 'ab'"),
        (lambda: fedveil.from_sites({}, classes=2), "classes: must be a list of labels, not 2"),  # type: ignore[arg-type]
        (lambda: fedveil.from_sites({}, classes=[[0], [1]]), "classes: a list can't be a label: [0]"),  # type: ignore[list-item]
        (lambda: fedveil.load(3), "name: must be the name of a data set, not 3"),  # type: ignore[arg-type]
        (lambda: fedveil.read_schema(3), "path: must be the path of a schema, not 3"),  # type: ignore[arg-type]
        (lambda: fedveil.Regression("0", 1), "low must be a finite number, not '0'"),  # type: ignore[arg-type]
        (lambda: fedveil.Classification("ab"), "class_names must be a tuple of names, not 'ab'"),  # type: ignore[arg-type]
        (lambda: fedveil.scaled_labels("a", RANGE), "numbers: must be numbers in the unit of the task, not 'a'"),  # type: ignore[arg-type]
        (lambda: fedveil.scaled_labels([1.0], (0, 1)), "task: must be Regression(low, high), not (0, 1)"),  # type: ignore[arg-type]
        (lambda: fedveil.resume("runs/x", on_round=3), "on_round: must be a function, not 3"),  # type: ignore[arg-type]
        (lambda: fedveil.from_sites({}, task="yes"), "task: must be Classification(…) or Regression(…), not 'yes'"),  # type: ignore[arg-type]
        (lambda: fedveil.from_sites({}, schema=3), "schema: must be a schema or the path of one, not 3"),  # type: ignore[arg-type]
        (lambda: fedveil.from_tensors("a", 5, 5), "data set 'a', train: records must be Examples, a pair"),  # type: ignore[arg-type]
    ],
)
def test_every_public_function_names_what_it_can_not_take(call: Call, problem: str) -> None:
    with pytest.raises(FedveilError) as caught:
        call()
    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)
