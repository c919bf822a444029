"""Faults planted into the engine, to see whether somebody notices. Each undoes itself with the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scaled_noise import scale_noise
from torch import Tensor

from fedveil.core.streams import Address, Purpose, Streams
from fedveil.engine import client, loop, receipts, sanitiser, server
from fedveil.engine.closing_check import ClosingCheck
from fedveil.engine.cohort_memory import CohortMemory
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.witness import Witness
from fedveil.mechanisms.clip import Clip, Limit
from fedveil.mechanisms.gaussian import GaussianRound
from fedveil.mechanisms.noise import NoiseSource
from fedveil.parts.batches import Draw, PoissonBatch, WithoutReplacement

Plant = Callable[[pytest.MonkeyPatch], None]


def forged_receipts(patch: pytest.MonkeyPatch) -> None:
    """Receipts say that all was measured, whatever it was."""
    patch.setattr(Witness, "confirmed", lambda self, owners: [True] * len(owners))
    patch.setattr(NoiseMemory, "confirms_reports", lambda self, noises, std, owners: True)
    patch.setattr(NoiseMemory, "confirms_batches", lambda self, positions, counts, kinds, owners: True)
    patch.setattr(CohortMemory, "problem", lambda self, sampler, cohort, candidates: None)
    patch.setattr(ClosingCheck, "passes", lambda self, method, before, after, tally, population: True)
    patch.setattr(sanitiser, "within_bound", lambda norms, factors, sensitivity: True)
    patch.setattr(sanitiser, "rows_confirmed", lambda before, rows, sums, std, places: True)
    checked = receipts.check_receipts

    def unread(method: Any, population: Any, round: int, cohort: Any, these: Any, *more: Any) -> None:
        checked(method, population, round, cohort, [replace(one, confirmed=True) for one in these], *more)

    patch.setattr(loop, "check_receipts", unread)


def changed_noise(change: Callable[[Tensor], Tensor]) -> Plant:
    """All noise is changed after it was drawn, and receipts do not see it."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        added = NoiseSource.add

        def add(self: NoiseSource, purpose: Purpose, addresses: Sequence[Address], values: Tensor, std: float) -> None:
            noise = torch.zeros_like(values)
            added(self, purpose, addresses, noise, std)
            values += change(noise)

        forged_receipts(patch)
        patch.setattr(NoiseSource, "add", add)

    return plant


def times(factor: float) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        forged_receipts(patch)
        scale_noise(patch, factor)

    return plant


def first_half_only(noise: Tensor) -> Tensor:
    """Noise on the first half of the coordinates, of the right size in all."""
    kept = noise.clone()
    kept[:, noise.shape[1] // 2 :] = 0
    return kept * 2**0.5


def shared(**same: int) -> Plant:
    """Noise is drawn as if it were always of this round, client or step."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        added = NoiseSource.add

        def again(
            self: NoiseSource, purpose: Purpose, addresses: Sequence[Address], values: Tensor, std: float
        ) -> None:
            added(self, purpose, [address._replace(**same) for address in addresses], values, std)

        forged_receipts(patch)
        patch.setattr(NoiseSource, "add", again)

    return plant


def no_clip(patch: pytest.MonkeyPatch) -> None:
    forged_receipts(patch)
    patch.setattr(Clip, "limit", lambda self, bound, margin=0.0: Limit(1e30, self.by))


def sensitivity_of_one_layer(patch: pytest.MonkeyPatch) -> None:
    forged_receipts(patch)
    patch.setattr(Clip, "sensitivity", lambda self, bound, layers: bound)


def noise_taken_off_again(patch: pytest.MonkeyPatch) -> None:
    """The receipts' measurement sees the noise, and then it is removed."""
    noised = sanitiser.Sanitiser.noised_sums

    def cleaned(self: sanitiser.Sanitiser, sums: Tensor, noise: NoiseSource, addresses: list[Address]) -> Tensor:
        clean = sums.clone()
        noised(self, sums, noise, addresses)
        return sums.copy_(clean)

    forged_receipts(patch)
    patch.setattr(sanitiser.Sanitiser, "noised_sums", cleaned)


def no_report_noise(patch: pytest.MonkeyPatch) -> None:
    forged_receipts(patch)
    patch.setattr(GaussianRound, "add_to_reports", lambda self, reports, **options: None)


def one_noise_for_all_rows(patch: pytest.MonkeyPatch) -> None:
    def add(self: GaussianRound, rows: Tensor, *, source: NoiseSource, addresses: Sequence[Address]) -> Tensor:
        noise = torch.zeros(rows.shape[0], rows.shape[2], dtype=torch.float64)
        source.add(Purpose.ROW_NOISE, addresses, noise, self.row_std)
        return rows.add_(noise[:, None]).double().sum(dim=1)

    forged_receipts(patch)
    patch.setattr(GaussianRound, "add_to_rows", add)


def fixed_batches(patch: pytest.MonkeyPatch) -> None:
    """Batches of fixed size where Poisson ones are declared."""

    def draw(self: PoissonBatch, records: int, steps: int, generator: np.random.Generator) -> Draw:
        drawn = WithoutReplacement(self.size).draw(records, steps, generator)
        positions = np.zeros((steps, self.slots(records)), dtype=np.int64)
        positions[:, : self.size] = drawn.positions
        return Draw(positions, drawn.counts)

    forged_receipts(patch)
    patch.setattr(PoissonBatch, "draw", draw)


def same_cohort(patch: pytest.MonkeyPatch) -> None:
    """Every round has the cohort of the first."""
    opened = loop.open_round

    def again(method: Any, state: server.ServerState, candidates: Sequence[int], streams: Streams) -> Any:
        cohort, broadcast = opened(method, replace(state, round=0), candidates, streams)
        return cohort, replace(broadcast, round=state.round)

    forged_receipts(patch)
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
                upload,
                update=upload.update * float("nan"),
                observations=tuple(replace(o, tensors=o.tensors * float("nan")) for o in upload.observations),
            )
            if nothing
            else upload
            for upload, nothing in zip(uploads, out, strict=True)
        )

    patch.setattr("fedveil.engine.batched.local_work", summed)
