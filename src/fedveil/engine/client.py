"""One client's local work, as one pure function.

It is written for K clients side by side (`[K, P]` parameters); K = 1 is a single client, plainly or at a real site.
How gradients are computed is decided by the `Gradients` it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.core.streams import Address, Purpose, SideBySide, Streams
from fedveil.core.torch_warnings import without_torch_warnings
from fedveil.core.types import CLIENTS_WORK, Observation, Receipt, Taps, View
from fedveil.engine.general import scale_rows, sum_rows
from fedveil.engine.gradients import Batch, Gradients, Sums
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.post_processing import agree, sent_as_measured
from fedveil.engine.sanitiser import Sanitiser, summed_in_blocks
from fedveil.engine.sites import Sites
from fedveil.engine.updates import sanitised
from fedveil.engine.witness import looked_at
from fedveil.mechanisms.noise import NoiseSource, grid_width
from fedveil.method import Method
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import Sgd

NO_TAPS = Taps()


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
    """What one client sends back, and what the simulation records about it.

    `statistics`, `accuracy` and `observations` never leave a real site.
    """

    client: int
    update: Tensor  # [P]
    receipts: tuple[Receipt, ...]  # its own, one for each mechanism that it executed
    statistics: Statistics | None
    cells: Tensor | None = None  # [P]: the noisy sum or update as integers on the grid of its noise, for exact sums
    report: Tensor | None = None  # [width]: a noisy report of the update's norm, for a bound that follows the norms
    own_score: float | None = None  # the uploaded model's on the client's own test set, where it has one (`Evaluation`)
    observations: tuple[Observation, ...] = ()

    def at_host(self) -> Upload:
        """The same in the memory of the host, wherever it was computed."""
        cells, report = (None if part is None else part.cpu() for part in (self.cells, self.report))
        seen = tuple(replace(one, start=one.start.cpu(), tensors=one.tensors.cpu()) for one in self.observations)
        return replace(self, update=self.update.cpu(), cells=cells, report=report, observations=seen)


@torch.no_grad()
@without_torch_warnings()
def local_work(
    method: Method,
    broadcast: Broadcast,
    sites: Sites,
    clients: Sequence[int],
    *,
    gradients: Gradients,
    streams: Streams,
    noise: NoiseSource,
    memory: NoiseMemory | None = None,
    taps: Taps = NO_TAPS,
    starts: Tensor | None = None,
) -> tuple[Upload, ...]:
    """Start from the broadcast model (or each client's own of `starts` `[K, P]`), make the method's local steps, return
    the difference from the broadcast model, sanitised and compressed as the method says: one upload for each client.

    The `clients` must be alike in number of steps, slots and declared batch size (`batched.py` sees to it). Each
    step: draw a batch, sum the (clipped) per-example gradients, add the noise, divide by the declared batch size, let
    the optimiser step. Everything behind the noise is post-processing. `memory` is what this process remembers of the
    noise in earlier calls.
    """
    memory = memory or NoiseMemory()
    draws = sites.draw(method, broadcast.round, clients, streams)
    layout = gradients.layout
    rate = method.local.rate.at(broadcast.round, method.rounds)
    sanitiser = None if method.example is None else Sanitiser(method, broadcast.round, clients, draws, layout, memory)
    start = broadcast.parameters.expand(len(clients), -1) if starts is None else starts
    observations: list[list[Observation]] = [[] for _ in clients]
    batches = sites.batches(draws)
    side = SideBySide(broadcast.round, clients)
    by_place = sites.batches(replace(draws, order=None))  # whoever looks at rows knows them by their place

    def summed(step: int, parameters: Tensor) -> Sums:
        addresses = side.at(step)
        seeds = _seeds(gradients, streams, addresses)
        tapped = taps.wants(View.ON_DEVICE) and step in taps.steps
        if tapped or (sanitiser is not None and sanitiser.noises_rows):
            batch = by_place.at(step, seeds)
            rows, sums = _step_by_rows(gradients, parameters, batch, sanitiser, noise, addresses)
            for k, client in enumerate(clients) if tapped else ():
                began, seen = parameters[k].clone(), rows[k].clone()
                observations[k].append(Observation(View.ON_DEVICE, broadcast.round, client, step, began, seen))
            return sums
        batch = batches.at(step, seeds)
        if sanitiser is None:
            return gradients.sums(parameters, batch, None)
        sums = summed_in_blocks(gradients, parameters, batch, sanitiser.factors)
        total = sanitiser.noised_sums(sums.total, noise, addresses).to(parameters.dtype)
        return Sums(total, sums.losses, sums.norms, sums.rejected)

    parameters, measured = local_steps(
        method.local, start, draws.steps, summed, rate=rate, declared=draws.declared, layers=layout.group_count
    )
    if sanitiser is not None:
        sanitiser.follow(start, parameters, rate)
    of_steps = () if sanitiser is None else sanitiser.receipts()
    sent = sanitised(
        method,
        broadcast.round,
        broadcast.bound,
        clients,
        parameters - broadcast.parameters,
        layout,
        streams,
        noise,
        memory,
    )
    for view in (View.CLIENT, View.SERVER):  # nothing happens to an update between the device and the server
        if taps.wants(view):
            for k, client in enumerate(clients):
                began, seen = start[k].clone(), sent.updates[k].clone()
                observations[k].append(Observation(view, broadcast.round, client, None, began, seen))
    cells = sent.cells if sanitiser is None or sanitiser.cells is None else sanitiser.cells
    uploads = tuple(
        Upload(
            client=client,
            update=sent.updates[k],
            receipts=tuple(receipts[k] for receipts in (of_steps, sent.receipts) if receipts),
            statistics=statistics,
            cells=None if cells is None else cells[k],
            report=None if sent.reports is None else sent.reports[k],
            observations=tuple(observations[k]),
        )
        for k, (client, statistics) in enumerate(zip(clients, measured.of_each(), strict=True))
    )
    if not method.mechanisms.keys() & {"example", "upload"}:
        return uploads
    places = looked_at(layout)
    noisy = parameters[:, places] - broadcast.parameters[places] if sent.measured is None else sent.measured
    worth = 1.0 if sent.cells is not None else -rate / draws.declared
    origin = None if sent.cells is not None else broadcast.parameters[places]
    return _as_measured(uploads, noisy, places, method.compress is not None, worth, origin)


def _as_measured(
    uploads: tuple[Upload, ...], noisy: Tensor, places: Tensor, compressed: bool, worth: float, began: Tensor | None
) -> tuple[Upload, ...]:
    """Uploads; not confirmed where one is not what was measured with its noise, at the places that are looked at.

    `worth` is what a noisy sum counts for in the update; updates are differences from `began`, rounded with it.
    """
    sent = torch.stack([upload.update.index_select(0, places) for upload in uploads])
    good = sent_as_measured(sent, noisy, compressed=compressed)
    if all(upload.cells is not None for upload in uploads):
        cells = torch.stack([upload.cells.index_select(0, places) for upload in uploads if upload.cells is not None])
        widths = cells.new_tensor([[grid_width(upload.receipts[-1].did.sum_std) * worth] for upload in uploads])
        if began is None:
            good &= sent_as_measured(cells * widths, noisy, compressed=compressed)
        else:
            good &= agree(began + noisy, (began + cells * widths).to(noisy.dtype), began)
    return tuple(
        upload if fine else replace(upload, receipts=tuple(replace(r, confirmed=False) for r in upload.receipts))
        for upload, fine in zip(uploads, good.tolist(), strict=True)
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
    in_place = not torch.is_grad_enabled()  # the steps have memory of their own then, from the first one on
    parameters = start.clone(memory_format=torch.contiguous_format) if in_place and steps else start
    state = local.optimiser.initial(parameters)
    device = start.device
    losses, rejected = torch.zeros(count, device=device), torch.zeros(count, dtype=torch.int64, device=device)
    norms = torch.zeros(count, layers, device=device)
    for step in range(steps):
        step_sums = sums(step, parameters)
        losses += step_sums.losses.detach()
        rejected += step_sums.rejected
        if step_sums.norms is not None:
            norms += step_sums.norms.detach().sum(dim=1)
        gradient, pace = step_sums.total, rate
        if isinstance(local.optimiser, Sgd) and not local.decay:
            pace = rate / declared  # the same as dividing the sum, without going over it
        else:
            gradient = gradient.div_(declared)
        if local.decay:
            gradient = gradient.add_(parameters, alpha=local.decay)
        own = parameters if in_place else None
        parameters, state = local.optimiser.apply(parameters, gradient, state, pace, step, out=own)
    records = max(steps * declared, 1)
    return parameters, Measured(losses / records, norms / records, rejected)


def check_taps(taps: Taps) -> None:
    """Refuse a view that is not one of a client's work."""
    unseen = taps.views.difference(CLIENTS_WORK)
    if unseen:
        raise FedveilError(f"views: {', '.join(sorted(unseen))} is not a view of a client's work")


def _step_by_rows(
    gradients: Gradients,
    parameters: Tensor,
    batch: Batch,
    sanitiser: Sanitiser | None,
    noise: NoiseSource,
    addresses: Sequence[Address],
) -> tuple[Tensor, Sums]:
    """A step whose rows are looked at or noised: the rows as the device holds them `[K, B, P]`, and their (noisy) sum.

    Rows carry noise only where each gets its own; else they are clipped, and the noise is drawn on their sum.
    """
    raw = gradients.rows(parameters, batch)
    if sanitiser is None:
        return raw.rows, sum_rows(raw, None, gradients.layout)
    rows = scale_rows(raw, sanitiser.factors, gradients.layout)
    if sanitiser.noises_rows:
        total = sanitiser.noised_rows(rows, noise, addresses)
    else:
        total = sanitiser.noised_sums(rows.double().sum(dim=1), noise, addresses)
    return rows, Sums(total.to(parameters.dtype), raw.losses.sum(dim=-1), raw.norms, raw.rejected)


def _seeds(gradients: Gradients, streams: Streams, addresses: Sequence[Address]) -> tuple[int, ...] | None:
    """Seeds for random layers, one per client, if the network has any."""
    if not gradients.random:
        return None
    return tuple(streams.integer(Purpose.DROPOUT, address) for address in addresses)
