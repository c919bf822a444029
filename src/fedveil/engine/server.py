"""The server's side of a round: open it, add up what arrives (`Tally`), sanitise the sum in place, close it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedveil.core.norms import lengths
from fedveil.core.parameters import Layout
from fedveil.core.streams import Address, Purpose, Streams
from fedveil.core.types import Population, Receipt
from fedveil.engine.client import Broadcast, Upload
from fedveil.engine.general import group_norms
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.receipts import ReceiptMismatch
from fedveil.engine.server_state import ServerState, draw_cohort
from fedveil.engine.updates import clipped
from fedveil.engine.witness import Witness
from fedveil.mechanisms.adaptive import CohortMedian, Reported
from fedveil.mechanisms.gaussian import GaussianRound
from fedveil.mechanisms.noise import NoiseSource, grid_width
from fedveil.method import ONE_UPDATE, Method

CLIPPED_TOGETHER = 8
"""Updates that the server clips at a time: for fewer the calls cost more than the arithmetic, more leave the caches."""


def open_round(
    method: Method, state: ServerState, candidates: Sequence[int], streams: Streams
) -> tuple[list[int], Broadcast]:
    """Who of the candidates takes part, and what they are sent."""
    cohort = draw_cohort(method, state.round, candidates, streams)
    return cohort, Broadcast(state.round, state.parameters, state.bound)


@dataclass
class Tally:
    """Adds up a round's uploads one client after another, each clipped where the server clips.

    Uploads come in an order that the cohort fixes, so the sum does not depend on how clients were chunked; double
    precision keeps small updates from being lost in it. What the server clips waits (`settle`) until there is enough to
    be clipped side by side; under a bound that is the cohort's own median, until all have arrived.

    Where uploads carry noise of their own and are just added, their integers are, so that the sum has the noises of all
    of them exactly: `grid` is what one is worth, and `report_grid` for their reports. Of updates after one local step
    the integers are those of the noisy sum of gradients.
    """

    layout: Layout
    mechanism: GaussianRound | None = None
    most: int = 1  # updates that can be in the sum, for the rounding of adding them
    declared: float = 1.0  # updates that the server's noise is declared for
    grid: float | None = None
    report_grid: float | None = None
    sum: Tensor = field(init=False)  # in units of the grid, if there is one
    reports: Tensor | None = None
    longest: float = 0.0  # of the updates after clipping
    measured: Tensor | None = None  # [n]: the noisy sum where a witness looked at it
    measured_reports: Tensor | None = None
    receipts: list[Receipt] = field(default_factory=list)
    update_norms: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    rejected: int = 0
    rejected_updates: int = 0
    clients: int = 0

    def __post_init__(self) -> None:
        self.sum = torch.zeros(self.layout.size, dtype=torch.float64)
        self._plain = self.sum.clone() if self.mechanism is not None else self.sum
        self._layer_norms = [0.0] * self.layout.group_count
        self._layer_update_norms = torch.zeros(self.layout.group_count, dtype=torch.float64)
        self._waiting: list[tuple[Tensor, Tensor]] = []

    def add(self, upload: Upload, weight: float = 1.0) -> None:
        """One client's upload, counted `weight` times; other weights than 1 are for what the server only adds up."""
        norms = group_norms(upload.update, self.layout)
        norm = float(lengths(upload.update))
        if self.grid is not None and upload.cells is None:
            raise ReceiptMismatch(
                f"client {upload.client}: an upload without the integers that are to be added exactly"
            )
        if math.isfinite(norm):
            self._plain += weighted(
                upload.update if self.grid is None or upload.cells is None else upload.cells, weight
            )
            self.update_norms.append(norm)
            self._layer_update_norms += norms
        else:  # a client whose training diverged contributes zero; the divisor stays what it is
            self.rejected_updates += 1
        if self.mechanism is not None:
            self._waiting.append((upload.update, norms))
            if len(self._waiting) == CLIPPED_TOGETHER and not isinstance(self.mechanism.clip.bound, CohortMedian):
                self.settle(self.mechanism)
        if upload.report is not None:
            noisy = upload.report
            self._add_report(noisy if self.report_grid is None else (noisy / self.report_grid).round())
        self.receipts += upload.receipts
        self.clients += 1
        if upload.statistics is not None:
            self.losses.append(upload.statistics.loss)
            self._layer_norms = [a + b for a, b in zip(self._layer_norms, upload.statistics.norms, strict=True)]
            self.rejected += upload.statistics.rejected

    def _add_report(self, report: Tensor) -> None:
        self.reports = report if self.reports is None else self.reports + report

    def settle(self, mechanism: GaussianRound) -> None:
        """Clip and add what is waiting, in the order in which it came."""
        for first in range(0, len(self._waiting), CLIPPED_TOGETHER):
            waiting = self._waiting[first : first + CLIPPED_TOGETHER]
            norms = torch.stack([norms for _, norms in waiting])
            updates = torch.stack([update for update, _ in waiting])
            for update in clipped(updates, norms, mechanism, self.layout, self.most, self.declared):
                self.sum += update
                self.longest = max(self.longest, float(torch.linalg.vector_norm(update)))
            reports = mechanism.report(torch.linalg.vector_norm(norms, dim=-1))
            for report in () if reports is None else reports:
                self._add_report(report)
        self._waiting = []

    @property
    def total(self) -> Tensor:
        """The sum of the updates."""
        return self.sum if self.grid is None else self.sum * self.grid

    @property
    def report_total(self) -> Tensor | None:
        """The sum of the reports."""
        return self.reports if self.reports is None or self.report_grid is None else self.reports * self.report_grid

    @property
    def waiting_lengths(self) -> Tensor:
        """The norms of the updates that wait for their median."""
        if not self._waiting:
            return torch.zeros(0)
        return torch.linalg.vector_norm(torch.stack([norms for _, norms in self._waiting]), dim=-1)  # type: ignore[no-any-return]

    @property
    def layer_norms(self) -> list[float]:
        """Mean gradient norm of each layer before clipping (zeros where examples are not clipped)."""
        return [norm / max(self.clients, 1) for norm in self._layer_norms]

    @property
    def layer_update_norms(self) -> list[float]:
        """Mean norm of each layer of the updates, as they arrive."""
        return [float(norm) for norm in self._layer_update_norms / max(len(self.update_norms), 1)]

    @property
    def update_scale(self) -> float:
        """U_s: the mean over coordinates of the squared mean update (Geyer et al., section 3)."""
        mean = self._plain * (self.grid or 1.0) / max(len(self.update_norms), 1)
        return float(mean.square().mean())

    @property
    def between_client_variance(self) -> float:
        """V_c: the mean over coordinates of the updates' variance between clients."""
        squares = sum(norm**2 for norm in self.update_norms) / max(len(self.update_norms), 1)
        return max(squares / self.layout.size - self.update_scale, 0.0)


def weighted(update: Tensor, weight: float) -> Tensor:
    """An update counted `weight` times, in double precision; itself where that is once."""
    return update if weight == 1 else update.double() * weight


def server_mechanism(method: Method, state: ServerState) -> GaussianRound | None:
    """The server's own noise in the round that comes."""
    return None if method.server is None else method.server.at(state.round, method.rounds, state.bound)


def open_tally(method: Method, state: ServerState, layout: Layout, population: Population) -> Tally:
    """An empty tally for the round that comes."""
    grid = report_grid = None
    if method.upload is not None and method.uploads_add_up:
        upload = method.upload.at(state.round, method.rounds, state.bound)
        grid = grid_width(upload.sum_std(1)) if upload.sigma > 0 else None
        report_grid = None if upload.reporter is None else grid_width(upload.reporter.std)
    elif method.example is not None and method.examples_add_up(population.records):
        rate, batch = method.local.rate.at(state.round, method.rounds), method.batch.declared(population.records[0])
        example = method.example.at(state.round, method.rounds)
        grid = -rate * grid_width(example.sum_std(batch)) / batch
    return Tally(
        layout,
        server_mechanism(method, state),
        most=population.clients,
        declared=method.cohort.at(state.round, method.rounds).divisor(population.clients),
        grid=grid,
        report_grid=report_grid,
    )


def sanitise_sum(
    method: Method, state: ServerState, tally: Tally, arrived: Sequence[int], noise: NoiseSource, memory: NoiseMemory
) -> tuple[Receipt, ...]:
    """Noise the tally's sum and reports in place, as `method.server` says; the receipts, one for each who has arrived.

    Guarantee: the sum of the cohort's updates, each clipped to sensitivity S, plus N(0, sum_std²): a Gaussian mechanism
    for one client. An empty cohort's sum gets its noise too. Noise that is not of its declared size stops the round.
    """
    mechanism = server_mechanism(method, state)
    if mechanism is None:
        return ()
    assert method.server is not None
    if isinstance(mechanism.clip.bound, CohortMedian):
        mechanism = method.server.at(state.round, method.rounds, mechanism.clip.bound.of(tally.waiting_lengths))
    tally.settle(mechanism)
    rows, addresses = tally.declared, [Address(state.round)]
    did = mechanism.declare(place="server", layers=tally.layout.group_count, steps=1, sampling=ONE_UPDATE, rows=rows)
    witness = Witness(tally.layout, did.sum_std, round=state.round, steps=1, memory=memory)
    sums = tally.sum.unsqueeze(0)
    seen = witness.before(sums)
    confirmed = tally.longest <= did.sensitivity and float(sums.norm()) <= did.sensitivity * max(tally.clients, 1)
    mechanism.add_to_sums(sums, rows=rows, source=noise, addresses=addresses, purpose=Purpose.SERVER_NOISE)
    witness.after(seen, sums)
    tally.measured = witness.kept[0][0]
    if mechanism.reporter is not None:
        if tally.reports is None:
            tally.reports = torch.zeros(mechanism.reporter.width, dtype=torch.float64)
        plain = tally.reports.clone()
        mechanism.add_to_reports(tally.reports.unsqueeze(0), source=noise, addresses=addresses)
        tally.measured_reports, on_reports = tally.reports.clone(), (tally.reports - plain).unsqueeze(0)
        confirmed &= memory.confirms_reports(on_reports, mechanism.reporter.std, [("server", state.round)])
    if not (confirmed and witness.confirmed(["server"])[0]):
        raise ReceiptMismatch(f"round {state.round}, server: what was measured on the sum is not as declared")
    draws = tally.layout.size if mechanism.sigma > 0 else 0
    return tuple(Receipt(state.round, client, did, True, draws) for client in arrived)


def next_bound(method: Method, state: ServerState, tally: Tally, divisor: float) -> float | None:
    """C of the next round, from the noisy reports of this one."""
    clip = method.adaptive_clip
    if clip is None or state.bound is None or tally.report_total is None:
        return state.bound
    assert isinstance(clip.adaptive, Reported)
    return clip.adaptive.next(state.bound, tally.report_total, divisor)


def close_round(method: Method, state: ServerState, tally: Tally, population: Population) -> ServerState:
    """The next model: sum ÷ constant, then the server's optimiser."""
    divisor = method.cohort.at(state.round, method.rounds).divisor(population.clients)
    parameters, optimiser = method.aggregate.apply(
        state.parameters, tally.total, divisor, state.optimiser, state.round, method.rounds
    )
    average = method.aggregate.averaged(state.average, parameters, state.round, method.rounds)
    return ServerState(state.round + 1, parameters, optimiser, next_bound(method, state, tally, divisor), average)
