"""What an adversary steals: views of victims while the real engine trains them, kept apart from the true records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedveil.core.errors import ArgumentError
from fedveil.core.objectives import Objective
from fedveil.core.types import CLIENTS_WORK, Declaration, Observation, Taps, View
from fedveil.data.dataset import to_float
from fedveil.engine.batched import Engine
from fedveil.engine.client import Broadcast
from fedveil.engine.gradients import Gradients
from fedveil.engine.job import Job
from fedveil.engine.sites import Draws, Sites
from fedveil.method import Method

MOST_RECORDS = 256
"""Records behind one stolen update; more are not told apart by any known attack and only cost memory."""

MOST_ROUNDS_WAITED = 1000
"""How long an adversary waits for a record to come round again."""


@dataclass(frozen=True)
class Facts:
    """What the adversary knows without stealing: everything about the training but the records and the noise."""

    method: Method
    model: nn.Module
    gradients: Gradients  # of that model, in a form that can be differentiated
    input_shape: tuple[int, ...]
    outputs: int  # of the model: one for each class, or a number
    objective: Objective
    pictures: bool  # values lie in [0, 1]
    records: int  # how many unknown records a victim has
    steps: int  # L
    batch: int  # the declared B
    rate: float
    declared: tuple[Declaration, ...]  # every mechanism's clip and noise, as announced
    looks: int = 1  # how often the same thing was seen and averaged

    def noise_std(self, view: View) -> float:
        """The standard deviation of the noise on each coordinate of what `view` shows (plain SGD assumed)."""
        variance = 0.0
        for declared in self.declared:
            if view is View.ON_DEVICE:
                variance += declared.row_std**2 if declared.place == "example" else 0.0
            elif declared.place == "example":
                variance += (declared.sum_std * self.rate / self.batch) ** 2 * self.steps
            elif declared.place != "server":  # noise at the server comes after everything that is seen here
                variance += declared.sum_std**2
        return math.sqrt(variance / self.looks)


@dataclass(frozen=True)
class Stolen:
    """What the adversary holds of V victims: one observation each, and the public facts."""

    view: View
    facts: Facts
    observations: tuple[Observation, ...]

    @property
    def start(self) -> Tensor:
        """The public model `[P]` at which all were seen."""
        return self.observations[0].start

    @property
    def tensors(self) -> Tensor:
        """`[V, P]`"""
        return torch.stack([observation.tensors for observation in self.observations])

    @property
    def noise_std(self) -> float:
        return self.facts.noise_std(self.view)


@dataclass(frozen=True)
class Truth:
    """What only the judge knows: the records of each victim, `counts[v]` of them (the rest is padding)."""

    clients: tuple[int, ...]
    inputs: Tensor  # [V, n, *shape]
    labels: Tensor  # [V, n]
    counts: Tensor  # [V]


@dataclass(frozen=True)
class AttackScene:
    """Where the theft takes place: the engine at work, and what the adversary makes of the public model."""

    engine: Engine
    gradients: Gradients  # of the model, in a form that can be differentiated
    outputs: int  # of the model

    @property
    def job(self) -> Job:
        """The training that is attacked."""
        return self.engine.job


def choose_victims(scene: AttackScene, victims: int, generator: torch.Generator) -> list[int]:
    """`victims` different clients of one shape (steps and batch size), so that they can be attacked side by side."""
    clients = len(scene.job.sites.sizes)
    if victims < 1:
        raise ArgumentError("victims", f"must be at least 1, not {victims}")
    if victims > clients:
        raise ArgumentError("victims", f"there are {clients} clients, not {victims}; see data.clients")
    groups: dict[tuple[int, int, int], list[int]] = {}
    for client in torch.randperm(clients, generator=generator).tolist():
        groups.setdefault(scene.job.sites.shape(scene.job.method, client), []).append(client)
    largest = max(groups.values(), key=len)
    if victims > len(largest):
        raise ArgumentError("victims", f"only {len(largest)} clients make the same number of steps; attack those")
    return largest[:victims]


def steal(
    scene: AttackScene, broadcast: Broadcast, clients: Sequence[int], view: View, looks: int = 1
) -> tuple[Stolen, Truth]:
    """What `view` shows of the clients' work in the broadcast's round, and apart from it the truth.

    On the device one example of each client is looked at: the first of its first batch. `looks` above 1 makes
    the server send the same model again, and averages what it sees of the same records.
    """
    if view not in CLIENTS_WORK:
        raise ArgumentError("view", f"{view} shows no client's work; there are {', '.join(CLIENTS_WORK)}")
    draws = scene.job.sites.draw(scene.job.method, broadcast.round, clients, scene.job.streams)
    facts = _facts(scene, broadcast, draws, view)
    if view is not View.ON_DEVICE:
        _check_looks(scene.job.method, draws, looks)
    if (draws.counts[:, 0] == 0).any():
        raise ArgumentError("seed", "a victim's first batch is empty, so there is nothing to steal; use another seed")
    if looks > 1 and view is View.ON_DEVICE:
        seen = [_repeated_row(scene, broadcast, client, looks) for client in clients]
    else:
        seen = _averaged(scene, broadcast, clients, view, looks)
    return Stolen(view, replace(facts, looks=looks), tuple(seen)), _truth(scene.job.sites, draws, clients, view)


def _facts(scene: AttackScene, broadcast: Broadcast, draws: Draws, view: View) -> Facts:
    method, steps, slots = scene.job.method, draws.steps, draws.declared
    repeated = method.batch.kind == "all"
    records = 1 if view is View.ON_DEVICE else slots * (1 if repeated else steps)
    if records > MOST_RECORDS:
        raise ArgumentError(
            "view",
            f"{view} shows an update of {records} records, which can't be taken apart (at most {MOST_RECORDS});"
            " make fewer steps or smaller batches, e.g. local.steps=1 or data.records=5",
        )
    examples = scene.job.sites.examples
    return Facts(
        method=method,
        model=scene.job.model,
        gradients=scene.gradients,
        input_shape=tuple(examples.inputs.shape[1:]),
        outputs=scene.outputs,
        objective=scene.job.objective,
        pictures=examples.inputs.dtype == torch.uint8,
        records=records,
        steps=steps,
        batch=draws.declared,
        rate=method.local.rate.at(broadcast.round, method.rounds),
        declared=method.declare(
            broadcast.round,
            draws.records[0],
            scene.gradients.layout.group_count,
            len(scene.job.sites.sizes),
            broadcast.bound,
        ),
    )


def _averaged(
    scene: AttackScene, broadcast: Broadcast, clients: Sequence[int], view: View, looks: int
) -> list[Observation]:
    rounds = [_seen(scene, replace(broadcast, round=broadcast.round + look), clients, view) for look in range(looks)]
    return [_mean(several) for several in zip(*rounds, strict=True)]


def _seen(
    scene: AttackScene, broadcast: Broadcast, clients: Sequence[int], view: View, slot: int = 0
) -> list[Observation]:
    """What the view shows of the clients, in their order; of a batch's rows, the one in `slot`."""
    taps, size = Taps(frozenset({view})), scene.engine.plan.clients
    seen: list[Observation] = []
    for first in range(0, len(clients), size):
        for upload in scene.engine.train(broadcast, clients[first : first + size], taps):
            (shown,) = upload.observations
            seen.append(shown if view is not View.ON_DEVICE else replace(shown, tensors=shown.tensors[slot]))
    return seen


def _repeated_row(scene: AttackScene, broadcast: Broadcast, client: int, looks: int) -> Observation:
    """The gradient of the client's first example, averaged over the first `looks` rounds that begin with it."""
    seen: list[Observation] = []
    record: int | None = None
    for waited in range(MOST_ROUNDS_WAITED):
        again = replace(broadcast, round=broadcast.round + waited)
        draws = scene.job.sites.draw(scene.job.method, again.round, [client], scene.job.streams)
        batch = draws.indices[0, 0, : int(draws.counts[0, 0])].tolist()
        record = batch[0] if record is None else record
        if record in batch:
            seen += _seen(scene, again, [client], View.ON_DEVICE, batch.index(record))
        if len(seen) == looks:
            return _mean(seen)
    raise ArgumentError(
        "looks",
        f"a record is in the first batch of a round too seldom to be seen {looks} times;"
        " use larger batches or fewer data.records",
    )


def _mean(several: Sequence[Observation]) -> Observation:
    return replace(several[0], tensors=torch.stack([one.tensors for one in several]).mean(dim=0))


def _check_looks(method: Method, draws: Draws, looks: int) -> None:
    if looks > 1 and method.batch.kind != "all" and not (draws.steps == 1 and draws.declared == draws.records[0]):
        raise ArgumentError(
            "looks",
            "a client's batches change from round to round, so its updates show different records;"
            " only updates over all records repeat, e.g. batch=all",
        )


def _truth(sites: Sites, draws: Draws, clients: Sequence[int], view: View) -> Truth:
    victims, steps, slots = draws.indices.shape
    indices = draws.indices
    filled = torch.arange(slots) < draws.counts[..., None]
    if view is View.ON_DEVICE:
        indices, filled = indices[:, :1, :1], filled[:, :1, :1]
    elif steps > 1 and bool((indices == indices[:, :1]).all()):  # every step takes the same records
        indices, filled = indices[:, :1], filled[:, :1]
    order = filled.flatten(1).to(torch.int8).argsort(dim=1, descending=True, stable=True)
    chosen = indices.flatten(1).gather(1, order)
    inputs = to_float(sites.examples.inputs[chosen.flatten()])
    return Truth(
        clients=tuple(clients),
        inputs=inputs.view(victims, -1, *inputs.shape[1:]),
        labels=sites.examples.labels[chosen],
        counts=filled.flatten(1).sum(dim=1),
    )
