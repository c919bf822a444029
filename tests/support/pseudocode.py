"""The papers' pseudo-code, transcribed: one client, one record, one layer at a time, with ordinary autograd.

No transcription calls the engine or its mechanisms. Only the random decisions are replayed from the run's streams: who
takes part, which records make a batch, the standard Gaussians. Everything is in double precision.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor, nn

from fedveil.core.parameters import Layout
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.core.types import Taps, View
from fedveil.data.dataset import Examples
from fedveil.engine.job import Job
from fedveil.engine.loop import Closed, rounds
from fedveil.engine.personal_models import PersonalModels
from fedveil.engine.server_state import initial_state
from fedveil.engine.sites import Sites
from fedveil.mechanisms.arithmetic import NORM_MARGIN as MARGIN
from fedveil.mechanisms.noise import STD_CELLS, NoiseSource
from fedveil.method import Method
from fedveil.parts.batches import BatchSampler
from fedveil.parts.cohorts import Cohort
from fedveil.runtimes.local import LocalRuntime

SIZES = (8, 12, 9, 12, 8, 10)
CLIENTS, CLASSES = len(SIZES), 3
SEED = 11


def dense() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, CLASSES))


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3, 3)
    )


NETWORKS: dict[str, tuple[Callable[[], nn.Sequential], tuple[int, ...]]] = {
    "dense": (dense, (5,)),
    "convolutional": (convolutional, (1, 6, 6)),
}


@dataclass
class World:
    """Six clients with a few records each, a small network, and the streams of one run."""

    network: str = "dense"
    scale: float = 1.0  # of the records, and so of the gradients
    clipped: list[bool] = field(default_factory=list)  # whether the clip bit, row after row

    def __post_init__(self) -> None:
        make, shape = NETWORKS[self.network]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
            self.model = make()
            inputs = torch.randn(sum(SIZES), *shape) * self.scale
            # Records of different sizes, so that some gradients are longer than a clip and some are not.
            inputs *= torch.logspace(-1, 0.5, sum(SIZES))[torch.randperm(sum(SIZES))].view(-1, *[1] * len(shape))
            labels, order = torch.randint(0, CLASSES, (sum(SIZES),)), torch.randperm(sum(SIZES))
        self.examples = Examples(inputs, labels)
        self.sites = Sites(self.examples, order, SIZES)
        self.streams = Streams.from_seed(SEED)
        self.layout = Layout.of(self.model)
        self._double = copy.deepcopy(self.model).double()
        starts = torch.tensor([0, *[sum(p.numel() for p in m.parameters()) for m in self.model]]).cumsum(0).tolist()
        self.layers = [slice(a, b) for a, b in pairwise(starts) if b > a]
        self.size = starts[-1]
        self.start = torch.cat([p.detach().flatten() for p in self.model.parameters()]).double()

    # What the papers compute.

    def gradient(self, weights: Tensor, records: Sequence[int]) -> Tensor:
        """∇ of the mean loss over these records."""
        torch.nn.utils.vector_to_parameters(weights, self._double.parameters())
        inputs, labels = self.examples.inputs[list(records)].double(), self.examples.labels[list(records)]
        loss = nn.functional.cross_entropy(self._double(inputs), labels)
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(self._double.parameters()))])

    def clip(self, vector: Tensor, bound: float) -> Tensor:
        """v / max(1, ‖v‖/C), with C as little below the paper's as single precision needs"""
        bound = bound * (1 - MARGIN)
        length = math.sqrt(sum(float(v) ** 2 for v in vector))
        self.clipped.append(length > bound)
        return vector / max(1.0, length / bound)

    def clip_layers(self, vector: Tensor, bound: float) -> Tensor:
        """The same, layer by layer."""
        return torch.cat([self.clip(vector[layer], bound) for layer in self.layers])

    # What is replayed.

    def cohort(self, sampler: Cohort, round: int, candidates: Sequence[int] = range(CLIENTS)) -> list[int]:
        return sampler.draw(candidates, self.streams.generator(Purpose.COHORT, Address(round)))

    def batches(self, sampler: BatchSampler, round: int, client: int, steps: int) -> list[list[int]]:
        """The records of each local step."""
        draw = sampler.draw(SIZES[client], steps, self.streams.generator(Purpose.BATCH, Address(round, client)))
        first = sum(SIZES[:client])
        return [
            [int(self.sites.indices[first + position]) for position in positions[:count]]
            for positions, count in zip(draw.positions.tolist(), draw.counts.tolist(), strict=True)
        ]

    def normal(self, purpose: Purpose, round: int, client: int = 0, step: int = 0, size: int | None = None) -> Tensor:
        """N(0, I) of a length, by default that of the model."""
        address = [Address(round, client, step)]
        return NoiseSource(self.streams).integers(purpose, address, size or self.size)[0].double() / STD_CELLS

    # What the engine does.

    def run(self, method: Method, personal: PersonalModels | None = None, on_device: bool = False) -> list[Closed]:
        """The rounds of the real loop, with every client's upload to look at."""
        method_views = {View.SERVER} | ({View.ON_DEVICE} if on_device else set())
        job = Job(method, self.model, self.sites, self.examples, self.streams)
        state = initial_state(method, self.layout.vector(self.model))
        with LocalRuntime(job, workers=1) as runtime:
            taps = Taps(frozenset(method_views), frozenset(range(100)))
            population = self.sites.population
            return list(
                rounds(method, state, population, self.layout, runtime, self.streams, taps=taps, personal=personal)
            )


@dataclass
class Round:
    """What a transcription says of one round: the cohort's uploads, the model after it, the next clipping bound."""

    cohort: list[int]
    uploads: list[Tensor]
    model: Tensor
    bound: float | None = None  # C_t of the update's clip
    next_bound: float | None = None


def same(world: World, expected: Sequence[Round], closed: Sequence[Closed], tolerance: float = 2e-3) -> None:
    """The engine's rounds are the transcribed ones: lengths of differences, relative to what a round changed."""
    assert len(expected) == len(closed) >= 2
    before = world.start
    for mine, theirs in zip(expected, closed, strict=True):
        assert list(theirs.cohort) == mine.cohort
        seen = {o.client: o.tensors.double() for o in theirs.observations if o.view is View.SERVER}
        assert sorted(seen) == mine.cohort
        for client, update in zip(mine.cohort, mine.uploads, strict=True):
            assert (seen[client] - update).norm() <= tolerance * update.norm(), f"the upload of client {client}"
        moved, model = mine.model - before, theirs.state.parameters.double()
        assert moved.norm() > 0
        assert (model - mine.model).norm() <= tolerance * moved.norm() + 1e-6, "the global model"
        if mine.bound is not None:
            assert abs(theirs.summary.bound / mine.bound - 1) <= tolerance, "this round's clipping bound"  # type: ignore[operator]
        if mine.next_bound is not None:
            assert abs(theirs.state.bound / mine.next_bound - 1) <= tolerance, "the next clipping bound"  # type: ignore[operator]
        before = mine.model
