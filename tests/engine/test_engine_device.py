"""Clients' work makes its tensors where its inputs are, never on a default device.

There is one device here. So the default is set to one on which nothing can be computed ("meta"): a tensor that is made
without a word about its place would lie there, and the next operation with it would fail.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedveil.core.parameters import Layout
from fedveil.core.streams import Streams
from fedveil.core.types import Unit
from fedveil.data.dataset import Examples
from fedveil.engine.batched import Engine
from fedveil.engine.client import Broadcast
from fedveil.engine.job import Job
from fedveil.engine.plain import Plain
from fedveil.engine.sites import Sites
from fedveil.mechanisms.adaptive import Histogram
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.method import Method
from fedveil.models.registry import build
from fedveil.parts.batches import PartitionBatch, PoissonBatch
from fedveil.parts.compression import Share
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import Adam
from fedveil.zoo import FED_AVG, FED_CDP

LOCAL = LocalTraining(steps=2)
METHODS = {
    "plain": replace(FED_AVG, batch=PartitionBatch(3), local=LOCAL),
    "noise on sums": replace(FED_CDP, batch=PartitionBatch(3), local=replace(LOCAL, optimiser=Adam())),
    "noise on rows": replace(
        FED_CDP, batch=PartitionBatch(3), local=LOCAL, example=replace(FED_CDP.example, each_row=True)
    ),
    "batches of many blocks": replace(FED_CDP, batch=PoissonBatch(8, cap=20), local=LOCAL),
    "noisy updates, shared in part": replace(
        FED_AVG,
        batch=PartitionBatch(3),
        local=LOCAL,
        upload=Gaussian(clip=Clip(Histogram(start=1.0)), sigma=2.0, unit=Unit.CLIENT),
        compress=Share(0.5, "random"),
    ),
}


def make_job(method: Method) -> Job:
    generator = torch.Generator().manual_seed(0)
    examples = Examples(torch.rand(60, 5, generator=generator), torch.arange(60) % 3)
    sites = Sites(examples, torch.randperm(60, generator=generator), (20, 20, 20))
    return Job(method, build("mlp", (5,), 3, {"hidden": [4]}, seed=0), sites, examples, Streams.from_seed(1))


def worked(job: Job) -> tuple[torch.Tensor, torch.Tensor]:
    """The uploads and the outputs, from the gradients that every other way is compared with."""
    model = Layout.of(job.model).vector(job.model)
    engine = Engine(job, Plain(job.model))
    uploads = engine.train(Broadcast(0, model, 1.0), [0, 1, 2])
    assert all(receipt.confirmed for upload in uploads for receipt in upload.receipts)
    return torch.stack([upload.update for upload in uploads]), engine.evaluate(model, 0).outputs


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_nothing_is_made_on_a_default_device(method: Method) -> None:
    expected = worked(make_job(method))
    job = make_job(method)
    with torch.device("meta"):
        found = worked(job)
    for here, there in zip(expected, found, strict=True):
        assert there.device.type == "cpu"
        assert torch.equal(here, there)


def test_a_job_moves_its_records_and_its_network_and_nothing_else() -> None:
    job = make_job(FED_AVG)
    moved = job.on(torch.device("meta"))
    tensors = [moved.sites.examples.inputs, moved.sites.examples.labels, moved.validation.inputs]
    assert {tensor.device.type for tensor in [*tensors, *moved.model.parameters()]} == {"meta"}
    assert moved.sites.indices.device.type == "cpu"
    assert {parameter.device.type for parameter in job.model.parameters()} == {"cpu"}
    assert job.on(torch.device("cpu")) is job
