"""The four workloads: shapes and networks as in the papers, random records (speed does not depend on them)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import nn

from fedveil.core.streams import Streams
from fedveil.data.dataset import Examples
from fedveil.engine.job import Job
from fedveil.engine.sites import Sites
from fedveil.method import Method
from fedveil.models.registry import build
from fedveil.parts.batches import PartitionBatch
from fedveil.parts.cohorts import FixedSize
from fedveil.parts.local_training import LocalTraining
from fedveil.zoo import FED_AVG, FED_CDP

RATE = 0.01
CLIP, SIGMA = 4.0, 6.0


@dataclass(frozen=True)
class Workload:
    title: str
    shape: tuple[int, ...]
    classes: int
    model: str
    options: dict[str, Any]
    batch: int
    records: int = 500

    def network(self) -> nn.Module:
        return build(self.model, self.shape, self.classes, self.options, seed=0)

    def examples(self, count: int) -> Examples:
        generator = torch.Generator().manual_seed(0)
        if len(self.shape) == 3:
            inputs = torch.randint(0, 256, (count, *self.shape), dtype=torch.uint8, generator=generator)
        else:
            inputs = torch.rand(count, *self.shape, generator=generator)
        return Examples(inputs, torch.randint(0, self.classes, (count,), generator=generator))

    def method(self, *, private: bool, clients: int, steps: int) -> Method:
        return replace(
            FED_CDP if private else FED_AVG,
            cohort=FixedSize(clients),
            batch=PartitionBatch(self.batch),
            local=LocalTraining(steps=steps, rate=RATE),  # type: ignore[arg-type]
        )

    def job(self, *, private: bool, population: int, cohort: int, steps: int) -> Job:
        examples = self.examples(min(population * self.records, 50_000))
        indices = torch.arange(population * self.records) % len(examples)
        sites = Sites(examples, indices, (self.records,) * population)
        method = self.method(private=private, clients=cohort, steps=steps)
        return Job(
            method, self.network(), sites, Examples(examples.inputs[:10], examples.labels[:10]), Streams.from_seed(0)
        )

    def flops(self) -> int:
        """Multiply-adds of one step, counted as two: forward, weight gradients, and input gradients but the first's."""
        layers: list[int] = []

        def count(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
            if isinstance(module, nn.Linear):
                layers.append(2 * module.in_features * module.out_features)
            elif isinstance(module, nn.Conv2d):
                layers.append(2 * prod(module.weight.shape) * prod(output.shape[2:]))

        network = self.network()
        for module in network.modules():
            module.register_forward_hook(count)
        network(torch.zeros(1, *self.shape))
        return self.batch * (3 * sum(layers) - layers[0])


WIDE = {"channels": [32, 64], "kernel": 5, "padding": 2, "strides": [1, 1], "pools": [2, 2]}

WORKLOADS = {
    "mnist": Workload("MNIST, two 5×5 convolutions of 12 channels, B = 5", (1, 28, 28), 10, "cnn", {}, 5),
    "mnist-wide": Workload("MNIST, 32 and 64 channels 5×5, pooling, B = 5", (1, 28, 28), 10, "cnn", WIDE, 5),
    "cifar10": Workload("CIFAR-10, 12 channels, B = 4", (3, 32, 32), 10, "cnn", {}, 4, records=400),
    "adult": Workload("Adult, MLP 105-64-32-2, B = 3", (105,), 2, "mlp", {"hidden": [64, 32]}, 3, records=300),
}
