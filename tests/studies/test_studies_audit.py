"""The membership audit: what holds passes, what is broken on purpose is caught, and what cannot be told is said."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from own_runtime import Noted, one_by_one
from planted import (
    Plant,
    changed_noise,
    first_half_only,
    no_clip,
    no_report_noise,
    sensitivity_of_one_layer,
    shared,
    times,
    voids_count,
)

from fedveil.attacks.audit.promise import Excess
from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit, View
from fedveil.core.verdicts import CheckKind, Verdict
from fedveil.data.dataset import Dataset, Examples, from_tensors
from fedveil.runs.run import run
from fedveil.runtimes.local import on_this_machine
from fedveil.studies.attack import attack
from fedveil.studies.audit import audit
from fedveil.studies.audit_result import Audit

TRIALS = 800

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
RECORD = {"example.sigma": 1.7, "example.noise": "sum"}  # three layers: z = 1.7/sqrt(3), ε(1e-5) = 4.5 in a round
CLIENT = {"upload.sigma": 1.7}
QUANTILE = {"upload.clip.bound": {"kind": "quantile", "start": 1.0, "sigma": 5.0}, "upload.clip.by": "flat"}


def audited(dataset: Dataset, method: str, overrides: dict[str, Any], **options: Any) -> Audit:
    return audit(method, SETTINGS | overrides, dataset=dataset, **{"seed": 1, "workers": 1, **options})


def contradicting(result: Audit) -> set[CheckKind]:
    return {check.kind for check in result.checks if check.contradicts}


def test_an_interrupted_audit_ends_with_what_its_finished_canaries_show(
    blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(title: str, share: float) -> None:
        if (title, share > 0.6) == ("canaries", True):
            raise KeyboardInterrupt

    result = audited(blobs, "fed-cdp", RECORD, progress=impatient)
    assert (result.canaries, result.planned) == (TRIALS // 2, TRIALS)  # of eight parts the fifth was not finished
    assert result.verdict is Verdict.CONSISTENT
    assert result.power is not None
    assert result.power.answers < TRIALS // 2
    assert {CheckKind.NOISE_SIZE, CheckKind.NOISE_REUSE} <= {check.kind for check in result.checks}
    changed_noise(lambda noise: noise / 5)(monkeypatch)
    assert audited(blobs, "fed-cdp", RECORD, progress=impatient).verdict is Verdict.CONTRADICTED


def test_an_audit_without_a_finished_canary_is_only_interrupted(blobs: Dataset) -> None:
    def hasty(title: str, share: float) -> None:
        if title == "canaries" and share > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audited(blobs, "fed-cdp", RECORD, canaries=100, progress=hasty)


INTACT = [
    ("fed-cdp", RECORD, Unit.RECORD, View.SERVER),
    ("fed-cdp", RECORD, Unit.RECORD, View.CLIENT),
    ("fed-cdp", RECORD | {"example.noise": "row", "example.each_row": True}, Unit.RECORD, View.ON_DEVICE),
    ("fed-sdp-client", CLIENT, Unit.CLIENT, View.SERVER),
]


@pytest.mark.parametrize(("method", "settings", "unit", "view"), INTACT)
def test_an_intact_method_is_consistent_and_the_bound_is_a_good_part_of_what_is_verified(
    blobs: Dataset, method: str, settings: dict[str, Any], unit: Unit, view: View
) -> None:
    result = audited(blobs, method, settings, unit=unit, view=view)
    assert result.verdict is Verdict.CONSISTENT
    assert result.gaussian is not None
    assert 0.8 <= result.epsilon_lower <= result.verified.epsilon
    assert 0.6 * result.verified.epsilon <= result.gaussian <= result.verified.epsilon
    assert result.power is not None
    assert 0.6 < result.power.noise < 0.8
    assert result.epsilon_lower <= result.power.possible
    assert {CheckKind.NOISE_SIZE, CheckKind.NOISE_REUSE, CheckKind.SENSITIVITY} <= {c.kind for c in result.checks}


@pytest.mark.parametrize(("method", "settings", "unit", "view"), INTACT)
def test_half_the_noise_is_shown_by_guesses(
    blobs: Dataset, method: str, settings: dict[str, Any], unit: Unit, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    times(0.5)(monkeypatch)
    result = audited(blobs, method, settings, unit=unit, view=view)
    assert result.verdict is Verdict.CONTRADICTED
    assert result.gaussian is not None
    assert result.gaussian > result.verified.epsilon
    assert result.refuted is not None
    assert contradicting(result) == {CheckKind.NOISE_SIZE}


@pytest.mark.slow
def test_noise_of_the_share_that_the_power_names_is_shown_by_guesses_about_as_often_as_it_says(
    blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = RECORD | {"data.clients": 200}
    power = audited(blobs, "fed-cdp", small).power
    assert power is not None
    times(power.noise)(monkeypatch)
    shown = sum(audited(blobs, "fed-cdp", small, seed=seed).refuted is not None for seed in range(10))
    assert shown >= 7  # of 10 at 0.95 each; fewer have a probability of 0.1 %


def test_half_the_noise_is_shown_without_believing_that_noise_is_gaussian(
    blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    times(0.5)(monkeypatch)
    result = audited(blobs, "fed-cdp", RECORD | {"privacy.delta": 0.1}, rounds=1)
    assert result.epsilon_lower > result.verified.epsilon


@pytest.mark.parametrize(
    ("method", "settings", "unit"), [("fed-cdp", RECORD, "record"), ("fed-sdp-client", CLIENT, "client")]
)
def test_a_missing_clip_is_caught(
    blobs: Dataset, method: str, settings: dict[str, Any], unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_clip(monkeypatch)
    result = audited(blobs, method, settings, unit=unit, rounds=1)
    assert result.verdict is Verdict.CONTRADICTED
    assert result.epsilon_lower > result.verified.epsilon
    assert contradicting(result) == {CheckKind.SENSITIVITY}


def test_clipping_by_layer_that_is_accounted_as_flat_is_caught(blobs: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    sensitivity_of_one_layer(monkeypatch)
    result = audited(blobs, "fed-cdp", RECORD)
    assert result.gaussian is not None
    assert result.gaussian > result.verified.epsilon
    assert contradicting(result) == {CheckKind.SENSITIVITY}


@pytest.mark.parametrize(
    "plant", [shared(round=0), changed_noise(first_half_only)], ids=["the same in all rounds", "on half of it"]
)
@pytest.mark.parametrize(
    ("method", "settings", "unit"),
    [("fed-cdp", RECORD | {"example.sigma": 8.0}, "record"), ("fed-sdp-client", {"upload.sigma": 8.0}, "client")],
)
def test_guesses_show_noise_that_cancels_or_is_missing_somewhere_however_large_it_is(
    blobs: Dataset, method: str, settings: dict[str, Any], unit: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models differ between rounds, so two rounds with the same noise tell the canary from it."""
    plant(monkeypatch)
    result = audited(blobs, method, settings | {"data.clients": 400}, unit=unit)
    assert result.epsilon_lower > result.verified.epsilon


def test_in_one_round_noise_that_every_round_repeats_does_not_show(
    blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared(round=0)(monkeypatch)
    assert audited(blobs, "fed-cdp", RECORD | {"data.clients": 200}, rounds=1).verdict is not Verdict.CONTRADICTED


def test_guesses_show_that_reports_of_norms_have_no_noise(blobs: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = CLIENT | QUANTILE | {"data.clients": 400}
    assert audited(blobs, "fed-sdp-client", settings, unit="client").verdict is Verdict.CONSISTENT
    no_report_noise(monkeypatch)
    result = audited(blobs, "fed-sdp-client", settings, unit="client")
    assert result.gaussian is not None
    assert result.gaussian > result.verified.epsilon
    assert contradicting(result) == {CheckKind.REPORT_NOISE}


def test_an_update_that_is_not_a_number_tells_that_a_record_is_gone(
    blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    voids_count(monkeypatch)
    result = audited(blobs, "fed-cdp", RECORD | {"data.clients": 400})
    assert result.verdict is Verdict.CONTRADICTED
    assert result.gaussian is not None
    assert result.gaussian > result.verified.epsilon


@pytest.mark.parametrize("canaries", [1, 2, 5])
@pytest.mark.parametrize("noise", [1.0, 1e-3])
def test_a_handful_of_canaries_proves_nothing_and_says_so(
    blobs: Dataset, canaries: int, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the noise is there or not, guesses about so few cannot tell."""
    times(noise)(monkeypatch)
    result = audited(blobs, "fed-cdp", RECORD | {"data.clients": canaries, "cohort.size": 1}, canaries=canaries)
    assert result.power is not None
    assert result.power.noise == 0.0
    assert result.power.possible < result.verified.epsilon
    assert result.refuted is None
    assert (result.verdict is Verdict.INCONCLUSIVE) is not bool(contradicting(result))
    if noise == 1:
        assert result.verdict is Verdict.INCONCLUSIVE


def test_noise_that_is_too_large_for_the_guesses_makes_an_audit_inconclusive(blobs: Dataset) -> None:
    result = audited(blobs, "fed-cdp", RECORD | {"example.sigma": 30.0, "data.clients": 300})
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.power is not None
    assert result.power.noise < 0.5
    assert result.power.canaries_needed is not None
    assert result.power.canaries_needed > 300


RELEASED = {
    "data.clients": 400,
    "cohort": {"kind": "everyone"},
    "model.options.hidden": [64, 32],
    "server": {"clip": {"bound": 1.0}, "sigma": 2.0, "noise": "sum", "unit": "client"},
}


def test_an_intact_server_passes_by_its_published_models(blobs: Dataset) -> None:
    result = audited(blobs, "fedavg", RELEASED, unit="client", view="released", rounds=1)
    assert result.evidence.points == ()  # canaries in one sum are not independent trials
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.power is not None
    assert 0 < result.power.noise < 0.5
    assert result.verified.epsilon == pytest.approx(1.99, abs=0.02)


def test_missing_noise_at_the_server_is_caught_by_its_published_models(
    blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    times(0.1)(monkeypatch)
    result = audited(blobs, "fedavg", RELEASED, unit="client", view="released", rounds=1)
    assert result.epsilon_lower > result.verified.epsilon


def test_guesses_by_published_models_show_that_the_server_adds_the_same_noise_in_every_round(
    blobs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared(round=0)(monkeypatch)
    result = audited(blobs, "fedavg", RELEASED | {"server.sigma": 8.0}, unit="client", view="released")
    assert result.epsilon_lower > result.verified.epsilon
    assert contradicting(result) == {CheckKind.NOISE_REUSE}


def wide(count: int, seed: int) -> Examples:
    """Records of so many numbers that sixty gradients can be told apart."""
    return Examples(torch.randn(count, 100, generator=torch.Generator().manual_seed(seed)), torch.arange(count) % 3)


@pytest.mark.parametrize(("noise", "broken"), [(1.0, False), (0.001, True)])
def test_missing_noise_on_clients_is_caught_by_the_published_models(
    monkeypatch: pytest.MonkeyPatch, noise: float, broken: bool
) -> None:
    times(noise)(monkeypatch)
    settings = RECORD | {"example.sigma": 8.0, "data.clients": 60, "cohort": "everyone", "model.options.hidden": [32]}
    data = from_tensors("wide", wide(300, 1), wide(90, 2))
    result = audited(data, "fed-cdp", settings, view="released", rounds=1)
    assert result.verified.epsilon == pytest.approx(0.0678, abs=1e-3)  # under the noises of all sixty
    assert result.verdict is (Verdict.CONTRADICTED if broken else Verdict.INCONCLUSIVE)
    assert (result.epsilon_lower > result.verified.epsilon) is broken


def test_a_promise_that_is_broken_at_a_larger_delta_only_is_broken(blobs: Dataset) -> None:
    result = audited(
        blobs, "fed-cdp", RECORD | {"data.clients": 400}, seed=2
    )  # not one of the few in a hundred that err
    assert result.refuted is None
    ((delta, _), *_) = result.promise.curve
    lower = result.evidence.epsilon(delta)
    assert lower > 0
    broken = replace(result, promise=replace(result.promise, curve=((delta, 0.9 * lower),)))
    assert broken.verdict is Verdict.CONTRADICTED
    assert broken.refuted == Excess(delta, lower, 0.9 * lower)


UPLOAD = {"clip": {"bound": 1.0}, "sigma": 4.0, "unit": "client"}


def test_two_noises_are_not_taken_for_one_gaussian(blobs: Dataset) -> None:
    result = audited(blobs, "fed-cdp", RECORD | {"data.clients": 200, "upload": UPLOAD})
    assert result.evidence.mean is not None
    assert result.gaussian is None
    assert result.promise.mean is None
    assert result.verdict is not Verdict.CONTRADICTED


def test_rounds_are_accounted_as_they_ran(blobs: Dataset) -> None:
    once, thrice = (audited(blobs, "fed-cdp", RECORD | {"data.clients": 600}, rounds=rounds) for rounds in (1, 3))
    assert once.verdict is thrice.verdict is Verdict.CONSISTENT
    assert thrice.verified.epsilon > once.verified.epsilon
    assert thrice.gaussian is not None
    assert once.gaussian is not None
    assert thrice.gaussian > once.verified.epsilon


def test_batches_without_replacement_are_audited_by_exchanging_records(blobs: Dataset) -> None:
    settings = RECORD | {"batch": {"kind": "without-replacement", "size": 3}, "example.sigma": 3.0}
    result = audited(blobs, "fed-cdp", settings)
    assert str(result.verified.relation) == "replace-one"
    assert result.verdict is Verdict.CONSISTENT
    assert result.epsilon_lower > 0.5
    assert result.canaries == TRIALS - TRIALS // 10  # the others hold nothing, and show the noise alone
    assert {CheckKind.NOISE_SIZE, CheckKind.SENSITIVITY} <= {check.kind for check in result.checks}


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
    result = audit(name, kept, **options)
    assert result.verdict is not Verdict.CONTRADICTED
    assert (result.verdict is Verdict.NOTHING_PROMISED) is not result.verified.finite
    assert 0 <= result.epsilon_lower < 10


def test_clients_that_start_from_others_models_are_no_independent_trials(blobs: Dataset) -> None:
    settings = RECORD | {"data.clients": 120, "personal": {"kind": "attention"}}
    once, twice = (audited(blobs, "fed-cdp", settings, rounds=rounds) for rounds in (1, 2))
    assert once.evidence.points
    assert not twice.evidence.points
    assert twice.gaussian is None


def test_where_nothing_was_promised_there_is_still_a_bound_and_it_says_so(blobs: Dataset) -> None:
    table = audited(blobs, "fedavg", {}).to_dict()
    assert table["verdict"] == "nothing-promised"
    assert table["epsilon_verified"] == "inf"
    assert table["power"] is None
    assert table["epsilon_lower"] > 4
    assert "no mechanism adds noise" in table["details"]["reason"]


@pytest.mark.parametrize("noise", [pytest.param("row", marks=pytest.mark.slow), "sum"])
def test_noise_drawn_on_the_sum_leaves_single_gradients_in_the_open(blobs: Dataset, noise: str) -> None:
    settings = RECORD | {"data.clients": 500, "example.noise": noise}
    result = audited(blobs, "fed-cdp", settings, view="on_device")
    assert math.isinf(result.verified.epsilon)
    assert "with example.noise = 'row' and example.each_row every row carries its own" in result.verified.reason
    assert result.verdict is Verdict.NOTHING_PROMISED
    assert result.epsilon_lower > 4


@pytest.mark.slow
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


@pytest.mark.slow
def test_rows_of_poisson_batches_are_in_the_open(blobs: Dataset) -> None:
    settings = RECORD | {"data.clients": 500, "batch": {"kind": "poisson", "size": 3}}
    found = audited(blobs, "fed-cdp", settings, view="on_device")
    assert "not for Poisson batches" in found.verified.reason
    assert found.epsilon_lower > 4


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
    assert audit(tmp_path / "run", dataset=blobs, workers=1, seed=1).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("view", [View.SERVER, pytest.param(View.RELEASED, marks=pytest.mark.slow)])
def test_an_audit_on_a_runtime_of_ones_own_sees_the_bits_of_the_local_one(view: View, blobs: Dataset) -> None:
    settings = {**RECORD, "data.clients": 12, "cohort": {"kind": "fixed", "size": 5}}
    own, local = Noted(one_by_one), Noted(on_this_machine(workers=1, chunk=4))
    options: dict[str, Any] = {"rounds": 3, "view": view, "canaries": 8}
    audits = [audited(blobs, "fed-cdp", settings, runtime=made, **options) for made in (own, local)]
    assert own.clients == local.clients
    repeated = 8 if view is View.SERVER else 5  # in a second training, with the opposite coins
    assert len(own.clients) == 3 * ((12 if view is View.SERVER else 5) + repeated)
    assert view is View.RELEASED or not torch.equal(own.models[0], own.models[1])  # each round has its own model
    assert all(torch.equal(*models) for models in zip(own.models, local.models, strict=True))
    assert audits[0] == audits[1] == audited(blobs, "fed-cdp", settings, **options)
