"""One client's local work, as one pure function.

It is written for K clients side by side (`[K, P]` parameters); K = 1 is a single client, plainly or at a real site.
How gradients are computed is decided by the `Gradients` it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.core.types import CLIENTS_WORK, Observation, Receipt, Taps, View
from fedveil.engine.general import scale_rows, sum_rows
from fedveil.engine.gradients import Batch, Factors, Gradients, Sums
from fedveil.engine.receipts import as_declared
from fedveil.engine.sites import Sites
from fedveil.engine.updates import sanitised
from fedveil.mechanisms.gaussian import GaussianRound
from fedveil.mechanisms.noise import NoiseSource
from fedveil.method import Method
from fedveil.parts.local_training import LocalTraining

NO_TAPS = Taps()

MEASURED_COORDINATES = 20_000
"""How many noise coordinates of a client's round are measured, spread evenly over its steps."""


@dataclass(frozen=True)
class Broadcast:
    """What the server sends to the clients of a round."""

    round: int
    parameters: Tensor  # [P]
    bound: float | None = None  # C_t, where it follows the norms


@dataclass(frozen=True)
class Statistics:
    """One client's training diagnostics, computed from raw data: for researchers, not for release."""

    loss: float  # mean training loss over the steps
    norms: tuple[float, ...]  # mean gradient norm of each layer before clipping (zeros when nothing was clipped)
    rejected: int  # examples whose gradient was not finite


@dataclass(frozen=True)
class Measured:
    """The diagnostics of K clients who train side by side."""

    losses: Tensor  # [K]
    norms: Tensor  # [K, M]
    rejected: Tensor  # [K]

    def of_each(self) -> tuple[Statistics, ...]:
        values = zip(self.losses.tolist(), self.norms.tolist(), self.rejected.tolist(), strict=True)
        return tuple(Statistics(loss, tuple(norms), rejected) for loss, norms, rejected in values)


@dataclass(frozen=True)
class Upload:
    """What one client sends back, and what the simulation records about it (`statistics` never leave a real site)."""

    client: int
    update: Tensor  # [P]
    receipts: tuple[Receipt, ...]  # its own, one for each mechanism that it executed
    statistics: Statistics
    report: Tensor | None = None  # [width]: a noisy report of the update's norm, for a bound that follows the norms
    accuracy: float | None = None  # of the uploaded model on the client's own test set, where it has one
    observations: tuple[Observation, ...] = ()


@torch.no_grad()
def local_work(
    method: Method,
    broadcast: Broadcast,
    sites: Sites,
    clients: Sequence[int],
    *,
    gradients: Gradients,
    streams: Streams,
    noise: NoiseSource,
    taps: Taps = NO_TAPS,
    starts: Tensor | None = None,
) -> tuple[Upload, ...]:
    """Start from the broadcast model (or each client's own of `starts` `[K, P]`), make the method's local steps, return
    the difference from the broadcast model, sanitised and compressed as the method says: one upload for each client.

    The `clients` must be alike in number of steps, slots and declared batch size (`batched.py` sees to it). Each
    step: draw a batch, sum the (clipped) per-example gradients, add the noise, divide by the declared batch size, let
    the optimiser step. Everything behind the noise is post-processing.
    """
    draws = sites.draw(method, broadcast.round, clients, streams)
    layout = gradients.layout
    rate = method.local.rate.at(broadcast.round, method.rounds)
    sanitiser = None if method.example is None else Sanitiser(method, broadcast.round, draws.declared, draws.steps)
    start = broadcast.parameters.expand(len(clients), -1) if starts is None else starts
    observations: list[list[Observation]] = [[] for _ in clients]

    def summed(step: int, parameters: Tensor) -> Sums:
        addresses = [Address(broadcast.round, client, step) for client in clients]
        batch = sites.batch(draws, step, _seeds(gradients, streams, addresses))
        if taps.wants(View.ON_DEVICE) and step in taps.steps:
            rows, sums = _tapped_step(gradients, parameters, batch, sanitiser, noise, addresses)
            for k, client in enumerate(clients):
                began, seen = parameters[k].clone(), rows[k].clone()
                observations[k].append(Observation(View.ON_DEVICE, broadcast.round, client, step, began, seen))
            return sums
        sums = gradients.sums(parameters, batch, None if sanitiser is None else sanitiser.factors)
        if sanitiser is not None:
            sanitiser.noised_sums(sums.total, noise, addresses)
        return sums

    parameters, measured = local_steps(
        method.local, start, draws.steps, summed, rate=rate, declared=draws.declared, layers=layout.group_count
    )
    of_steps = () if sanitiser is None else sanitiser.receipts(clients, draws.records, layout.group_count)
    sent = sanitised(
        method, broadcast.round, broadcast.bound, clients, parameters - broadcast.parameters, layout, streams, noise
    )
    for view in (View.CLIENT, View.SERVER):  # nothing happens to an update between the device and the server
        if taps.wants(view):
            for k, client in enumerate(clients):
                began, seen = start[k].clone(), sent.updates[k].clone()
                observations[k].append(Observation(view, broadcast.round, client, None, began, seen))
    return tuple(
        Upload(
            client=client,
            update=sent.updates[k],
            receipts=tuple(receipts[k] for receipts in (of_steps, sent.receipts) if receipts),
            statistics=statistics,
            report=None if sent.reports is None else sent.reports[k],
            observations=tuple(observations[k]),
        )
        for k, (client, statistics) in enumerate(zip(clients, measured.of_each(), strict=True))
    )


def local_steps(
    local: LocalTraining,
    start: Tensor,
    steps: int,
    sums: Callable[[int, Tensor], Sums],
    *,
    rate: float,
    declared: int,
    layers: int,
) -> tuple[Tensor, Measured]:
    """The parameters `[K, P]` after `steps` local steps from `start`, and what was measured on the way.

    `sums` gives the (sanitised) sum of gradients of a step at the current parameters. Nothing here draws, or stops
    autograd: whoever simulates a client differentiates through the very steps that it makes.
    """
    count = len(start)
    parameters, state = start, local.optimiser.initial(start)
    losses, rejected = torch.zeros(count), torch.zeros(count, dtype=torch.int64)
    norms = torch.zeros(count, layers)
    for step in range(steps):
        step_sums = sums(step, parameters)
        losses += step_sums.losses.detach()
        rejected += step_sums.rejected
        if step_sums.norms is not None:
            norms += step_sums.norms.detach().sum(dim=1)
        gradient = step_sums.total.div_(declared)
        if local.decay:
            gradient = gradient.add_(parameters, alpha=local.decay)
        parameters, state = local.optimiser.apply(parameters, gradient, state, rate, step)
    records = max(steps * declared, 1)
    return parameters, Measured(losses / records, norms / records, rejected)


class Sanitiser:
    """Clips and noises the steps of one round and keeps the tally that becomes the receipts."""

    def __init__(self, method: Method, round: int, batch: int, steps: int) -> None:
        assert method.example is not None
        self._method, self._round, self._batch = method, round, batch
        self._mechanism: GaussianRound = method.example.at(round, method.rounds)
        self._steps, self._draws = 0, 0
        self._measured = -(-MEASURED_COORDINATES // max(steps, 1))  # in each step
        self._squares, self._seen = torch.zeros((), dtype=torch.float64), 0
        self._always = torch.ones((), dtype=torch.bool)  # there was noise in every step
        self.factors: Factors = self._mechanism.factors

    def noised_sums(self, sums: Tensor, noise: NoiseSource, addresses: list[Address]) -> Tensor:
        """Noise on the clipped sums `[K, P]`, in place."""
        some = self._some(sums.shape[-1])
        before = sums[:, some].clone()
        self._mechanism.add_to_sums(sums, rows=self._batch, source=noise, addresses=addresses)
        self._tally(before, sums[:, some], sums.shape[-1])
        return sums

    def noised_rows(self, rows: Tensor, noise: NoiseSource, addresses: list[Address]) -> Tensor:
        """Noise on every clipped row `[K, B, P]`, in place; their sum carries the declared noise."""
        some = self._some(rows.shape[-1])
        before = rows[..., some].sum(dim=1)
        self._mechanism.add_to_rows(rows, source=noise, addresses=addresses)
        self._tally(before, rows[..., some].sum(dim=1), rows.shape[1] * rows.shape[2])
        return rows

    @property
    def noises_rows(self) -> bool:
        return self._mechanism.noise == "row"

    def _some(self, size: int) -> slice:
        """The coordinates that are measured in this step: the next ones in every step, so that all have their turn."""
        width = min(self._measured, size)
        first = self._steps * width % (size - width + 1)
        return slice(first, first + width)

    def _tally(self, before: Tensor, after: Tensor, coordinates: int) -> None:
        squares = (after - before).double().square().sum(dim=-1)
        self._squares, self._always = self._squares + squares, self._always & (squares > 0)
        self._seen += before.shape[-1]
        self._steps += 1
        self._draws += coordinates if self._mechanism.sigma > 0 else 0

    def _confirmed(self) -> list[bool]:
        """Whether each client's noise was there in every step and had the declared size. The size itself stays here."""
        declared = self._mechanism.sum_std(self._batch)
        means, always = (self._squares / max(self._seen, 1)).tolist(), self._always.tolist()
        return [
            as_declared(mean, declared, self._seen) and (noisy or declared == 0)
            for mean, noisy in zip(means, always, strict=True)
        ]

    def receipts(self, clients: Sequence[int], records: Sequence[int], layers: int) -> tuple[Receipt, ...]:
        """What was done to each of the clients, from what was executed: one receipt each, in their order."""
        confirmed = self._confirmed()
        return tuple(
            Receipt(
                round=self._round,
                client=client,
                did=self._mechanism.declare(
                    place="example",
                    layers=layers,
                    steps=self._steps,
                    sampling=self._method.batch.sampling(held, self._steps),
                ),
                confirmed=confirmed[k],
                draws=self._draws,
            )
            for k, (client, held) in enumerate(zip(clients, records, strict=True))
        )


def check_taps(method: Method, taps: Taps) -> None:
    """Refuse a view that the method cannot show honestly."""
    unseen = taps.views.difference(CLIENTS_WORK)
    if unseen:
        raise FedveilError(f"views: {', '.join(sorted(unseen))} is not a view of a client's work")
    noisy_rows = method.example is not None and method.example.noise == "row"
    if taps.wants(View.ON_DEVICE) and noisy_rows and method.batch.kind == "poisson":
        raise FedveilError(
            "views: on_device rows with noise of their own exist only for batches of fixed size;"
            " a Poisson batch's noise is drawn on the sum for the declared size"
        )


def _tapped_step(
    gradients: Gradients,
    parameters: Tensor,
    batch: Batch,
    sanitiser: Sanitiser | None,
    noise: NoiseSource,
    addresses: list[Address],
) -> tuple[Tensor, Sums]:
    """A step whose rows somebody looks at: the rows as the device holds them `[K, B, P]`, and their (noisy) sum."""
    raw = gradients.rows(parameters, batch)
    if sanitiser is None:
        return raw.rows, sum_rows(raw, None, gradients.layout)
    rows = scale_rows(raw, sanitiser.factors, gradients.layout)
    if sanitiser.noises_rows:
        total = sanitiser.noised_rows(rows, noise, addresses).sum(dim=1)
    else:
        total = sanitiser.noised_sums(rows.sum(dim=1), noise, addresses)
    return rows, Sums(total, raw.losses.sum(dim=-1), raw.norms, raw.rejected)


def _seeds(gradients: Gradients, streams: Streams, addresses: list[Address]) -> tuple[int, ...] | None:
    """Seeds for random layers, one per client, if the network has any."""
    if not gradients.random:
        return None
    return tuple(streams.integer(Purpose.DROPOUT, address) for address in addresses)
