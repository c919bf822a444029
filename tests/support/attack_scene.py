"""A small scene: a few clients with small pictures, a sigmoid network, the real engine."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from fedveil.attacks.inversion.differentiable import differentiable
from fedveil.attacks.inversion.victims import AttackScene
from fedveil.core.streams import Streams
from fedveil.data.dataset import Examples
from fedveil.data.partitions import Random, make_partition
from fedveil.engine.batched import Engine
from fedveil.engine.client import Broadcast
from fedveil.engine.job import Job
from fedveil.engine.sites import Sites
from fedveil.method import Method
from fedveil.models.registry import build
from fedveil.parts.batches import PartitionBatch
from fedveil.parts.local_training import LocalTraining
from fedveil.zoo import FED_AVG

CLIENTS, RECORDS, CLASSES = 8, 12, 4


def small(method: Method = FED_AVG, *, batch: int = 1, steps: int = 1, rate: float = 0.1) -> Method:
    return replace(method, batch=PartitionBatch(batch), local=LocalTraining(steps=steps, rate=rate))  # type: ignore[arg-type]


def make_scene(method: Method, model: nn.Module | None = None, shape: tuple[int, ...] = (1, 8, 8)) -> AttackScene:
    generator = torch.Generator().manual_seed(1)
    count = CLIENTS * RECORDS
    labels = torch.arange(count) % CLASSES
    if len(shape) == 3:
        inputs = torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=generator)
    else:
        inputs = torch.randn(count, *shape, generator=generator)
    examples = Examples(inputs, labels)
    sites = Sites.of(examples, make_partition(labels, labels, Random(), CLIENTS, RECORDS, 0, seed=3).clients)
    if model is None:
        model = build("leakage-cnn", shape, CLASSES, seed=4) if len(shape) == 3 else sigmoid_mlp(shape)
    engine = Engine(Job(method, model, sites, examples, Streams.from_seed(5)))
    return AttackScene(engine, differentiable(model, shape), CLASSES)


def sigmoid_mlp(shape: tuple[int, ...]) -> nn.Module:
    return build("mlp", shape, CLASSES, {"hidden": [16], "activation": "sigmoid"}, seed=4)


def first_model(scene: AttackScene) -> Broadcast:
    return Broadcast(0, scene.job.layout.vector(scene.job.model))
