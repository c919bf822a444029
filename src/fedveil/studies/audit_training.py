"""Training a spec with canaries: who holds them, which models are sent, and who watches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from fedveil.attacks.audit.bounds import Coins
from fedveil.attacks.audit.canaries import (
    Records,
    canary_directions,
    craft,
    place_clients,
    place_records,
)
from fedveil.attacks.audit.watching import Samples, Watcher, both, example_factors
from fedveil.attacks.audit.watching_clients import ClientInUpdate, RecordInUpdate, RecordOnDevice, record_directions
from fedveil.attacks.audit.watching_models import ClientInModels, RecordInModels
from fedveil.core.parameters import Layout
from fedveil.core.streams import Streams
from fedveil.core.types import Receipt, Unit, View
from fedveil.data.dataset import possible_labels
from fedveil.engine import loop
from fedveil.engine.batched import Engine
from fedveil.engine.gradients import Gradients
from fedveil.engine.loop import MakeRuntime, Runtime
from fedveil.engine.personal_models import PersonalModels
from fedveil.engine.server_state import ServerState
from fedveil.method import Method
from fedveil.models.registry import build
from fedveil.parts.personal import Shared
from fedveil.runs.prepare import Prepared
from fedveil.studies.audit_progress import CountedRuntime

MODELS_TRIED = 4
"""Random models from which that is taken, for each round after the first, which the canary record moves most."""


@dataclass(frozen=True)
class Trial:
    """A training that is watched: its canaries and, where the server is the adversary, the models that it sends.

    `clients[i]` has canary i. `records` is None where whole clients are the canaries. `replaced`: a canary that is out
    is exchanged for another one; otherwise its place contributes nothing.
    """

    prepared: Prepared
    unit: Unit
    view: View
    rounds: int
    clients: tuple[int, ...]
    replaced: bool
    records: Records | None
    models: tuple[Tensor, ...]
    seed: int

    @staticmethod
    def of(
        prepared: Prepared,
        unit: Unit,
        view: View,
        rounds: int,
        clients: tuple[int, ...],
        replaced: bool,
        generator: np.random.Generator,
    ) -> Trial:
        """Craft the canary records, and choose models on which they show."""
        real, first = view is View.RELEASED, prepared.initial_state().parameters
        gradients, records = Engine(prepared.job).gradients, None
        if unit is Unit.RECORD:
            records = craft(
                gradients,
                first,
                prepared.dataset.input_shape,
                possible_labels(prepared.dataset.task),
                example_factors(prepared.spec.method, 0)[0],
                count=len(clients) if real else 1,
                replaced=replaced,
                generator=generator,
            )
        models = (first,) if real else (first, *_other_models(prepared, gradients, records, rounds, generator))
        seed = int(generator.integers(2**63))
        return Trial(prepared, unit, view, rounds, clients, replaced, records, models, seed)

    @property
    def real(self) -> bool:
        """Whether the records and cohorts are those of the spec, and models follow from one another."""
        return self.view is View.RELEASED

    @property
    def method(self) -> Method:
        return self.prepared.spec.method

    def planted(self, coins: Coins) -> Prepared:
        """The training with the canaries in their places."""
        if self.records is None:
            sites = place_clients(self.prepared.sites, self.clients, real=self.real)
        else:
            sites = place_records(self.prepared.sites, self.records, self.clients, coins, real=self.real)
        return self.prepared.with_sites(sites)


@dataclass(frozen=True)
class Watched:
    """A training that was watched. `finished` says of each canary whether its client came to the end of all rounds."""

    prepared: Prepared
    watcher: Watcher
    receipts: tuple[Receipt, ...]
    finished: Coins

    @property
    def whole(self) -> bool:
        return bool(self.finished.all())


def watch(
    trial: Trial,
    coins: Coins,
    make_runtime: MakeRuntime,
    *,
    samples: Samples | None = None,
    kept: frozenset[int] = frozenset(),
    parts: Sequence[Sequence[int]] | None = None,
    streams: Streams | None = None,
    title: str = "",
    can_stop: bool = False,
) -> Watched:
    """Train with these coins: through the loop, the runtime and the clients' code of every run.

    Only the clients in `parts` take part, part by part: clients must not depend on those of another one. `streams` are
    others than those of the run. Who watches is told of the `title`, if there is one.

    Where it `can_stop`, an interruption (Ctrl-C) ends it after the last whole part, if that had canaries. What was
    guessed from these canaries is as sound as if no others had been planned: parts are made before the first coin is
    looked at, and whoever interrupts has seen the time and how many are done, no coin and no score. So how many count
    does not depend on how they turned out. To go on after having seen the result would, so nobody can.
    """
    prepared = trial.planted(coins)
    if streams is not None:
        prepared = replace(prepared, job=replace(prepared.job, streams=streams))
    receipts, done, watcher = list[Receipt](), list[int](), None
    try:
        with make_runtime(prepared.job) as runtime, _personal(trial.method) as personal:
            counted = CountedRuntime(runtime, title, trial.rounds, parts) if title else runtime
            watcher = _watcher(trial, prepared, coins, counted, samples or Samples(), kept)
            for part in (None,) if parts is None else parts:
                mine = list[Receipt]()
                for before, closed in _rounds(trial, prepared, watcher, personal, part):
                    mine += closed.receipts
                    watcher.published(before, closed)
                receipts += mine
                done += trial.clients if part is None else part
    except KeyboardInterrupt:
        if watcher is None or not can_stop or not set(done).intersection(trial.clients):
            raise
        watcher.forget_others(set(done))
    assert watcher is not None
    return Watched(prepared, watcher, tuple(receipts), np.isin(trial.clients, done))


def _watcher(
    trial: Trial, prepared: Prepared, coins: Coins, runtime: Runtime, samples: Samples, kept: frozenset[int]
) -> Watcher:
    method, clients, view, records = trial.method, trial.clients, trial.view, trial.records
    gradients = Engine(prepared.job).gradients
    if records is None:
        if trial.real:
            return ClientInModels(
                runtime=runtime,
                method=method,
                clients=clients,
                population=prepared.sites.population,
                layout=prepared.layout,
                seed=trial.seed,
                coins=coins,
                opposite=trial.replaced,
            )
        return ClientInUpdate(
            runtime=runtime,
            method=method,
            clients=clients,
            samples=samples,
            kept=kept,
            view=view,
            directions=canary_directions(prepared.layout, trial.rounds, np.random.default_rng(trial.seed)),
            coins=coins,
            opposite=trial.replaced,
        )
    if trial.real:
        return RecordInModels(
            runtime=runtime,
            method=method,
            clients=clients,
            population=prepared.sites.population,
            layout=prepared.layout,
            gradients=gradients,
            records=records,
            sites=prepared.sites,
        )
    if view is View.ON_DEVICE:
        return RecordOnDevice(
            runtime=runtime,
            method=method,
            clients=clients,
            samples=samples,
            kept=kept,
            gradients=gradients,
            records=records,
            sites=prepared.sites,
            streams=prepared.streams,
        )
    return RecordInUpdate(
        runtime=runtime,
        method=method,
        clients=clients,
        samples=samples,
        kept=kept,
        view=view,
        directions=record_directions(gradients, method, trial.models, records),
    )


def _rounds(
    trial: Trial, prepared: Prepared, watcher: Watcher, personal: PersonalModels | None, only: Sequence[int] | None
) -> Iterator[tuple[ServerState, loop.Closed]]:
    """The rounds, each with the state it began with; with models of their own where the server chooses them."""
    state, population = prepared.initial_state(), prepared.sites.population
    starts = [state]
    if not trial.real:
        starts = [replace(state, round=round, parameters=model) for round, model in enumerate(trial.models)]
    admission = None if only is None else _Only(list(only))
    for before in starts:
        training = loop.rounds(
            trial.method,
            before,
            population,
            prepared.layout,
            watcher,
            prepared.streams,
            admission=admission,
            personal=personal,
        )
        for closed in training:
            yield before, closed
            before = closed.state
            if not trial.real or closed.state.round == trial.rounds:
                break


@dataclass(frozen=True)
class _Only:
    """These clients and no others."""

    clients: list[int]

    def candidates(self, round: int) -> list[int]:
        return self.clients

    def took_part(self, round: int, cohort: Sequence[int]) -> None:
        """Nobody is ever left out."""


def _other_models(
    prepared: Prepared, gradients: Gradients, records: Records | None, rounds: int, generator: np.random.Generator
) -> list[Tensor]:
    """For each round after the first a new model: the server may send what it likes, and the promise must bear it."""
    models = []
    for round in range(1, rounds):
        tried = [_random_model(prepared, generator) for _ in range(MODELS_TRIED if records is not None else 1)]
        if records is None:
            models += tried
            continue
        factors = example_factors(prepared.spec.method, round)[0]
        pairs = [both(gradients, model, records, factors) for model in tried]
        lengths = [float((inside - outside).norm()) for inside, outside in pairs]
        models.append(tried[int(np.argmax(lengths))])
    return models


def _random_model(prepared: Prepared, generator: np.random.Generator) -> Tensor:
    """The network of the spec with other initial weights."""
    spec, dataset = prepared.spec.model, prepared.dataset
    seed = int(generator.integers(2**63))
    outputs, tokens = dataset.task.outputs, dataset.tokens
    model = build(spec.name, dataset.input_shape, outputs, spec.options, seed=seed, tokens=tokens)
    return Layout.of(model).vector(model)


@contextmanager
def _personal(method: Method) -> Iterator[PersonalModels | None]:
    """A place for the clients' own models while the audit runs."""
    if isinstance(method.personal, Shared):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="fedveil-audit-") as directory:
        yield PersonalModels(method.personal, Path(directory))
