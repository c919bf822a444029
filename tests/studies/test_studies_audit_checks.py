"""Faults that large noise hides from every guess, and that a comparison with the declaration finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from own_runtime import one_by_one
from planted import (
    Plant,
    changed_noise,
    constant_key,
    first_half_only,
    fixed_batches,
    no_clip,
    no_report_noise,
    noise_taken_off_again,
    one_noise_for_all_rows,
    same_cohort,
    sensitivity_of_one_layer,
    shared,
    times,
)

from fedveil.core.streams import Streams
from fedveil.core.verdicts import CheckKind, Verdict
from fedveil.data.dataset import Dataset
from fedveil.engine.job import Job
from fedveil.engine.loop import Runtime
from fedveil.studies.audit import audit
from fedveil.studies.audit_result import Audit

SMALL: dict[str, Any] = {
    "data.name": "blobs",
    "data.clients": 40,
    "data.records": 20,
    "data.partition": "copy",
    "model.name": "mlp",
    "model.options.hidden": [16, 8],
    "cohort": {"kind": "fixed", "size": 10},
    "local.steps": 4,
    "stop.rounds": 4,
}
ROW = {"batch": {"kind": "partition", "size": 5}}  # Fed-CDP's own noise: σ = 6 on every row
POISSON = {"batch": {"kind": "poisson", "size": 5}, "example.sigma": 8.0, "example.noise": "sum"}
ADAM = POISSON | {"batch": {"kind": "without-replacement", "size": 5}, "local.optimiser": "adam", "local.decay": 0.1}
LARGE = {"upload.sigma": 20.0, "local.steps": 1}
NORMS = LARGE | {"upload.clip": {"bound": {"kind": "quantile", "start": 1.0, "sigma": 15.0}, "by": "flat"}}
BINS = LARGE | {"upload.clip": {"bound": {"kind": "histogram", "start": 1.0, "sigma": 15.0}, "by": "flat"}}
SERVER: dict[str, Any] = {
    "server": {"clip": {"bound": {"kind": "quantile", "start": 1.0, "sigma": 30.0}}, "sigma": 20.0}
}
SERVER["server"] |= {"unit": "client"}

CASES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "row": ("fed-cdp", ROW, "record", "server"),
    "device": ("fed-cdp", ROW | {"example.each_row": True}, "record", "on_device"),
    "each row": ("fed-cdp", ROW | {"example.each_row": True}, "record", "server"),
    "poisson": ("fed-cdp", POISSON, "record", "server"),
    "adam": ("fed-cdp", ADAM, "record", "server"),
    "upload": ("fed-sdp-client", LARGE, "client", "server"),
    "norms": ("fed-sdp-client", NORMS, "client", "client"),
    "bins": ("fed-sdp-client", BINS, "client", "server"),
    "server": ("fedavg", SERVER, "client", "released"),
}


def audited(dataset: Dataset, case: str, **options: Any) -> Audit:
    method, settings, unit, view = CASES[case]
    kept = {"seed": 3, "workers": 1, "unit": unit, "view": view}
    return audit(method, SMALL | settings, dataset=dataset, **(kept | options))


EXPECTED = {
    "row": {CheckKind.NOISE_SIZE, CheckKind.NOISE_REUSE, CheckKind.BATCHES, CheckKind.SENSITIVITY},
    "each row": {CheckKind.NOISE_SIZE, CheckKind.NOISE_REUSE, CheckKind.BATCHES, CheckKind.SENSITIVITY},
    "device": {CheckKind.NOISE_SIZE, CheckKind.NOISE_REUSE, CheckKind.BATCHES, CheckKind.SENSITIVITY},
    "poisson": {CheckKind.NOISE_SIZE, CheckKind.NOISE_REUSE, CheckKind.BATCHES, CheckKind.SENSITIVITY},
    "adam": {CheckKind.NOISE_SIZE, CheckKind.NOISE_REUSE, CheckKind.BATCHES, CheckKind.SENSITIVITY},
    "upload": {CheckKind.NOISE_SIZE, CheckKind.NOISE_REUSE, CheckKind.SENSITIVITY},
    "norms": {CheckKind.NOISE_SIZE, CheckKind.NOISE_REUSE, CheckKind.REPORT_NOISE, CheckKind.SENSITIVITY},
    "bins": {CheckKind.NOISE_SIZE, CheckKind.NOISE_REUSE, CheckKind.REPORT_NOISE, CheckKind.SENSITIVITY},
    "server": {CheckKind.NOISE_SIZE, CheckKind.NOISE_REUSE, CheckKind.REPORT_NOISE, CheckKind.COHORTS},
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_as_declared_passes_every_check_and_stays_inconclusive(blobs: Dataset, case: str) -> None:
    result = audited(blobs, case)
    assert {check.kind for check in result.checks} == EXPECTED[case]
    assert not any(check.contradicts for check in result.checks)
    assert result.verdict is Verdict.INCONCLUSIVE


PLANTED: list[tuple[str, Plant, CheckKind]] = [
    ("row", times(0.9), CheckKind.NOISE_SIZE),
    ("row", times(1.1), CheckKind.NOISE_SIZE),
    ("row", changed_noise(first_half_only), CheckKind.NOISE_SIZE),
    ("row", noise_taken_off_again, CheckKind.NOISE_SIZE),
    ("row", shared(step=0), CheckKind.NOISE_SIZE),
    ("row", shared(client=0), CheckKind.NOISE_REUSE),
    ("row", shared(round=0), CheckKind.NOISE_REUSE),
    ("row", no_clip, CheckKind.SENSITIVITY),
    ("row", sensitivity_of_one_layer, CheckKind.SENSITIVITY),
    ("each row", times(0.9), CheckKind.NOISE_SIZE),
    ("device", times(0.9), CheckKind.NOISE_SIZE),
    ("device", one_noise_for_all_rows, CheckKind.NOISE_REUSE),
    ("device", no_clip, CheckKind.SENSITIVITY),
    ("poisson", fixed_batches, CheckKind.BATCHES),
    ("adam", times(0.5), CheckKind.NOISE_SIZE),
    ("adam", no_clip, CheckKind.SENSITIVITY),
    ("upload", times(0.9), CheckKind.NOISE_SIZE),
    ("upload", shared(round=0), CheckKind.NOISE_REUSE),
    ("upload", no_clip, CheckKind.SENSITIVITY),
    ("upload", sensitivity_of_one_layer, CheckKind.SENSITIVITY),
    ("norms", no_report_noise, CheckKind.REPORT_NOISE),
    ("bins", no_report_noise, CheckKind.REPORT_NOISE),
    ("server", times(0.5), CheckKind.NOISE_SIZE),
    ("server", shared(round=0), CheckKind.NOISE_REUSE),
    ("server", no_report_noise, CheckKind.REPORT_NOISE),
    ("server", same_cohort, CheckKind.COHORTS),
]


@pytest.mark.parametrize(("case", "plant", "kind"), PLANTED)
def test_a_planted_fault_is_found_by_the_check_that_looks_for_it(
    blobs: Dataset, case: str, plant: Plant, kind: CheckKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    result = audited(blobs, case)
    assert result.verdict is Verdict.CONTRADICTED
    assert kind in {check.kind for check in result.checks if check.contradicts}


def test_a_key_that_is_the_same_in_every_training_is_found(blobs: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    assert audited(blobs, "row", seed=None).verdict is not Verdict.CONTRADICTED
    constant_key(monkeypatch)
    result = audited(blobs, "row", seed=None)
    assert {check.kind for check in result.checks if check.contradicts} == {CheckKind.NOISE_REUSE, CheckKind.KEYS}


def test_what_is_compressed_is_not_measured_by_coordinate(blobs: Dataset) -> None:
    method, settings, unit, view = CASES["upload"]
    compressed = SMALL | settings | {"compress": {"kind": "prune", "ratio": 0.5}}
    result = audit(method, compressed, dataset=blobs, seed=3, workers=1, unit=unit, view=view)
    assert result.checks == ()
    assert result.verdict is Verdict.INCONCLUSIVE


def test_a_runtime_whose_noise_cannot_be_repeated_is_not_accused_of_moving_too_far(blobs: Dataset) -> None:
    """Real sites have keys of their own; what a canary moves can then not be told from their noise."""

    @contextmanager
    def elsewhere(job: Job) -> Iterator[Runtime]:
        with one_by_one(replace(job, streams=Streams.from_system())) as runtime:
            yield runtime

    result = audited(blobs, "row", runtime=elsewhere)
    assert {check.kind for check in result.checks} == EXPECTED["row"] - {CheckKind.SENSITIVITY}
    assert result.verdict is Verdict.INCONCLUSIVE
