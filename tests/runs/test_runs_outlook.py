"""What is promised without a tensor is what a run would be held to."""

from __future__ import annotations

from typing import Any

import pytest

from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.runs.outlook import outlook_for
from fedveil.runs.prepare import prepare

CANCER = {"data.name": "cancer"}


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("fed-cdp", {}),
        ("fed-cdp", {"data.partition": {"kind": "dirichlet", "beta": 0.5}, "data.clients": 12, "data.records": 80}),
        ("fed-cdp", {"data.partition": "random", "data.clients": 17, "data.records": None, "seed": 3}),
        ("fed-cdp", {"model.options.hidden": [9, 8, 7]}),
        ("private-records", {"data.clients": 4}),
        ("private-clients", {}),
        ("geyer", {}),
    ],
)
def test_a_named_set_is_promised_what_a_run_on_it_is_held_to(method: str, more: dict[str, Any]) -> None:
    outlook = outlook_for(method, {**CANCER, **more})
    prepared = prepare(resolve(method, {**CANCER, **more}))
    assert outlook.spec == prepared.spec
    assert outlook.context == prepared.context
    assert outlook.changes == prepared.changes


def test_so_are_records_that_were_brought_along(tiny: dict[str, Any], blobs: Dataset) -> None:
    calibrated = tiny | {"privacy.epsilon": 2.0, "privacy.calibrate": True}
    outlook, prepared = outlook_for("fed-cdp", calibrated, blobs), prepare(resolve("fed-cdp", calibrated), blobs)
    assert outlook.context == prepared.context
    assert [change.key for change in outlook.changes] == ["example.sigma"]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"model.options.nothing": 1}, r"^model\.options: mlp takes no such options"),
        ({"model.name": "cnn"}, "needs images"),
        ({"data.split": "official"}, "no official test set"),
        ({"cohort.size": 1000}, r"^cohort\.size: "),
        ({"objective": "huber"}, r"^objective\.kind: "),
    ],
)
def test_what_could_not_run_promises_nothing(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(FedveilError, match=problem):
        outlook_for("fed-cdp", {**CANCER, **more})
