"""Many clients at once in one process: the client's function over chunks of alike clients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedveil.core.errors import FedveilError
from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.core.torch_warnings import without_torch_warnings
from fedveil.core.types import Taps
from fedveil.data.dataset import to_float
from fedveil.data.row_lists import RowLists
from fedveil.engine.autograd_check import disagreement, nobodys
from fedveil.engine.client import NO_TAPS, Broadcast, Upload, local_work
from fedveil.engine.fused import Fused
from fedveil.engine.general import General
from fedveil.engine.gradients import Gradients
from fedveil.engine.job import Job
from fedveil.engine.layered import Layered
from fedveil.engine.layered.trial import NotLayered, layered
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.sites import Sites
from fedveil.engine.updates import usable
from fedveil.mechanisms.noise import NoiseSource
from fedveil.mechanisms.right_counts import NoisedCounts
from fedveil.method import Method

HOST = torch.device("cpu")

EVALUATION_SLICE = 1000
"""Records evaluated at a time: fixed, so that sums of losses do not depend on the number of workers."""

FORWARD_SLICE = 100
"""Records that go through the network at a time: what its layers hand on stays in a core's cache."""

WIDE_CHANNELS = 16
"""Networks with a convolution of so many input channels are faster channels-last, narrower ones slower (measured)."""

CHUNK_FLOATS = 8_000_000
"""Per-example gradients that may be held at a time, where single ones are formed: on other paths than the fused one, or
for noise."""

KEPT_FLOATS = 12_000_000
"""Numbers that the layered path may keep of all examples side by side: with more of them they are fetched from ever
farther away, with fewer there are ever more small operations (measured)."""

GENERAL_TILE = 16
"""Most clients side by side on the general and the layered path: most of the gain, little waste on small cohorts."""


def choose(model: nn.Module, records: Tensor, objective: Objective = CROSS_ENTROPY) -> Gradients:
    """The fastest implementation for this model, on records like these `[N, …]`."""
    first = to_float(records[:0])
    shape, tokens = tuple(first.shape[1:]), not first.is_floating_point()
    fused = Fused.build(model, shape, objective)
    if fused is not None and _holds(fused, model, shape, objective):
        return fused
    found = layered(model, shape, objective, tokens=tokens)
    if isinstance(found, Layered):
        return found
    return _general(model, shape, objective, tokens, found)


def _holds(fused: Fused, model: nn.Module, shape: tuple[int, ...], objective: Objective) -> bool:
    """Whether the fused path computes this network as autograd does; a mistake in a stage must not cost a run."""
    try:
        return disagreement(fused, model, shape, objective) is None
    except Exception:  # of a mistake in a stage, too, another path knows nothing
        return False


def _general(
    model: nn.Module, shape: tuple[int, ...], objective: Objective, tokens: bool, because: NotLayered
) -> General:
    """The general path, tried once: what it can't do is said before a round is paid for."""
    general = General(model, objective, because.reason)
    parameters, batch = nobodys(general.layout.vector(model), shape, objective, tokens)
    try:
        with without_torch_warnings():
            general.rows(parameters, batch)
    except FedveilError:
        raise
    except Exception as error:  # a user's network can fail in any way
        cause = " ".join(str(error).split())
        raise FedveilError(f"model: its gradients can't be computed: {type(error).__name__}: {cause}") from error
    return general


@dataclass(frozen=True)
class Chunking:
    """Chunks of about `clients` clients, in multiples of `tile`.

    Vectorised code rounds differently for different numbers of clients, so the general and the layered path always
    compute tiles of the same size; with chunks cut at multiples of it, a client's result does not depend on the chunk
    it is in.
    """

    tile: int
    clients: int


@dataclass(frozen=True)
class SiteCounts:
    """What a real site counted, with noise, on so many records that it holds out."""

    site: str
    records: int
    counts: NoisedCounts


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a model says of the validation records, in their order, and sums over them: slices can be joined.

    `own` is a share of the mean, over clients, of what is measured on a client's own test set: accuracy, or for numbers
    the mean absolute error of the scaled labels.
    """

    outputs: Tensor  # [N, outputs], float32
    loss: float
    own: float = 0.0
    counted: tuple[SiteCounts, ...] = ()  # in place of outputs, where real sites count on records of their own

    @staticmethod
    def total(parts: Iterable[Evaluation]) -> Evaluation:
        """All of them, in the order of the slices."""
        parts = list(parts)
        return Evaluation(
            torch.cat([part.outputs for part in parts]),
            sum(part.loss for part in parts),
            sum(part.own for part in parts),
        )

    @property
    def measured(self) -> bool:
        """Whether anything is known: of real sites none may have answered."""
        return bool(self.counted) or len(self.outputs) > 0

    @property
    def mean_loss(self) -> float:
        if self.counted:
            return self.loss / sum(site.records for site in self.counted)
        return self.loss / len(self.outputs) if len(self.outputs) else float("nan")


class Engine:
    """Does the clients' work of a job in one process.

    What a client computes depends on the round and its number, never on the chunk it is in. Records, network and
    clients' work are on `device`; what goes in and out (models, uploads, outputs) is at the host.
    """

    def __init__(self, job: Job, gradients: Gradients | None = None, device: torch.device = HOST) -> None:
        self.device, self.job = device, (job := job.on(device))
        self._model = _arranged(job.model)
        self.gradients = gradients or choose(job.model, job.sites.examples.inputs, job.objective)
        self._labels = job.validation.labels.cpu()
        self._own_weights = own_weights(job.tests, len(job.validation))
        self._noise, self._memory = NoiseSource(job.streams), NoiseMemory()

    @property
    def plan(self) -> Chunking:
        """How to cut a cohort into chunks."""
        method, sizes = self.job.method, self.job.sites.sizes
        slots = method.batch.slots(max(sizes))
        memory = max(CHUNK_FLOATS // (slots * self.gradients.layout.size), 1)
        if isinstance(self.gradients, Fused):
            clients = self.gradients.recommended_clients(slots, noised=method.example is not None)
            return Chunking(tile=1, clients=min(clients, memory) if method.noises_rows else clients)
        if method.example is None and _goes_alone(self.gradients):
            return Chunking(tile=1, clients=1)
        expected = math.ceil(method.cohort.at(0, method.rounds).divisor(len(sizes)))
        if isinstance(self.gradients, Layered) and not method.noises_rows:
            kept = self.gradients.layout.size if method.example is None else slots * self.gradients.kept_floats
            memory = max(KEPT_FLOATS // max(kept, 1), 1)
        tiles = math.ceil(expected / max(min(memory, GENERAL_TILE, expected), 1))
        tile = math.ceil(expected / max(tiles, 1))  # as even as they can be: what a last tile lacks is padding
        tile = max(tile, 1)
        return Chunking(tile=tile, clients=tile)

    def train(
        self, broadcast: Broadcast, clients: Sequence[int], taps: Taps = NO_TAPS, starts: Tensor | None = None
    ) -> tuple[Upload, ...]:
        """The uploads of `clients`, who must be alike (see `alike`), in their order."""
        broadcast = replace(broadcast, parameters=broadcast.parameters.to(self.device))
        starts = None if starts is None else starts.to(self.device)
        tile = self.plan.tile
        if tile == 1:
            uploads = self._work(broadcast, clients, taps, starts)
        else:
            uploads = tuple(
                upload
                for part in (slice(first, first + tile) for first in range(0, len(clients), tile))
                for upload in self._padded_work(
                    broadcast, clients[part], tile, taps, None if starts is None else starts[part]
                )
            )
        if starts is not None and self.job.tests:
            uploads = tuple(replace(upload, own_score=self._own_score(broadcast, upload)) for upload in uploads)
        return uploads if self.device.type == "cpu" else tuple(upload.at_host() for upload in uploads)

    @torch.no_grad()
    def _own_score(self, broadcast: Broadcast, upload: Upload) -> float:
        """How good the uploaded model is on its client's own test set."""
        records = torch.from_numpy(self.job.tests[upload.client])
        outputs = self._outputs(broadcast.parameters + usable(upload.update), records)
        return float(self._points(outputs, records).mean())

    def _work(
        self, broadcast: Broadcast, clients: Sequence[int], taps: Taps, starts: Tensor | None
    ) -> tuple[Upload, ...]:
        return local_work(
            self.job.method,
            broadcast,
            self.job.sites,
            clients,
            gradients=self.gradients,
            streams=self.job.streams,
            noise=self._noise,
            memory=self._memory,
            taps=taps,
            starts=starts,
        )

    def _padded_work(
        self, broadcast: Broadcast, clients: Sequence[int], tile: int, taps: Taps, starts: Tensor | None
    ) -> tuple[Upload, ...]:
        """A full tile, the last client standing in for those that are missing; what they give is dropped."""
        missing = tile - len(clients)
        full = [*clients, *[clients[-1]] * missing]
        if starts is not None:
            starts = torch.cat([starts, starts[-1:].expand(missing, -1)])
        return self._work(broadcast, full, taps, starts)[: len(clients)]

    @torch.no_grad()
    def evaluate(self, parameters: Tensor, first: int) -> Evaluation:
        """Outputs and loss on the validation records from `first` on (one slice of them)."""
        records = torch.arange(first, min(first + EVALUATION_SLICE, len(self.job.validation)), device="cpu")
        outputs = self._outputs(parameters, records)
        losses = self.job.objective.losses(outputs.double(), self._labels[records])
        own = 0.0
        if self.job.tests:
            own = float((self._points(outputs, records) * self._own_weights[records]).sum())
        return Evaluation(outputs, float(losses.sum()), own)

    def _points(self, outputs: Tensor, records: Tensor) -> Tensor:
        """Of each of these validation records: 1 for the right class and 0 for another, or how far off a number is."""
        labels = self._labels[records]
        if self.job.objective.of_numbers:
            return (outputs.squeeze(-1).double() - labels).abs()
        return (outputs.argmax(dim=1) == labels).double()

    def _outputs(self, parameters: Tensor, records: Tensor) -> Tensor:
        """What a model says of these validation records."""
        self.gradients.layout.load(self._model, parameters)
        self._model.eval()
        try:
            parts = torch.split(self.job.validation.inputs[records], FORWARD_SLICE)
            with without_torch_warnings():
                return torch.cat([self._model(to_float(part)) for part in parts]).float().cpu()
        finally:
            self._model.train()


def _goes_alone(gradients: Gradients) -> bool:
    """Whether clients are computed one after another where nobody clips."""
    return isinstance(gradients, General) or (isinstance(gradients, Layered) and gradients.goes_alone)


def _arranged(model: nn.Module) -> nn.Module:
    """The same network, its weights in the order in memory with which evaluating it is fastest."""
    wide = any(isinstance(part, nn.Conv2d) and part.in_channels >= WIDE_CHANNELS for part in model.modules())
    if wide:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def own_weights(tests: RowLists, records: int) -> Tensor:
    """Weights of the validation records with which correct answers add up to the mean accuracy over clients."""
    weights = torch.zeros(records, dtype=torch.float64, device="cpu")
    for members in tests:
        share = weights.new_full((len(members),), 1 / (len(members) * len(tests)))
        weights.index_add_(0, torch.from_numpy(members), share)
    return weights


def alike(method: Method, sites: Sites, cohort: Sequence[int]) -> list[list[int]]:
    """The cohort in groups of clients with the same numbers of steps and slots, which can be run side by side."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for client in cohort:
        groups.setdefault(sites.shape(method, client), []).append(client)
    return list(groups.values())
