"""Whether a new model, and a new bound, are what the noisy sums of a round make of the old ones.

That is computed once more, for the few coordinates that a witness looks at, from what was measured with its noise.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.core.types import Population
from fedveil.engine.client import Upload
from fedveil.engine.post_processing import LAST_DIGITS, aggregated, agree
from fedveil.engine.server import Tally, weighted
from fedveil.engine.server_state import ServerState
from fedveil.engine.updates import is_finite, usable
from fedveil.engine.witness import looked_at
from fedveil.mechanisms.adaptive import Reported
from fedveil.method import Method


class ClosingCheck:
    """Adds up, beside the tally, the few coordinates of a round's uploads that it then expects in the model."""

    def __init__(self, layout: Layout, grid: float | None = None) -> None:
        self._places, self._grid = looked_at(layout), grid
        self._total = torch.zeros(len(self._places), dtype=torch.float64)
        self._sizes = self._total.clone()
        self._reports: Tensor | None = None

    def add(self, upload: Upload, weight: float = 1.0) -> None:
        if self._grid is None or upload.cells is None or not is_finite(upload.update):
            points = weighted(usable(upload.update)[self._places], weight)
        else:
            points = weighted(upload.cells[self._places] * self._grid, weight)
        self._total += points
        self._sizes += points.abs()
        if upload.report is not None:
            self._reports = upload.report if self._reports is None else self._reports + upload.report

    def passes(
        self, method: Method, before: ServerState, after: ServerState, tally: Tally, population: Population
    ) -> bool:
        """Whether the state after a round follows from the one before and from what was measured."""
        divisor = method.cohort.at(before.round, method.rounds).divisor(population.clients)
        total, expected, sizes = tally.total[self._places], self._total, self._sizes
        if tally.measured is not None:  # the server's own noise is on the sum of what it clipped
            expected, sizes = tally.measured, tally.measured.abs()
        model = aggregated(
            method.aggregate,
            before.parameters,
            total,
            divisor,
            before.optimiser,
            before.round,
            method.rounds,
            self._places,
        )
        return (
            bool(((total - expected).abs() <= LAST_DIGITS * sizes).all())
            and bool(agree(model, after.parameters[self._places], before.parameters[self._places]))
            and self._is_bound(method, before, after, tally, divisor)
            and self._is_average(method, before, after, model)
        )

    def _is_average(self, method: Method, before: ServerState, after: ServerState, model: Tensor) -> bool:
        """Whether the mean of the last models is that of the models as they were made."""
        mean = None if before.average is None else before.average[self._places]
        expected = method.aggregate.averaged(mean, model, before.round, method.rounds)
        if expected is None or after.average is None:
            return expected is after.average
        return bool(agree(expected, after.average[self._places], 0.0 if mean is None else mean))

    def _is_bound(self, method: Method, before: ServerState, after: ServerState, tally: Tally, divisor: float) -> bool:
        reports = self._reports if tally.measured_reports is None else tally.measured_reports
        clip = method.adaptive_clip
        if clip is None or before.bound is None or after.bound is None or not isinstance(clip.adaptive, Reported):
            return before.bound == after.bound
        expected = before.bound if reports is None else clip.adaptive.next(before.bound, reports, divisor)
        return math.isclose(expected, after.bound, rel_tol=LAST_DIGITS)
