"""Canaries: records and clients that are made to be as visible as clipping allows.

A canary *record* is a crafted example, far outside the data, whose clipped gradient is as long as the clip allows. Left
out, its place holds a **void**: a record whose input is NaN, so that its gradient is not finite and the engine counts
it as zero. That is the accountant's add-or-remove exactly ("a removed record's place contributes zero"): the number of
records, the sampling rates, the noise and the divisors stay what they are. Where only replace-one is accounted
(batches without replacement, cohorts of fixed size), a second crafted record takes its place instead, one whose
gradient is as far away as can be found.

A canary *client* holds voids only, so that its training moves nothing, and starts from the broadcast model moved by ten
clipping bounds into a random direction: its raw update is that direction. Left out, it starts from the broadcast model
and its raw update is zero; replaced, it starts from the opposite side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedveil.attacks.audit.bounds import Coins
from fedveil.core.errors import ArgumentError
from fedveil.core.parameters import Layout
from fedveil.data.dataset import Examples, to_float
from fedveil.engine.general import scale_rows
from fedveil.engine.gradients import Batch, Factors, Gradients
from fedveil.engine.sites import Sites

POOL = 12
"""Random inputs tried at each scale for a canary."""

LABELS = 3
"""Labels tried with each input."""

SLICE = 64
"""Gradients held at a time."""

MOST_FLOATS = 2**28
"""Directions of all canaries that may be held at a time."""


@dataclass(frozen=True, eq=False)
class Records:
    """For each of m canaries its record and what stands in its place when it is left out: `[m, …]`, `[m]`."""

    inside: Examples
    outside: Examples

    def __len__(self) -> int:
        return len(self.inside)


def craft(
    gradients: Gradients,
    parameters: Tensor,
    input_shape: tuple[int, ...],
    labels: Tensor,
    factors: Factors | None,
    *,
    count: int,
    replaced: bool,
    generator: np.random.Generator,
) -> Records:
    """`count` canary records for a model at `parameters`, with some of the `labels`.

    One canary is the best of a pool: the longest clipped gradient or, for `replaced`, the two that are farthest apart.
    Several are drawn afresh in the manner of the best, so that each has a direction of its own, and get the label that
    moves the model most: one that it foresees would move nothing. Without a clip on examples nothing bounds a
    gradient, and inputs stay of ordinary size.
    """
    scales = (1.0, 10.0, 100.0, 1000.0) if factors is not None else (1.0,)
    size = np.repeat(scales, POOL * LABELS)
    inputs = np.repeat(generator.standard_normal((len(scales) * POOL, *input_shape)), LABELS, axis=0)
    inputs *= size.reshape(-1, *[1] * len(input_shape))
    pool = Examples(_tensor(inputs), labels[torch.from_numpy(generator.integers(len(labels), size=len(size)))])
    rows = clipped_gradients(gradients, parameters, pool, factors).double()
    if replaced:
        distances = torch.cdist(rows, rows)
        best, other = divmod(int(distances.argmax()), len(rows))
    else:
        best = other = int(rows.norm(dim=-1).argmax())
    if count == 1:
        return Records(pool.pick([best]), pool.pick([other]) if replaced else voids(1, input_shape, labels.dtype))

    def afresh() -> Examples:
        inputs = _tensor(size[best] * generator.standard_normal((count, *input_shape)))
        return _unforeseen(gradients, parameters, inputs, labels, factors)

    return Records(afresh(), afresh() if replaced else voids(count, input_shape, labels.dtype))


def _unforeseen(
    gradients: Gradients, parameters: Tensor, inputs: Tensor, labels: Tensor, factors: Factors | None
) -> Examples:
    """Each input with the label that gives it the longest clipped gradient."""
    lengths = []
    for label in labels:
        labelled = Examples(inputs, label.expand(len(inputs)))
        lengths.append(clipped_lengths(gradients, parameters, labelled, factors))
    return Examples(inputs, labels[torch.stack(lengths).argmax(dim=0)])


def voids(count: int, input_shape: tuple[int, ...], labels: torch.dtype) -> Examples:
    """Records that contribute zero."""
    return Examples(torch.full((count, *input_shape), torch.nan), torch.zeros(count, dtype=labels))


@torch.no_grad()
def clipped_gradients(gradients: Gradients, parameters: Tensor, records: Examples, factors: Factors | None) -> Tensor:
    """What each record adds to its batch's sum `[n, P]` for a model `[P]`, by the engine's own code."""
    return torch.cat(list(_clipped(gradients, parameters, records, factors)))


@torch.no_grad()
def clipped_lengths(gradients: Gradients, parameters: Tensor, records: Examples, factors: Factors | None) -> Tensor:
    """How long each of them is `[n]`."""
    return torch.cat([rows.norm(dim=-1) for rows in _clipped(gradients, parameters, records, factors)])


def _clipped(gradients: Gradients, parameters: Tensor, records: Examples, factors: Factors | None) -> Iterator[Tensor]:
    for batch in _slices(records, torch.arange(len(records))):
        rows = gradients.rows(parameters[None], batch)
        clipped = rows.rows if factors is None else scale_rows(rows, factors, gradients.layout)
        yield clipped[0].clone()


@torch.no_grad()
def clipped_sum(
    gradients: Gradients, parameters: Tensor, records: Examples, which: Tensor, factors: Factors | None
) -> Tensor:
    """What the records at the places `which` add together `[P]`; one that is held several times is computed once."""
    total = torch.zeros_like(parameters)
    places, held = np.unique(which.numpy(), return_counts=True)
    for times in np.unique(held).tolist():
        for batch in _slices(records, torch.from_numpy(places[held == times])):
            total += times * gradients.sums(parameters[None], batch, factors).total[0]
    return total


def _slices(records: Examples, which: Tensor) -> Iterator[Batch]:
    for first in range(0, len(which), SLICE):
        part = which[first : first + SLICE]
        yield Batch(records.inputs[part][None], records.labels[part][None], torch.ones(1, len(part)))


def canary_directions(layout: Layout, count: int, generator: np.random.Generator) -> Tensor:
    """Random directions `[count, P]` of length 1 in every layer, which saturate a clip of either kind."""
    signs = torch.from_numpy(generator.integers(0, 2, size=(count, layout.size), dtype=np.int8) * 2.0 - 1).float()
    for part in layout.group_slices:
        signs[:, part] /= (part.stop - part.start) ** 0.5
    return signs


def place_records(sites: Sites, records: Records, clients: tuple[int, ...], coins: Coins, *, real: bool) -> Sites:
    """Canary i is the first record of client `clients[i]`, or what stands in for it, as its coin says.

    With `real` all other records stay; without, those of all clients are voids, which an adversary who knows them
    could subtract anyway. Where there is one canary for all clients, each holds that one.
    """
    shape, labels = tuple(sites.examples.inputs.shape[1:]), sites.examples.labels.dtype
    base = _as_float(sites.examples) if real else voids(1, shape, labels)
    everything = [base, records.inside, records.outside]
    examples = Examples(torch.cat([p.inputs for p in everything]), torch.cat([p.labels for p in everything]))
    indices = sites.indices.clone() if real else torch.zeros_like(sites.indices)
    firsts = _firsts(sites)
    for index, (client, inside) in enumerate(zip(clients, coins, strict=True)):
        which = index if len(records) > 1 else 0
        indices[firsts[client]] = len(base) + which + (0 if inside else len(records))
    return replace(sites, examples=examples, indices=indices)


def others(sites: Sites, clients: tuple[int, ...]) -> Tensor:
    """The places of all records but the first of each of these clients, as often as they are held."""
    mine = torch.ones(len(sites.indices), dtype=torch.bool)
    mine[torch.from_numpy(_firsts(sites)[list(clients)])] = False
    return sites.indices[mine]


def place_clients(sites: Sites, clients: tuple[int, ...], *, real: bool) -> Sites:
    """The canary clients hold voids only; with `real` the other clients keep what they have."""
    shape, labels = tuple(sites.examples.inputs.shape[1:]), sites.examples.labels.dtype
    base, void = (_as_float(sites.examples) if real else voids(0, shape, labels)), voids(1, shape, labels)
    examples = Examples(torch.cat([base.inputs, void.inputs]), torch.cat([base.labels, void.labels]))
    indices = sites.indices.clone() if real else torch.zeros_like(sites.indices)
    firsts = np.concatenate(([0], np.cumsum(sites.sizes)))
    for client in clients:
        indices[firsts[client] : firsts[client + 1]] = len(base)
    return replace(sites, examples=examples, indices=indices)


def check_canaries(canaries: int, clients: int, parameters: int | None) -> None:
    """One canary per client; `parameters` where every canary needs a direction of its own."""
    if canaries < 1:
        raise ArgumentError("canaries", f"at least one is needed, not {canaries}")
    if canaries > clients:
        raise ArgumentError(
            "canaries",
            f"each sits in a client of its own, and there are {clients} clients for {canaries} canaries;"
            f" ask for fewer or set data.clients={canaries}",
        )
    if parameters is not None and canaries * parameters > MOST_FLOATS:
        raise ArgumentError(
            "canaries",
            f"{canaries} directions of {parameters:,} parameters do not fit into memory;"
            f" ask for at most {MOST_FLOATS // parameters}",
        )


def _firsts(sites: Sites) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Where each client's records begin."""
    return np.concatenate(([0], np.cumsum(sites.sizes)[:-1])).astype(np.int64)


def _as_float(examples: Examples) -> Examples:
    return Examples(to_float(examples.inputs), examples.labels)


def _tensor(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))
