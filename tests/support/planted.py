"""Faults planted into the engine, to see whether somebody notices. Each undoes itself with the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedveil.core.streams import Address, Purpose, Streams
from fedveil.engine import client, loop, server, updates
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import GaussianRound
from fedveil.mechanisms.noise import NoiseSource
from fedveil.parts.batches import Draw, PoissonBatch, WithoutReplacement

Plant = Callable[[pytest.MonkeyPatch], None]


def forged_receipts(patch: pytest.MonkeyPatch) -> None:
    """Receipts say that the noise was measured, whatever it was."""
    for module in (client, updates, server):
        patch.setattr(module, "as_declared", lambda mean_square, declared, count: True)


def changed_noise(change: Callable[[Tensor], Tensor]) -> Plant:
    """All noise is changed after it was drawn, and receipts do not see it."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        forged_receipts(patch)
        drawn = NoiseSource.standard_normal
        patch.setattr(NoiseSource, "standard_normal", lambda *arguments: change(drawn(*arguments)))

    return plant


def times(factor: float) -> Plant:
    return changed_noise(lambda noise: noise * factor)


def first_half_only(noise: Tensor) -> Tensor:
    """Noise on the first half of the coordinates, of the right size in all."""
    kept = noise.clone()
    kept[:, noise.shape[1] // 2 :] = 0
    return kept * 2**0.5


def shared(**same: int) -> Plant:
    """Noise is drawn as if it were always of this round, client or step."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        drawn = NoiseSource.standard_normal

        def again(self: NoiseSource, purpose: Purpose, addresses: Sequence[Address], size: int) -> Tensor:
            return drawn(self, purpose, [replace(address, **same) for address in addresses], size)

        forged_receipts(patch)
        patch.setattr(NoiseSource, "standard_normal", again)

    return plant


def no_clip(patch: pytest.MonkeyPatch) -> None:
    def untouched(self: Clip, norms: Tensor, bound: float) -> Tensor:
        return torch.isfinite(norms).all(dim=-1, keepdim=True).to(norms.dtype).expand_as(norms)

    patch.setattr(Clip, "factors", untouched)


def sensitivity_of_one_layer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Clip, "sensitivity", lambda self, bound, layers: bound)


def noise_taken_off_again(patch: pytest.MonkeyPatch) -> None:
    """The receipts' measurement sees the noise, and then it is removed."""
    noised = client.Sanitiser.noised_sums

    def cleaned(self: client.Sanitiser, sums: Tensor, noise: NoiseSource, addresses: list[Address]) -> Tensor:
        clean = sums.clone()
        noised(self, sums, noise, addresses)
        return sums.copy_(clean)

    patch.setattr(client.Sanitiser, "noised_sums", cleaned)


def no_report_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GaussianRound, "add_to_reports", lambda self, reports, **options: None)


def one_noise_for_all_rows(patch: pytest.MonkeyPatch) -> None:
    def add(self: GaussianRound, rows: Tensor, *, source: NoiseSource, addresses: Sequence[Address]) -> None:
        noise = source.standard_normal(Purpose.ROW_NOISE, addresses, rows.shape[-1])
        rows.add_(noise[:, None], alpha=self.row_std)

    forged_receipts(patch)
    patch.setattr(GaussianRound, "add_to_rows", add)


def fixed_batches(patch: pytest.MonkeyPatch) -> None:
    """Batches of fixed size where Poisson ones are declared."""

    def draw(self: PoissonBatch, records: int, steps: int, generator: np.random.Generator) -> Draw:
        drawn = WithoutReplacement(self.size).draw(records, steps, generator)
        positions = np.zeros((steps, self.slots(records)), dtype=np.int64)
        positions[:, : self.size] = drawn.positions
        return Draw(positions, drawn.counts)

    patch.setattr(PoissonBatch, "draw", draw)


def same_cohort(patch: pytest.MonkeyPatch) -> None:
    """Every round has the cohort of the first."""
    opened = loop.open_round

    def again(method: Any, state: server.ServerState, candidates: Sequence[int], streams: Streams) -> Any:
        cohort, broadcast = opened(method, replace(state, round=0), candidates, streams)
        return cohort, replace(broadcast, round=state.round)

    patch.setattr(loop, "open_round", again)


def constant_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Streams,
        "from_system",
        staticmethod(lambda: Streams(key=b"the same 32 bytes in every run.."[:32], seeded=False)),
    )


def voids_count(patch: pytest.MonkeyPatch) -> None:
    """What a record without a finite gradient adds to a sum is not a number."""
    worked = client.local_work

    def summed(*arguments: Any, **options: Any) -> Any:
        uploads = worked(*arguments, **options)
        out = [upload.statistics.loss == 0 for upload in uploads]
        return tuple(
            replace(
                upload, observations=tuple(replace(o, tensors=o.tensors * float("nan")) for o in upload.observations)
            )
            if nothing
            else upload
            for upload, nothing in zip(uploads, out, strict=True)
        )

    patch.setattr("fedveil.engine.batched.local_work", summed)
