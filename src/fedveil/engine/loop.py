"""The one training loop. Every method, runtime and test goes through it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch

from fedveil.core.errors import Diverged, FedveilError
from fedveil.core.parameters import Layout
from fedveil.core.streams import Streams
from fedveil.core.types import Observation, Population, Receipt, Taps
from fedveil.engine.admission import Admission, Limited
from fedveil.engine.batched import Evaluation
from fedveil.engine.client import NO_TAPS, Broadcast, Upload, check_taps
from fedveil.engine.closing_check import ClosingCheck
from fedveil.engine.cohort_memory import CohortMemory
from fedveil.engine.job import Job
from fedveil.engine.noise_memory import NoiseMemory
from fedveil.engine.personal_models import AtTheirSites, PersonalModels, Starts
from fedveil.engine.receipts import ReceiptMismatch, check_receipts
from fedveil.engine.server import Tally, close_round, open_round, open_tally, sanitise_sum
from fedveil.engine.server_state import ServerState
from fedveil.mechanisms.noise import NoiseSource
from fedveil.method import Method
from fedveil.parts.cohorts import needed
from fedveil.parts.compression import upload_bytes
from fedveil.parts.personal import Shared


class Runtime(Protocol):
    """Where clients' work is done: in this process, on local workers, or at real sites over a network."""

    def train(
        self, broadcast: Broadcast, cohort: Sequence[int], taps: Taps, starts: Starts | None = None
    ) -> Iterator[Upload]:
        """The uploads of the cohort, one client's after another, in an order that depends on the cohort only.

        Whoever does not answer is missing from them. The method's quorum says how many may be.
        `starts` gives the models that some clients begin with, where that is not the broadcast one.
        """

    def evaluate(self, state: ServerState) -> Evaluation:
        """How good the global model is on the validation records."""


Begun = Sequence[int] | None
"""The cohort of a round that was paid for and not finished."""

MakeRuntime = Callable[[Job], AbstractContextManager[Runtime]]
"""Where a job's clients are to work: the runtime lives as long as the block it is entered in."""


@dataclass(frozen=True)
class Closed:
    """A finished round that nobody has seen yet. Its receipts must be stored before its state is published.

    `cohort` was drawn and has paid; those of it who have `arrived` are in the state, and have receipts.
    """

    state: ServerState
    receipts: tuple[Receipt, ...]
    cohort: tuple[int, ...]
    arrived: tuple[int, ...]
    summary: RoundSummary
    observations: tuple[Observation, ...]

    @property
    def round(self) -> int:
        return self.state.round - 1


class BelowQuorum(FedveilError):
    """Too few of a cohort have answered, so nothing of their round is published. All of them have paid for it."""


@dataclass(frozen=True)
class RoundSummary:
    """Diagnostics of a round. They come from raw data and raw updates: for researchers, not for release."""

    clients: int  # who have arrived
    train_loss: float | None  # None where clients tell nobody
    update_norm: float
    largest_update_norm: float
    layer_norms: tuple[float, ...]
    layer_update_norms: tuple[float, ...]
    rejected: int  # examples whose gradient was not finite
    rejected_updates: int  # clients whose whole update was not finite
    seconds: float
    between_client_variance: float  # V_c of Geyer et al.
    update_scale: float  # U_s
    bound: float | None  # C_t of the update's clip, where there is one
    upload_bytes: int  # what the cohort sent, compressed as the method says
    dense_bytes: int  # what it would have sent without


def rounds(
    method: Method,
    state: ServerState,
    population: Population,
    layout: Layout,
    runtime: Runtime,
    streams: Streams,
    taps: Taps = NO_TAPS,
    admission: Admission | None = None,
    pay: Callable[[ServerState, Sequence[int]], None] = lambda state, cohort: None,
    personal: PersonalModels | AtTheirSites | None = None,
    begun: Begun = None,
) -> Iterator[Closed]:
    """Train from `state` to the method's end, one closed round at a time.

    `pay` is called for every round before anything is sent to its clients, when nothing of it can have been seen yet.
    `admission` decides who may still be drawn (by default by the method's limit of rounds). When nobody may, it ends.
    `personal` keeps the clients' own models, for methods that have them.
    `begun` is the cohort of the next round, where that was drawn and paid for before: it is asked once more.
    Raises when a round's receipts do not match the method's declaration, before the round is handed out.
    """
    method.check(population)
    check_taps(taps)
    admission = admission or Limited.of(method, [0] * population.clients)
    noise, memory, cohorts = NoiseSource(streams), NoiseMemory(), CohortMemory(population.clients)
    if (personal is None) != isinstance(method.personal, Shared):
        raise FedveilError("personal: this method needs a place for the clients' own models")
    while state.round < method.rounds:
        started = time.perf_counter()
        candidates = admission.candidates(state.round)
        if not candidates:
            return
        cohort, broadcast = open_round(method, state, candidates, streams)
        if begun is not None:
            cohort = list(begun)
        odd = cohorts.problem(method.cohort.at(state.round, method.rounds), cohort, candidates)
        if odd is not None:
            raise ReceiptMismatch(f"round {state.round}: {odd}")
        if begun is None:
            pay(state, cohort)
        begun = None
        tally, observations = open_tally(method, state, layout, population), list[Observation]()
        check = ClosingCheck(layout, tally.grid if method.upload is None else None)
        starts = None if personal is None else personal.starts(broadcast.parameters, cohort)
        arrived: list[int] = []
        for upload in runtime.train(broadcast, cohort, taps, starts):
            arrived.append(upload.client)
            weight = method.aggregate.weight(upload.client, population)
            tally.add(upload, weight)
            check.add(upload, weight)
            observations += upload.observations
            if personal is not None:
                personal.keep(state.round, broadcast.parameters, upload)
        _check_arrived(method, state.round, cohort, arrived)
        tally.receipts += sanitise_sum(method, state, tally, arrived, noise, memory)
        check_receipts(method, population, state.round, arrived, tally.receipts, layout, _bound(method, state, tally))
        admission.took_part(state.round, cohort)
        summary = _summary(method, state, tally, time.perf_counter() - started)
        before, state = state, close_round(method, state, tally, population)
        if method.mechanisms and not check.passes(method, before, state, tally, population):
            raise ReceiptMismatch(f"round {before.round}: the model is not what the noisy sums make of the last one")
        if not torch.isfinite(state.parameters).all():
            raise Diverged(
                f"round {state.round - 1}: the model is no longer finite: training diverged; try a smaller local.rate"
            )
        yield Closed(
            state,
            tuple(tally.receipts),
            tuple(cohort),
            tuple(arrived),
            summary,
            tuple(observations),
        )


def _check_arrived(method: Method, round: int, cohort: Sequence[int], arrived: Sequence[int]) -> None:
    """Each of the cohort arrives once at most. Without a quorum all of them must: nobody is lost on the way."""
    if len(set(arrived)) < len(arrived) or not set(arrived) <= set(cohort):
        raise ReceiptMismatch(f"round {round}: uploads of clients that were not drawn, or two of one client")
    sampler = method.cohort.at(round, method.rounds)
    if len(arrived) >= needed(sampler, len(cohort)):
        return
    if sampler.quorum is None:
        lost = sorted(set(cohort) - set(arrived))
        raise ReceiptMismatch(
            f"round {round}: the uploads of {len(lost)} clients are missing, first of client {lost[0]}"
        )
    raise BelowQuorum(
        f"round {round}: {len(arrived)} of {len(cohort)} have answered, and the quorum is {sampler.quorum}; nothing of"
        " it is published"
    )


def _bound(method: Method, state: ServerState, tally: Tally) -> float | None:
    """The value of a bound that follows the norms. The median of a cohort is only known from the receipts."""
    if method.adaptive_clip is None or state.bound is not None:
        return state.bound
    return next((receipt.did.bound for receipt in tally.receipts if receipt.did.place == "server"), None)


def _summary(method: Method, state: ServerState, tally: Tally, seconds: float) -> RoundSummary:
    size = tally.layout.size
    kept = size if method.compress is None else method.compress.kept(size)
    bounds = [receipt.did.bound for receipt in tally.receipts if receipt.did.place != "example"]
    return RoundSummary(
        clients=tally.clients,
        train_loss=sum(tally.losses) / len(tally.losses) if tally.losses else None,
        update_norm=sum(tally.update_norms) / max(len(tally.update_norms), 1),
        largest_update_norm=max(tally.update_norms, default=0.0),
        layer_norms=tuple(tally.layer_norms),
        layer_update_norms=tuple(tally.layer_update_norms),
        rejected=tally.rejected,
        rejected_updates=tally.rejected_updates,
        seconds=seconds,
        between_client_variance=tally.between_client_variance,
        update_scale=tally.update_scale,
        bound=bounds[-1] if bounds else None,
        upload_bytes=tally.clients * upload_bytes(size, kept),
        dense_bytes=tally.clients * upload_bytes(size, size),
    )
