"""The membership audit: what holds passes, what is broken on purpose is caught."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from own_runtime import Noted, one_by_one
from scaled_noise import scale_noise
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset, Examples, from_tensors
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.witness import Witness
from fedveil.mechanisms.clip import Clip
from fedveil.runs.run import run
from fedveil.runtimes.local import on_this_machine
from fedveil.studies.attack import attack
from fedveil.studies.audit import audit
from fedveil.studies.audit_result import Audit

TRIALS = 1200

SETTINGS: dict[str, Any] = {
    "data.name": "blobs",
    "data.clients": TRIALS,
    "data.records": 3,
    "data.partition": "copy",
    "model.name": "mlp",
    "model.options.hidden": [8, 8],
    "cohort": {"kind": "fixed", "size": 100},
    "batch": {"kind": "all"},
    "local.steps": 1,
    "stop.rounds": 4,
}
RECORD = {"example.sigma": 1.7, "example.noise": "sum"}  # three layers: z = 1.7/sqrt(3), ε(1e-5) = 4.5
CLIENT = {"upload.sigma": 1.7}


def audited(dataset: Dataset, method: str, overrides: dict[str, Any], **options: Any) -> Audit:
    return audit(method, SETTINGS | overrides, dataset=dataset, **{"seed": 1, "workers": 1, **options})


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Receipts say that the noise was measured, whatever it was."""
    monkeypatch.setattr(Witness, "confirmed", lambda self, owners: [True] * len(owners))
    monkeypatch.setattr(NoiseMemory, "confirms_reports", lambda self, noise, std: True)


@pytest.fixture
def half_the_noise(monkeypatch: pytest.MonkeyPatch, unmeasured: None) -> None:
    scale_noise(monkeypatch, 0.5)


@pytest.fixture
def no_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    def untouched(self: Clip, norms: Tensor, bound: float) -> Tensor:
        return torch.isfinite(norms).all(dim=-1, keepdim=True).to(norms.dtype).expand_as(norms)

    monkeypatch.setattr(Clip, "factors", untouched)


@pytest.fixture
def sensitivity_of_one_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clip, "sensitivity", lambda self, bound, layers: bound)


INTACT = [
    ("fed-cdp", RECORD, Unit.RECORD, View.SERVER),
    ("fed-cdp", RECORD, Unit.RECORD, View.CLIENT),
    ("fed-cdp", RECORD | {"example.noise": "row"}, Unit.RECORD, View.ON_DEVICE),
    ("fed-sdp-client", CLIENT, Unit.CLIENT, View.SERVER),
]


@pytest.mark.parametrize(("method", "settings", "unit", "view"), INTACT)
def test_an_intact_method_passes_and_the_bound_is_a_good_part_of_what_is_verified(
    blobs: Dataset, method: str, settings: dict[str, Any], unit: Unit, view: View
) -> None:
    found = audited(blobs, method, settings, unit=unit, view=view)
    assert found.holds
    assert found.gaussian is not None
    assert 0.8 <= found.epsilon_lower <= found.verified.epsilon
    assert 0.6 * found.verified.epsilon <= found.gaussian <= found.verified.epsilon


@pytest.mark.usefixtures("half_the_noise")
@pytest.mark.parametrize(("method", "settings", "unit", "view"), INTACT)
def test_half_the_noise_is_caught(
    blobs: Dataset, method: str, settings: dict[str, Any], unit: Unit, view: View
) -> None:
    found = audited(blobs, method, settings, unit=unit, view=view)
    assert not found.holds
    assert found.gaussian is not None
    assert found.gaussian > found.verified.epsilon


@pytest.mark.usefixtures("half_the_noise")
def test_half_the_noise_is_caught_without_believing_that_noise_is_gaussian(blobs: Dataset) -> None:
    found = audited(blobs, "fed-cdp", RECORD | {"privacy.delta": 0.1})
    assert found.epsilon_lower > found.verified.epsilon


@pytest.mark.usefixtures("no_clip")
def test_a_missing_clip_is_caught(blobs: Dataset) -> None:
    found = audited(blobs, "fed-cdp", RECORD)
    assert not found.holds
    assert found.epsilon_lower > found.verified.epsilon


@pytest.mark.usefixtures("no_clip")
def test_a_missing_clip_of_updates_is_caught(blobs: Dataset) -> None:
    found = audited(blobs, "fed-sdp-client", CLIENT, unit="client")
    assert not found.holds
    assert found.epsilon_lower > found.verified.epsilon


@pytest.mark.usefixtures("sensitivity_of_one_layer")
def test_clipping_by_layer_that_is_accounted_as_flat_is_caught(blobs: Dataset) -> None:
    found = audited(blobs, "fed-cdp", RECORD)
    assert not found.holds
    assert found.gaussian is not None
    assert found.gaussian > found.verified.epsilon


RELEASED = {
    "data.clients": 400,
    "cohort": {"kind": "everyone"},
    "model.options.hidden": [64, 32],
    "server": {"clip": {"bound": 1.0}, "sigma": 2.0, "noise": "sum", "unit": "client"},
}


def test_an_intact_server_passes_by_its_published_models(blobs: Dataset) -> None:
    found = audited(blobs, "fedavg", RELEASED, unit="client", view="released")
    assert found.found.points == ()  # canaries in one sum are not independent trials
    assert found.holds
    assert found.verified.epsilon == pytest.approx(1.99, abs=0.02)


@pytest.mark.usefixtures("unmeasured")
def test_missing_noise_at_the_server_is_caught_by_its_published_models(
    blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale_noise(monkeypatch, 0.1)
    found = audited(blobs, "fedavg", RELEASED, unit="client", view="released")
    assert found.epsilon_lower > found.verified.epsilon


def wide(count: int, seed: int) -> Examples:
    """Records of so many numbers that sixty gradients can be told apart."""
    return Examples(torch.randn(count, 100, generator=torch.Generator().manual_seed(seed)), torch.arange(count) % 3)


@pytest.mark.parametrize(("noise", "broken"), [(1.0, False), (0.001, True)])
@pytest.mark.usefixtures("unmeasured")
def test_missing_noise_on_clients_is_caught_by_the_published_models(
    monkeypatch: pytest.MonkeyPatch, noise: float, broken: bool
) -> None:
    scale_noise(monkeypatch, noise)
    settings = RECORD | {"example.sigma": 8.0, "data.clients": 60, "cohort": "everyone", "model.options.hidden": [32]}
    data = from_tensors("wide", wide(300, 1), wide(90, 2))
    found = audited(data, "fed-cdp", settings, view="released")
    assert found.verified.epsilon == pytest.approx(0.63, abs=0.01)
    assert found.holds is not broken
    assert (found.epsilon_lower > found.verified.epsilon) is broken


def test_a_promise_that_is_broken_at_a_larger_delta_only_is_broken(blobs: Dataset) -> None:
    found = audited(blobs, "fed-cdp", RECORD | {"data.clients": 600})
    assert found.holds
    ((delta, _), *_) = found.curve
    lower = found.found.epsilon(delta)
    assert lower > 0
    broken = replace(found, curve=((delta, 0.9 * lower),))
    assert not broken.holds
    assert broken.refuted == (delta, lower, 0.9 * lower)


UPLOAD = {"clip": {"bound": 1.0}, "sigma": 4.0, "unit": "client"}


def test_two_noises_are_not_taken_for_one_gaussian(blobs: Dataset) -> None:
    found = audited(blobs, "fed-cdp", RECORD | {"data.clients": 200, "upload": UPLOAD})
    assert found.found.mean is not None
    assert found.gaussian is None
    assert found.holds


def test_rounds_are_accounted_as_they_ran(blobs: Dataset) -> None:
    once, thrice = (audited(blobs, "fed-cdp", RECORD | {"data.clients": 600}, rounds=rounds) for rounds in (1, 3))
    assert once.holds
    assert thrice.holds
    assert thrice.verified.epsilon > once.verified.epsilon
    assert thrice.gaussian is not None
    assert once.gaussian is not None
    assert thrice.gaussian > once.verified.epsilon


def test_batches_without_replacement_are_audited_by_exchanging_records(blobs: Dataset) -> None:
    settings = RECORD | {"batch": {"kind": "without-replacement", "size": 3}, "example.sigma": 3.0}
    found = audited(blobs, "fed-cdp", settings)
    assert str(found.verified.relation) == "replace-one"
    assert found.holds
    assert found.epsilon_lower > 0.5


@pytest.mark.parametrize("name", ["fed-cdp-calibrated", "prifedsync", "ldp-sgd-quantile", "dssgd", "geyer-private"])
@pytest.mark.parametrize("unit", ["record", "client"])
@pytest.mark.parametrize("view", ["server", "released"])
def test_every_kind_of_method_is_audited_where_that_can_be_done_and_holds(
    blobs: Dataset, name: str, unit: str, view: str
) -> None:
    own = {"data.clients": 120, "data.records": 20, "data.partition": "random", "data.test": 0, "cohort.size": 60}
    kept = {key: value for key, value in SETTINGS.items() if key not in ("cohort", "batch", "local.steps")} | own
    if name == "fed-cdp-calibrated":
        kept["batch.size"] = 5
    if name == "geyer-private":
        kept["local.epochs"] = 1
    if name in ("prifedsync", "geyer-private"):
        del kept["cohort.size"]
    options = {"dataset": blobs, "seed": 2, "workers": 1, "rounds": 2, "unit": unit, "view": view}
    if unit == "client" and name in ("fed-cdp-calibrated", "prifedsync"):
        with pytest.raises(FedveilError, match="only single records are clipped"):
            audit(name, kept, **options)
        return
    found = audit(name, kept, **options)
    assert found.holds
    assert 0 <= found.epsilon_lower < 10


def test_clients_that_start_from_others_models_are_no_independent_trials(blobs: Dataset) -> None:
    settings = RECORD | {"data.clients": 120, "personal": {"kind": "attention"}}
    once, twice = (audited(blobs, "fed-cdp", settings, rounds=rounds) for rounds in (1, 2))
    assert once.found.points
    assert not twice.found.points
    assert twice.gaussian is None


def test_where_nothing_was_promised_there_is_still_a_bound_and_it_says_so(blobs: Dataset) -> None:
    told = audited(blobs, "fedavg", {}).to_dict()
    assert told["epsilon_verified"] == "inf"
    assert not told["promised"]
    assert told["holds"]
    assert told["epsilon_lower"] > 4
    assert "no mechanism adds noise" in told["details"]["reason"]


def test_noise_on_the_sum_leaves_single_gradients_in_the_open(blobs: Dataset) -> None:
    found = audited(blobs, "fed-cdp", RECORD | {"data.clients": 500}, view="on_device")
    assert math.isinf(found.verified.epsilon)
    assert found.epsilon_lower > 4


def test_a_seeded_audit_repeats_itself_on_any_number_of_workers(blobs: Dataset) -> None:
    few = RECORD | {"data.clients": 200}
    first, second = (audited(blobs, "fed-cdp", few, workers=workers).to_dict() for workers in (1, 2))
    assert first == second
    assert audited(blobs, "fed-cdp", few, seed=2).to_dict()["details"] != first["details"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"canaries": TRIALS + 1}, "canaries.*data.clients"),
        ({"canaries": 0}, "canaries"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": math.nan}, "confidence"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 5}, "stop.rounds"),
        ({"view": "peer"}, "released"),
        ({"view": "on_device", "unit": "client"}, "record"),
    ],
)
def test_bad_input_is_refused_in_one_line(blobs: Dataset, options: dict[str, Any], words: str) -> None:
    with pytest.raises(FedveilError, match=words):
        audited(blobs, "fed-cdp", RECORD, **options)


def test_tapped_rows_of_poisson_batches_are_refused(blobs: Dataset) -> None:
    settings = RECORD | {"example.noise": "row", "batch": {"kind": "poisson", "size": 1}}
    with pytest.raises(FedveilError, match="on_device"):
        audited(blobs, "fed-cdp", settings, view="on_device")


def test_more_rounds_than_a_client_may_take_part_in_are_refused(blobs: Dataset) -> None:
    settings = RECORD | {"cohort": {"kind": "fixed", "size": 100, "most": 2}}
    with pytest.raises(FedveilError, match=r"cohort\.most"):
        audited(blobs, "fed-cdp", settings, rounds=3)


def test_a_run_is_audited_and_attacked_with_its_own_records_only(blobs: Dataset, tmp_path: Path) -> None:
    settings = SETTINGS | RECORD | {"data.clients": 4, "cohort.size": 2, "stop.rounds": 1}
    run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    other = from_tensors("blobs", Examples(blobs.train.inputs + 1, blobs.train.labels), blobs.validation)
    for call in (audit, attack):
        with pytest.raises(FedveilError, match="the records are not those that the run began with"):
            call(tmp_path / "run", dataset=other, workers=1)
    assert audit(tmp_path / "run", dataset=blobs, workers=1, seed=1).holds


@pytest.mark.parametrize("view", [View.SERVER, View.RELEASED])
def test_an_audit_on_a_runtime_of_ones_own_sees_the_bits_of_the_local_one(view: View, blobs: Dataset) -> None:
    settings = {**RECORD, "data.clients": 12, "cohort": {"kind": "fixed", "size": 5}}
    own, local = Noted(one_by_one), Noted(on_this_machine(workers=2, chunk=4))
    options: dict[str, Any] = {"rounds": 3, "view": view, "canaries": 8}
    audits = [audited(blobs, "fed-cdp", settings, runtime=made, **options) for made in (own, local)]
    assert own.clients == local.clients
    assert len(own.clients) == 3 * (12 if view is View.SERVER else 5)
    assert all(torch.equal(*models) for models in zip(own.models, local.models, strict=True))
    assert audits[0] == audits[1] == audited(blobs, "fed-cdp", settings, **options)
