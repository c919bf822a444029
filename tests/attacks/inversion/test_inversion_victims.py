"""What is stolen are the tensors of the training; what is predicted from the truth is what was stolen."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
import torch
from attack_scene import CLASSES, CLIENTS, RECORDS, first_model, make_scene, small

from fedveil.attacks.inversion.labels import recovered
from fedveil.attacks.inversion.simulate import predicted
from fedveil.attacks.inversion.victims import choose_victims, steal
from fedveil.core.errors import FedveilError
from fedveil.core.types import View
from fedveil.engine.client import Broadcast
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant, Linear
from fedveil.method import Method
from fedveil.models.registry import build
from fedveil.parts.batches import BatchSampler, FullBatch, PartitionBatch, PoissonBatch
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import Adam, Momentum
from fedveil.zoo import FED_AVG, FED_CDP

ON_ROWS = replace(FED_CDP, example=replace(FED_CDP.example, each_row=True))  # type: ignore[type-var]
CLIPPED = replace(FED_AVG, example=Gaussian(clip=Clip(Constant(0.5), by="layer"), sigma=0.0, noise="row"))
FLAT = replace(FED_AVG, example=Gaussian(clip=Clip(Constant(0.5)), sigma=0.0))
UPDATES: dict[str, Method] = {
    "one step": small(batch=3),
    "three steps": small(batch=2, steps=3),
    "momentum, weight decay": replace(
        small(batch=2), local=LocalTraining(steps=3, optimiser=Momentum(), rate=Constant(0.1), decay=0.01)
    ),
    "adam": replace(small(batch=2), local=LocalTraining(steps=2, optimiser=Adam(), rate=Constant(0.01))),
    "clipped layer by layer": small(CLIPPED, batch=3, steps=2),
    "clipped as a whole": small(FLAT, batch=3, steps=2),
    "all records, twice": replace(small(), batch=FullBatch(), local=LocalTraining(steps=2, rate=Constant(0.1))),
}


@pytest.mark.parametrize("name", UPDATES)
def test_the_simulated_client_given_the_truth_makes_the_stolen_update(name: str) -> None:
    scene = make_scene(UPDATES[name])
    stolen, truth = steal(scene, first_model(scene), [0, 3, 5], View.CLIENT)
    guess = predicted(stolen.facts, View.CLIENT, stolen.start, truth.inputs, truth.labels)
    assert stolen.tensors.abs().max() > 0
    # Adam divides by the size of each coordinate's gradient, and so magnifies rounding where that is tiny.
    assert (guess - stolen.tensors).norm() < 1e-3 * stolen.tensors.norm()


@pytest.mark.parametrize("method", [small(batch=3), small(CLIPPED, batch=3)])
def test_on_the_device_one_example_s_gradient_is_stolen(method: Method) -> None:
    scene = make_scene(method)
    stolen, truth = steal(scene, first_model(scene), [0, 3, 5], View.ON_DEVICE)
    assert truth.inputs.shape == (3, 1, 1, 8, 8)
    guess = predicted(stolen.facts, View.ON_DEVICE, stolen.start, truth.inputs, truth.labels)
    assert (guess - stolen.tensors).abs().max() < 1e-4 * stolen.tensors.abs().max()


@pytest.mark.parametrize("view", [View.ON_DEVICE, View.CLIENT, View.SERVER])
def test_the_noise_the_adversary_expects_is_the_noise_there_is(view: View) -> None:
    method = small(ON_ROWS, batch=3, steps=2)
    noisy, quiet = make_scene(method), make_scene(replace(method, example=replace(method.example, sigma=0.0)))
    stolen, _ = steal(noisy, first_model(noisy), [0, 1, 2], view)
    clean, _ = steal(quiet, first_model(quiet), [0, 1, 2], view)
    assert clean.noise_std == 0
    measured = float((stolen.tensors - clean.tensors).std())
    assert measured == pytest.approx(stolen.noise_std, rel=0.05)


@pytest.mark.parametrize("view", [View.ON_DEVICE, View.SERVER])
def test_looking_repeatedly_averages_the_noise_away(view: View) -> None:
    method = replace(small(ON_ROWS), batch=FullBatch())
    scene, quiet = make_scene(method), make_scene(replace(method, example=replace(method.example, sigma=0.0)))
    stolen, truth = steal(scene, first_model(scene), [0, 1], view, looks=16)
    once, _ = steal(scene, first_model(scene), [0, 1], view)
    clean, _ = steal(quiet, first_model(quiet), [0, 1], view)
    assert stolen.noise_std == pytest.approx(once.noise_std / 4)
    assert float((stolen.tensors - clean.tensors).std()) == pytest.approx(stolen.noise_std, rel=0.1)
    assert truth.inputs.shape[1] == (1 if view is View.ON_DEVICE else RECORDS)


def test_updates_over_changing_batches_can_not_be_averaged() -> None:
    scene = make_scene(small(batch=3))
    with pytest.raises(FedveilError, match="looks: a client's batches change"):
        steal(scene, first_model(scene), [0], View.CLIENT, looks=2)


def test_a_record_seen_again_in_a_later_round_is_the_same_record() -> None:
    scene = make_scene(small(batch=6))
    stolen, truth = steal(scene, first_model(scene), [0, 1], View.ON_DEVICE, looks=3)
    guess = predicted(stolen.facts, View.ON_DEVICE, stolen.start, truth.inputs, truth.labels)
    assert (guess - stolen.tensors).abs().max() < 1e-4 * stolen.tensors.abs().max()


def test_padding_of_a_poisson_batch_is_no_record() -> None:
    scene = make_scene(replace(small(), batch=PoissonBatch(4)))
    _, truth = steal(scene, first_model(scene), list(range(CLIENTS)), View.CLIENT)
    draws = scene.job.sites.draw(scene.job.method, 0, list(range(CLIENTS)), scene.job.streams)
    assert truth.counts.tolist() == draws.counts[:, 0].tolist()


def test_the_adversary_holds_no_record() -> None:
    scene = make_scene(small(batch=2))
    stolen, truth = steal(scene, first_model(scene), [0, 1], View.SERVER)
    held = set(vars(stolen.facts)) | set(vars(stolen))
    assert not held & {"sites", "streams", "truth", "inputs", "labels", "engine"}
    pickled = pickle.dumps(stolen)
    records = [truth.inputs[victim, 0].contiguous().numpy().tobytes() for victim in (0, 1)]
    assert all(record in pickle.dumps(truth.inputs[victim, 0].clone()) for victim, record in enumerate(records))
    assert not any(record in pickled for record in records)


def test_victims_are_different_clients_and_no_more_than_there_are() -> None:
    scene = make_scene(small())
    chosen = choose_victims(scene, CLIENTS, torch.Generator().manual_seed(0))
    assert sorted(chosen) == list(range(CLIENTS))
    with pytest.raises(FedveilError, match="victims: there are 8 clients, not 9"):
        choose_victims(scene, CLIENTS + 1, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("view", [View.PEER, View.RELEASED])
def test_a_view_without_client_work_is_refused(view: View) -> None:
    scene = make_scene(small())
    with pytest.raises(FedveilError, match=f"view: {view} shows no client's work"):
        steal(scene, first_model(scene), [0], view)


@pytest.mark.parametrize("batch", [PartitionBatch(3), PoissonBatch(6)], ids=lambda sampler: sampler.kind)
def test_where_the_noise_is_drawn_on_the_sum_a_clean_gradient_is_stolen(batch: BatchSampler) -> None:
    scene = make_scene(replace(small(FED_CDP), batch=batch))
    stolen, truth = steal(scene, first_model(scene), [0, 3, 5], View.ON_DEVICE)
    assert stolen.noise_std == 0
    guess = predicted(stolen.facts, View.ON_DEVICE, stolen.start, truth.inputs, truth.labels)
    assert (guess - stolen.tensors).norm() < 1e-3 * stolen.tensors.norm()


def test_an_update_of_very_many_records_is_refused_with_a_way_out() -> None:
    scene = make_scene(small(batch=3, steps=100))
    with pytest.raises(FedveilError, match=r"300 records.*local\.steps"):
        steal(scene, first_model(scene), [0], View.CLIENT)


@pytest.mark.parametrize("shape", [(1, 8, 8), (20,)])
def test_the_label_of_one_example_is_read_off_its_gradient(shape: tuple[int, ...]) -> None:
    scene = make_scene(small(batch=2), shape=shape)
    stolen, truth = steal(scene, first_model(scene), list(range(CLIENTS)), View.ON_DEVICE)
    assert torch.equal(recovered(stolen), truth.labels)


@pytest.mark.parametrize("clip", [Clip(Constant(0.05)), Clip(Constant(1.0), by="layer")], ids=["whole", "layers"])
@pytest.mark.parametrize("view", [View.ON_DEVICE, View.SERVER])
def test_the_label_of_one_example_is_read_off_its_clipped_gradient(clip: Clip, view: View) -> None:
    method = replace(small(FED_CDP), example=Gaussian(clip=clip, sigma=0.0))
    model = build("leakage-cnn", (1, 28, 28), CLASSES, seed=4)
    scene = make_scene(method, model, (1, 28, 28))
    stolen, truth = steal(scene, first_model(scene), list(range(CLIENTS)), view)
    assert torch.equal(recovered(stolen), truth.labels)


def test_the_label_is_found_without_a_bias_too() -> None:
    model = build("cnn", (1, 8, 8), 4, {"activation": "sigmoid", "bias": False}, seed=1)
    scene = make_scene(small(), model)
    stolen, truth = steal(scene, first_model(scene), list(range(CLIENTS)), View.ON_DEVICE)
    assert torch.equal(recovered(stolen), truth.labels)


@pytest.mark.parametrize("steps", [1, 2])
def test_the_labels_of_a_batch_are_counted(steps: int) -> None:
    scene = make_scene(small(batch=4, steps=steps))
    stolen, truth = steal(scene, first_model(scene), list(range(CLIENTS)), View.CLIENT)
    found = recovered(stolen)
    right = (found == truth.labels.sort(dim=1).values).double().mean()
    assert found.shape == (CLIENTS, 4 * steps)
    assert right >= 0.85


def test_a_run_is_attacked_at_the_round_it_reached() -> None:
    method = small(FED_CDP)
    decaying = replace(method, example=replace(method.example, clip=Clip(Linear(6.0, 2.0), by="layer")))
    scene = make_scene(decaying)
    early, late = (steal(scene, Broadcast(at, first_model(scene).parameters), [0], View.CLIENT)[0] for at in (0, 7))
    assert late.observations[0].round == 7
    bounds = [decaying.example.clip.at(at, decaying.rounds) for at in (0, 7)]
    assert early.noise_std / late.noise_std == pytest.approx(bounds[0] / bounds[1])
