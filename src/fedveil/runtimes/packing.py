"""A chunk's uploads as a worker sends them.

A pickled tensor costs about 100 µs, and one row of a table takes the whole table along. Uploads are such rows, so their
updates travel as one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedveil.core.types import Observation, Receipt
from fedveil.engine.client import Statistics, Upload


@dataclass(frozen=True)
class Packed:
    """The uploads of alike clients: all of them have cells or a report, or none has."""

    updates: Tensor  # [K, P]
    cells: Tensor | None  # [K, P]
    reports: Tensor | None  # [K, width]
    others: tuple[tuple[int, tuple[Receipt, ...], Statistics | None, float | None, tuple[Observation, ...]], ...]


def pack_uploads(uploads: Sequence[Upload]) -> Packed:
    cells = [upload.cells for upload in uploads if upload.cells is not None]
    reports = [upload.report for upload in uploads if upload.report is not None]
    return Packed(
        updates=torch.stack([upload.update for upload in uploads]),
        cells=torch.stack(cells) if cells else None,
        reports=torch.stack(reports) if reports else None,
        others=tuple((one.client, one.receipts, one.statistics, one.own_score, one.observations) for one in uploads),
    )


def unpack_uploads(packed: Packed) -> tuple[Upload, ...]:
    """What was packed, in its order."""
    nothing = [None] * len(packed.others)
    cells = nothing if packed.cells is None else packed.cells
    reports = nothing if packed.reports is None else packed.reports
    return tuple(
        Upload(client, update, receipts, statistics, integers, report, own_score, observations)
        for update, integers, report, (client, receipts, statistics, own_score, observations) in zip(
            packed.updates, cells, reports, packed.others, strict=True
        )
    )
