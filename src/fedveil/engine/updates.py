"""What happens to finished updates before they leave their clients: clip, noise, report, compress."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.core.types import Receipt
from fedveil.engine.general import group_norms
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.witness import Witness
from fedveil.mechanisms.arithmetic import DOUBLE, margin
from fedveil.mechanisms.gaussian import GaussianRound, whole_cells
from fedveil.mechanisms.noise import NoiseSource
from fedveil.method import ONE_UPDATE, Method


@dataclass(frozen=True)
class Sent:
    """What K clients send: updates `[K, P]`, noisy reports of their norms `[K, width]` if any, and the receipts.

    `cells` are the updates as integers on the grid of their noise, where they are to be added exactly.
    """

    updates: Tensor
    cells: Tensor | None
    reports: Tensor | None
    receipts: tuple[Receipt, ...]  # one of each client, in their order; none at all where nothing was noised
    measured: Tensor | None = None  # [K, n]: the noisy updates where a witness looked at them


def usable(update: Tensor) -> Tensor:
    """The update `[P]`, or zeros if it is not finite: what counts for the sum and for a client's own model."""
    return update if is_finite(update) else torch.zeros_like(update)


def is_finite(update: Tensor) -> bool:
    """Whether the update `[P]` has a length: one number is read, and no coordinate by itself."""
    return math.isfinite(torch.linalg.vector_norm(update).item())


def sanitised(
    method: Method,
    round: int,
    bound: float | None,
    clients: Sequence[int],
    updates: Tensor,
    layout: Layout,
    streams: Streams,
    noise: NoiseSource,
    memory: NoiseMemory,
) -> Sent:
    """The updates `[K, P]` as the method lets them go.

    Guarantee (`upload` noise): each client's update is clipped to sensitivity S and gets N(0, sum_std²) before anybody
    else sees it: a Gaussian mechanism for the whole client, together with the report of its norm. Compression
    follows and is post-processing.
    """
    addresses = [Address(round, client) for client in clients]
    if method.upload is None:
        sent = Sent(updates, None, None, ())
    else:
        mechanism = method.upload.at(round, method.rounds, bound)
        sent = _noised(method, mechanism, round, clients, updates, layout, noise, memory)
    if method.compress is not None:
        sent = replace(sent, updates=method.compress.apply(sent.updates, addresses, streams))
    return sent


def _noised(
    method: Method,
    mechanism: GaussianRound,
    round: int,
    clients: Sequence[int],
    updates: Tensor,
    layout: Layout,
    noise: NoiseSource,
    memory: NoiseMemory,
) -> Sent:
    addresses = [Address(round, client) for client in clients]
    norms = update_norms(updates, layout)
    noisy = clipped(updates, norms, mechanism, layout, rows=1).double()
    did = mechanism.declare(
        place="upload", layers=layout.group_count, steps=1, sampling=ONE_UPDATE, adds_up=method.uploads_add_up
    )
    good = bool((torch.linalg.vector_norm(noisy, dim=-1) <= did.sensitivity).all())
    witness = Witness(layout, did.sum_std, round=round, steps=1, memory=memory)
    seen = witness.before(noisy)
    mechanism.add_to_sums(noisy, rows=1, source=noise, addresses=addresses, purpose=Purpose.UPLOAD_NOISE)
    witness.after(seen, noisy)
    reports = mechanism.report(torch.linalg.vector_norm(norms, dim=-1))
    if reports is not None and mechanism.reporter is not None:
        plain = reports.clone()
        mechanism.add_to_reports(reports, source=noise, addresses=addresses)
        mine = [(client, round) for client in clients]
        good &= memory.confirms_reports(reports - plain, mechanism.reporter.std, mine)
    draws = layout.size if did.sum_std > 0 else 0
    confirmed = witness.confirmed([("upload", client) for client in clients])
    return Sent(
        updates=noisy.to(updates.dtype),
        cells=whole_cells(noisy, did.sum_std) if did.adds_up and did.sum_std > 0 else None,
        reports=reports,
        receipts=tuple(
            Receipt(round, client, did, good and seen_well, draws)
            for client, seen_well in zip(clients, confirmed, strict=True)
        ),
        measured=witness.kept[0],
    )


def update_norms(updates: Tensor, layout: Layout) -> Tensor:
    """L2 norms `[K, M]` of the layers of updates `[K, P]`; row by row, so that rounding does not depend on K."""
    return torch.stack([group_norms(update, layout) for update in updates])


def clipped(
    updates: Tensor, norms: Tensor, mechanism: GaussianRound, layout: Layout, rows: int, declared: float = 1.0
) -> Tensor:
    """Updates `[K, P]` with layer norms `[K, M]`, clipped; an update that is not finite becomes zero.

    They are for sums of at most `rows` such updates, made in double precision, whose noise is that of `declared` rows.
    """
    multiplier = mechanism.multiplier(declared, layout.group_count)
    below = margin(rows=rows, chain=rows, size=layout.size, multiplier=multiplier, unit=DOUBLE)
    factors = mechanism.factors(norms, below)
    parts = [updates[:, part] * factors[:, m, None] for m, part in enumerate(layout.group_slices)]
    finite = torch.isfinite(norms).all(dim=-1, keepdim=True)
    return torch.where(finite, torch.cat(parts, dim=-1), updates.new_zeros(()))
