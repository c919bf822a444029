"""Local workers: the same bits however the work is divided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from fedveil.core.errors import FedveilError
from fedveil.core.parameters import Layout
from fedveil.core.streams import Streams
from fedveil.core.types import Taps, View
from fedveil.data.dataset import Examples
from fedveil.engine.batched import Engine
from fedveil.engine.client import Broadcast
from fedveil.engine.job import Job
from fedveil.engine.server_state import initial_state
from fedveil.engine.sites import Sites
from fedveil.mechanisms.schedules import Constant
from fedveil.models.registry import build
from fedveil.parts.batches import PartitionBatch
from fedveil.parts.cohorts import FixedSize
from fedveil.parts.local_training import LocalTraining
from fedveil.runtimes.local import LocalRuntime, on_this_machine, precomputed
from fedveil.zoo import FED_CDP

SHAPE = (1, 12, 12)
SIZES = (12, 12, 9, 12, 9, 12, 12, 12, 12, 12, 9, 12, 12, 12, 12, 12, 12, 12, 9)


def normalised() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.GroupNorm(2, 6), nn.GELU(), nn.Flatten(), nn.Linear(150, 4))


def forgetful() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 4))


def looking() -> nn.Module:
    layer = nn.TransformerEncoderLayer(12, 2, 16, dropout=0.1, batch_first=True)
    return nn.Sequential(nn.Flatten(1, 2), layer, nn.Flatten(), nn.Linear(144, 4))


def known() -> nn.Module:
    return build("cnn", SHAPE, 4, {"activation": "sigmoid"}, seed=0)


def make_job(model: nn.Module) -> Job:
    generator = torch.Generator().manual_seed(0)
    examples = Examples(torch.rand(240, *SHAPE, generator=generator), torch.arange(240) % 4)
    sites = Sites(examples, torch.randperm(240, generator=generator)[: sum(SIZES)], SIZES)
    method = replace(
        FED_CDP,
        cohort=FixedSize(len(SIZES)),
        batch=PartitionBatch(3),
        local=LocalTraining(epochs=1, rate=Constant(0.1)),
    )
    return Job(method, model, sites, examples, Streams.from_seed(1))


def updates(job: Job, workers: int, chunk: int | None) -> torch.Tensor:
    with LocalRuntime(job, workers, chunk) as runtime:
        return trained(runtime, job.layout.vector(job.model))


def trained(runtime: LocalRuntime, start: torch.Tensor) -> torch.Tensor:
    """All clients' updates in the order of the clients."""
    made = list(runtime.train(Broadcast(0, start), range(len(SIZES)), Taps()))
    assert sorted(upload.client for upload in made) == list(range(len(SIZES)))
    return torch.stack([upload.update for upload in sorted(made, key=lambda upload: upload.client)])


NETWORKS = [known, normalised, forgetful, looking]


@pytest.mark.parametrize("network", NETWORKS)
def test_updates_are_bit_identical_for_every_chunk_size(network: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    job = make_job(network())
    whole = updates(job, workers=1, chunk=None)
    for chunk in (1, 5, 16):
        assert torch.equal(updates(job, 1, chunk), whole)


DIVISIONS = [(forgetful, 2, 2)]  # randomness inside the network; the others' workers are also asked more below
DIVISIONS += [pytest.param(each, *how, marks=pytest.mark.slow) for each in NETWORKS for how in ((2, None), (3, 2))]


@pytest.mark.parametrize(("network", "workers", "chunk"), DIVISIONS)
def test_updates_are_bit_identical_for_every_number_of_workers(
    network: Callable[[], nn.Module], workers: int, chunk: int | None
) -> None:
    torch.manual_seed(0)
    job = make_job(network())
    assert torch.equal(updates(job, workers, chunk), updates(job, 1, None))


@pytest.mark.slow
def test_neither_updates_nor_evaluation_depend_on_the_workers() -> None:
    torch.manual_seed(0)
    job = make_job(known())
    start = job.layout.vector(job.model)
    seen, made = [], []
    for workers in (1, 2):
        with LocalRuntime(job, workers) as runtime:
            seen.append(runtime.evaluate(initial_state(job.method, start)))
            made.append(trained(runtime, start))
    assert torch.equal(seen[0].outputs, seen[1].outputs)
    assert (seen[0].loss, seen[0].own) == (seen[1].loss, seen[1].own)
    assert seen[0].outputs.shape == (240, 4)
    assert torch.equal(made[0], made[1])


def wide() -> nn.Module:
    return build("cnn", SHAPE, 4, {"channels": (16, 8), "strides": (1, 1), "pools": (2, 1)}, seed=0)


@pytest.mark.parametrize("network", [known, normalised, wide])
def test_evaluation_is_that_of_the_plain_network(network: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    job = make_job(network())
    before = Layout.of(job.model).vector(job.model)
    parameters = torch.randn(len(before), generator=torch.Generator().manual_seed(3)) / 4
    found = Engine(job).evaluate(parameters, 0)
    assert torch.equal(Layout.of(job.model).vector(job.model), parameters)
    plain = network()
    Layout.of(plain).load(plain, parameters)
    logits = plain(job.validation.inputs)
    torch.testing.assert_close(found.outputs, logits.detach(), rtol=1e-4, atol=1e-5)
    expected = nn.functional.cross_entropy(logits.double(), job.validation.labels, reduction="sum")
    assert found.loss == pytest.approx(float(expected.detach()), rel=1e-5)


@pytest.mark.slow
def test_observations_come_back_from_workers() -> None:
    torch.manual_seed(0)
    job = make_job(normalised())
    start = Broadcast(0, Layout.of(job.model).vector(job.model))
    taps = Taps(frozenset({View.SERVER, View.ON_DEVICE}))
    with LocalRuntime(job, 2) as runtime, LocalRuntime(job, 1) as alone:
        made, expected = (list(each.train(start, range(len(SIZES)), taps)) for each in (runtime, alone))
    assert sorted(upload.client for upload in made) == list(range(len(SIZES)))
    for upload in made:
        seen = [(shown.view, shown.client) for shown in upload.observations]
        assert seen == [(View.ON_DEVICE, upload.client), (View.SERVER, upload.client)]
        assert torch.equal(upload.observations[1].tensors, upload.update)
    assert all(torch.equal(one.update, other.update) for one, other in zip(made, expected, strict=True))


def test_uploads_come_from_workers_in_the_order_that_the_cohort_fixes() -> None:
    job = make_job(known())
    start = Broadcast(0, job.layout.vector(job.model))
    orders = []
    for workers, chunk in ((1, None), (1, 2), (2, 3)):
        with LocalRuntime(job, workers, chunk) as runtime:
            orders.append([upload.client for upload in runtime.train(start, [5, 2, 18, 0, 4, 7], Taps())])
    assert orders == [[5, 0, 7, 2, 18, 4]] * 3  # alike clients together, otherwise as they were drawn


def test_the_callers_number_of_threads_is_restored() -> None:
    torch.set_num_threads(2)
    with LocalRuntime(make_job(known()), 1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


class Unpicklable(nn.Linear):
    def __reduce__(self) -> str:
        raise TypeError("this layer holds an open file")


def test_a_model_that_cannot_be_sent_to_workers_is_said_so() -> None:
    job = make_job(nn.Sequential(nn.Flatten(), Unpicklable(144, 4)))
    with pytest.raises(FedveilError, match="use workers=1"), LocalRuntime(job, 2):
        pass


def test_a_model_of_a_class_in_a_script_or_notebook_is_refused_before_a_worker_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Own(nn.Linear):
        pass

    monkeypatch.setattr(Own, "__module__", "__main__")
    job = make_job(nn.Sequential(nn.Flatten(), Own(64, 4)))
    with pytest.raises(FedveilError, match=r"can't import Own from a script .* workers=1"), LocalRuntime(job, 2):
        pass


def test_a_runtime_outside_its_block_is_refused() -> None:
    with pytest.raises(FedveilError, match="with"):
        next(LocalRuntime(make_job(known()), 1).train(Broadcast(0, torch.zeros(1)), [0], Taps()))


def test_features_computed_once_give_the_updates_and_answers_of_the_whole_network() -> None:
    whole = make_job(build("scattering", SHAPE, 4, {"outputs": 20}, seed=0))
    once = precomputed(whole)
    assert once.sites.examples.inputs.shape == (240, 20)
    torch.testing.assert_close(updates(once, 1, None), updates(whole, 1, None), atol=1e-5, rtol=1e-4)
    assert torch.equal(updates(once, 2, 3), updates(once, 1, None))
    parameters = torch.randn(Layout.of(whole.model).size, generator=torch.Generator().manual_seed(2))
    answers = [Engine(job).evaluate(parameters, 0) for job in (whole, once)]
    torch.testing.assert_close(answers[0].outputs, answers[1].outputs, rtol=1e-4, atol=1e-4)
    assert answers[0].loss == pytest.approx(answers[1].loss, rel=1e-5)


def test_without_fixed_features_nothing_is_computed_beforehand() -> None:
    job = make_job(known())
    assert precomputed(job) is job


def test_this_machines_runtime_computes_fixed_features_once_and_trains_as_asked() -> None:
    job = make_job(build("scattering", SHAPE, 4, {"outputs": 20}, seed=0))
    start = Broadcast(0, job.layout.vector(job.model))
    with on_this_machine(workers=1, chunk=4)(job) as runtime:
        made = {upload.client: upload.update for upload in runtime.train(start, range(len(SIZES)), Taps())}
    expected = updates(precomputed(job), 1, None)
    assert all(torch.equal(made[client], update) for client, update in enumerate(expected))


@pytest.mark.parametrize(("workers", "chunk"), [(0, None), (10_000, None), (1, 0)])
def test_what_this_machine_cannot_do_is_refused_before_anything_starts(workers: int, chunk: int | None) -> None:
    with pytest.raises(FedveilError, match="workers" if chunk is None else "chunk"):
        on_this_machine(workers, chunk)(make_job(known()))
