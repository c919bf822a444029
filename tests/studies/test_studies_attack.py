"""Attacking a method, a spec or a run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset
from fedveil.runs.run import run
from fedveil.studies.attack import attack, opened

SMALL = {"data.clients": 6, "data.records": 10, "data.partition": "random", "batch.size": 2, "cohort.size": 6}


def test_without_privacy_the_records_are_had_and_with_fed_cdp_they_are_not(pictures: Dataset, tmp_path: Path) -> None:
    told = {"dataset": pictures, "victims": 4, "iterations": 30, "workers": 1}
    bare = attack("fedavg", SMALL, **told, out=tmp_path / "bare.png")
    guarded = attack("fed-cdp", SMALL | {"example.each_row": True}, **told)
    assert bare.summary.success_rate == 1
    assert bare.summary.means["rmse"] < 0.02  # type: ignore[operator]
    assert guarded.summary.success_rate == 0
    assert set(guarded.tried) == {"cpl", "informed"}
    batch = attack("fedavg", SMALL, view="client", dataset=pictures, victims=1, iterations=1, workers=1)
    assert set(batch.tried) == {"balanced", "smooth"}
    assert (tmp_path / "bare.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("method", "settings", "heard"),
    [
        ("fed-cdp", {}, "are clean; with example.noise = 'row' and example.each_row every row"),
        ("fed-cdp-batch", {}, "are clean; with example.noise = 'row' and example.each_row every row"),
        ("fed-cdp", {"batch": {"kind": "poisson", "size": 6}}, "are clean; example.each_row, which noises every row"),
        ("fed-cdp", {"example.each_row": True}, None),
        ("fed-cdp", {"example.sigma": 0.0}, None),
        ("fed-sdp-client", {}, None),
        ("fedavg", {}, None),
    ],
)
def test_that_rows_are_clean_although_noise_is_added_is_said_before_they_are_attacked(
    pictures: Dataset, method: str, settings: dict[str, object], heard: str | None
) -> None:
    told = {"dataset": pictures, "victims": 1, "iterations": 1, "workers": 1, "attack": "cpl"}
    lines: list[str] = []
    attack(method, SMALL | settings, **told, note=lines.append)  # type: ignore[arg-type]
    bare = [line for line in lines if line.startswith("on_device: ")]
    assert lines[: len(bare)] == bare
    assert len(bare) == (heard is not None)
    assert heard is None or heard in bare[0]
    lines.clear()
    attack(method, SMALL | settings, **told, view="client", note=lines.append)  # type: ignore[arg-type]
    assert not [line for line in lines if "clean" in line]


def test_noise_that_is_drawn_on_the_sum_hides_no_row(pictures: Dataset) -> None:
    bare = attack("fed-cdp", SMALL, dataset=pictures, victims=4, iterations=30, workers=1)
    assert bare.summary.success_rate == 1
    assert bare.facts["noise_std"] == 0


def test_what_is_told_of_an_attack(pictures: Dataset) -> None:
    told = attack("fedavg", SMALL, dataset=pictures, victims=3, iterations=2, seeds=2, workers=1).to_dict()
    expected = {"method", "view", "victims", "success_rate", "rmse", "psnr", "ssim", "iterations", "per_victim"}
    assert expected <= set(told)
    assert (told["method"], told["view"], told["victims"], told["seeds"]) == ("fedavg", "on_device", 3, 2)
    assert [entry["seed"] for entry in told["per_victim"]] == [0, 0, 0, 1, 1, 1]
    assert told["facts"]["local_steps"] == 1
    assert told["model"] == "leakage-cnn"


def test_the_same_seed_gives_the_same_answer(pictures: Dataset) -> None:
    once, again = (attack("fedavg", SMALL, dataset=pictures, victims=2, iterations=2, seed=7) for _ in range(2))
    assert once.scored == again.scored


@pytest.mark.parametrize("seed", [20261117004400, 2**64 + 1, -1])
def test_a_seed_may_be_any_whole_number(pictures: Dataset, seed: int) -> None:
    assert attack("fedavg", SMALL, dataset=pictures, victims=1, iterations=1, seed=seed, workers=1).scored


def test_the_caller_keeps_its_threads(pictures: Dataset) -> None:
    torch.set_num_threads(2)
    attack("fedavg", SMALL, dataset=pictures, victims=1, iterations=1, workers=1)
    assert torch.get_num_threads() == 2


def test_the_attack_s_network_and_steps_are_defaults_only(pictures: Dataset) -> None:
    defaults, _ = opened("fedavg", SMALL, dataset=pictures)
    assert (defaults.spec.model.name, defaults.spec.method.local.steps) == ("leakage-cnn", 1)
    asked, _ = opened("fedavg", SMALL | {"model.name": "cnn", "local.steps": 3}, dataset=pictures)
    assert (asked.spec.model.name, asked.spec.method.local.steps) == ("cnn", 3)


def test_a_run_is_attacked_at_its_last_model_with_its_own_network(pictures: Dataset, tmp_path: Path) -> None:
    settings = SMALL | {"cohort.size": 3, "local.steps": 2, "model.name": "leakage-cnn"}
    done = run("fedavg", settings, rounds=2, seed=1, dataset=pictures, out=tmp_path / "run", workers=1)
    prepared, state = opened(done.run, dataset=pictures)
    assert prepared.spec.method.local.steps == 2
    assert (prepared.layout.vector(prepared.model) - state.parameters).abs().max() > 0
    found = attack(done.run, dataset=pictures, view="server", victims=2, iterations=1, workers=1)
    assert found.to_dict()["facts"]["records_per_victim"] == 4
    with pytest.raises(FedveilError, match="a run is what it is"):
        attack(done.run, {"batch.size": 1}, dataset=pictures)


def test_parts_of_an_attack_can_be_changed(pictures: Dataset) -> None:
    changes = {"seed": "zeros", "optimiser.history": 5, "regulariser": {"kind": "total-variation", "weight": 0.1}}
    told = attack(
        "fedavg", SMALL, dataset=pictures, attack="cpl", changes=changes, victims=1, iterations=1, workers=1
    ).to_dict()["composition"]
    assert told["seed"] == {"kind": "zeros"}
    assert told["optimiser"]["history"] == 5
    assert told["regulariser"] == {"kind": "total-variation", "weight": 0.1}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"victims": 7}, "victims: there are 6 clients, not 7"),
        ({"victims": 0}, "victims: must be at least 1"),
        ({"view": "released"}, "view: released shows no client's work"),
        ({"view": "elsewhere"}, "view: there is no view 'elsewhere'"),
        ({"attack": "magic"}, "attack: there is no attack 'magic'"),
        ({"attack": "cpl", "changes": {"seed": "odd"}}, r"attack\.seed: kind must be one of patterned"),
        ({"iterations": 0}, "iterations: must be at least 1"),
        ({"looks": 0}, "looks: must be at least 1"),
        ({"workers": 0}, "workers: must be at least 1"),
        ({"threshold": 0.0}, "threshold: must be above 0"),
    ],
)
def test_what_can_not_be_done_is_said_in_one_line(pictures: Dataset, changed: dict[str, object], message: str) -> None:
    arguments = {"dataset": pictures, "victims": 2, "iterations": 1, "workers": 1, **changed}
    with pytest.raises(FedveilError, match=message):
        attack("fedavg", SMALL, **arguments)  # type: ignore[arg-type]


def test_a_run_on_fixed_features_is_attacked_on_its_pictures(pictures: Dataset, tmp_path: Path) -> None:
    settings = SMALL | {"model.name": "scattering", "batch.size": 1, "local.steps": 1, "stop.rounds": 1}
    run("fedavg", settings, out=tmp_path / "run", workers=1, dataset=pictures)
    found = attack(tmp_path / "run", dataset=pictures, victims=2, iterations=5, workers=1)
    assert found.model == "scattering"
    assert found.facts["records_per_victim"] == 1
    assert all(score.iterations > 0 for scored in found.scored for score in scored)
