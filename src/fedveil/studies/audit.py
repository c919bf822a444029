"""The membership audit of a spec: run it with canaries, let the adversary guess, compare with what is verified."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedveil.accounting.plan import plan, replay
from fedveil.accounting.table import Table
from fedveil.accounting.tradeoff import epsilon_of_mean
from fedveil.attacks.audit.bounds import Coins, Evidence, check_confidence, evidence
from fedveil.attacks.audit.canaries import (
    Records,
    canary_directions,
    check_canaries,
    craft,
    place_clients,
    place_records,
)
from fedveil.attacks.audit.observers import (
    ClientInModels,
    ClientInUpdate,
    RecordInModels,
    RecordInUpdate,
    RecordOnDevice,
    Watcher,
)
from fedveil.config.spec import Source, resolve
from fedveil.core.errors import ArgumentError
from fedveil.core.guarantee import Guarantee, Relation
from fedveil.core.streams import Purpose
from fedveil.core.types import Receipt, Taps, Unit, View
from fedveil.data.dataset import Dataset
from fedveil.engine import loop
from fedveil.engine.batched import Engine
from fedveil.engine.client import check_taps
from fedveil.engine.gradients import Gradients
from fedveil.engine.loop import MakeRuntime
from fedveil.engine.personal_models import PersonalModels
from fedveil.engine.server import ServerState
from fedveil.method import Method
from fedveil.parts.cohorts import Everyone
from fedveil.parts.personal import Attention, Shared
from fedveil.runs.book import check_records
from fedveil.runs.evidence import keep_audit
from fedveil.runs.files import run_of
from fedveil.runs.prepare import Prepared, prepare
from fedveil.runtimes.local import on_this_machine
from fedveil.studies.audit_result import Audit

CANARIES = 1000
"""Canaries of an audit that does not say how many, or all clients where there are fewer."""

OTHER_DELTAS = (1e-3, 1e-2, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Where else the verified curve ε(δ) is compared with what the adversary could do."""


def audit(
    source: Source = "fed-cdp",
    overrides: Mapping[str, Any] | None = None,
    *,
    rounds: int = 1,
    unit: Unit | str = Unit.RECORD,
    view: View | str = View.SERVER,
    canaries: int | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    workers: int | None = None,
    dataset: Dataset | None = None,
    keep: bool = True,
    runtime: MakeRuntime | None = None,
) -> Audit:
    """Run the first `rounds` rounds of a spec with canaries, and bound ε from below by what the view lets one guess.

    Against `on_device`, `client` and `server` the server itself is the adversary: every canary sits in a client of its
    own, all clients take part, the other records contribute nothing, and each round is opened with the same model,
    which a server may do and the guarantee must bear. So nothing a client sees depends on another, and the trials are
    independent. Against `released` the training is that of the spec, on its records and with its cohorts; the adversary
    sees the models only.

    A run directory stands for its spec, which is trained anew; the result is then kept in it, for its report, unless
    `keep` is false. `runtime` says where the clients work; by default on this machine, with so many `workers`.
    """
    unit, view = Unit(unit), View(view)
    make_runtime = runtime or on_this_machine(workers)
    check_confidence(confidence)
    settings = dict(overrides or {}) | ({} if seed is None else {"seed": seed})
    settings |= {} if dataset is None else {"data.name": dataset.name}
    run = run_of(source, overrides)
    if run is not None:
        run.check()
        if dataset is not None:
            check_records(run, dataset)
    spec = resolve(source if run is None else run.spec, settings)
    prepared = _setting(prepare(spec, dataset), unit, view, rounds)
    clients = prepared.sites.population.clients
    count = min(CANARIES, clients) if canaries is None else canaries
    check_canaries(count, clients, prepared.layout.size if view is View.RELEASED else None)
    generator = prepared.streams.generator(Purpose.AUDIT)
    chosen = tuple(sorted(int(client) for client in generator.choice(clients, size=count, replace=False)))
    coins = generator.random(count) < 0.5
    replaced = _cell(prepared, unit, view, rounds).relation is Relation.REPLACE_ONE
    prepared, watcher, receipts = _run(prepared, unit, view, rounds, chosen, coins, replaced, generator, make_runtime)
    delta = prepared.spec.privacy.delta
    shown = evidence(
        watcher.scores,
        coins,
        delta=delta,
        confidence=confidence,
        independent=_independent(prepared.spec.method, view, rounds),
    )
    table = replay(prepared.context, [receipt.charge for receipt in receipts], rounds)
    verified = table.of(unit, view)
    result = Audit(
        method=prepared.spec.base,
        data=prepared.dataset.name,
        unit=unit,
        view=view,
        rounds=rounds,
        canaries=count,
        found=shown,
        verified=verified,
        curve=_curve(table, verified),
        gaussian=_if_gaussian(shown, verified, prepared.spec.method, unit, view),
        seeded=prepared.streams.seeded,
    )
    if run is not None and keep:
        keep_audit(run, result.to_dict())
    return result


def _setting(prepared: Prepared, unit: Unit, view: View, rounds: int) -> Prepared:
    """The spec as it is audited: no budget, and everyone in every round where who takes part is seen anyway."""
    method, spec = prepared.spec.method, prepared.spec
    if view is View.PEER:
        raise ArgumentError("view", "a peer sees some of the released models; audit the view released")
    if unit is Unit.CLIENT and view is View.ON_DEVICE:
        raise ArgumentError("unit", "on the device a client's records are seen one by one; audit the unit record there")
    clipped = method.upload is not None or (method.server is not None and view is View.RELEASED)
    if unit is Unit.CLIENT and method.example is not None and not clipped:
        raise ArgumentError(
            "unit",
            "only single records are clipped here, so a whole client is hidden as a group of its records, and no"
            " planted update would stand for it; audit the unit record",
        )
    if not 1 <= rounds <= method.rounds:
        raise ArgumentError("rounds", f"must be from 1 to the {method.rounds} of stop.rounds, not {rounds}")
    if view is not View.RELEASED:
        check_taps(method, Taps(frozenset({view})))
        most = method.cohort.most
        if most is not None and rounds > most:
            raise ArgumentError("rounds", f"a client takes part in at most {most} rounds (cohort.most), not {rounds}")
        method = replace(method, cohort=Everyone())
    return prepared.with_spec(replace(spec, method=method, privacy=replace(spec.privacy, epsilon=None)))


def _independent(method: Method, view: View, rounds: int) -> bool:
    """Whether what a client sends depends on no other: not in published sums, nor where clients get others' models."""
    return view is not View.RELEASED and (rounds == 1 or not isinstance(method.personal, Attention))


def _cell(prepared: Prepared, unit: Unit, view: View, rounds: int) -> Guarantee:
    return plan(prepared.context, rounds).of(unit, view)


def _run(
    prepared: Prepared,
    unit: Unit,
    view: View,
    rounds: int,
    clients: tuple[int, ...],
    coins: Coins,
    replaced: bool,
    generator: np.random.Generator,
    make_runtime: MakeRuntime,
) -> tuple[Prepared, Watcher, list[Receipt]]:
    """Place the canaries and train: through the loop, the runtime and the clients' code of every run."""
    real, method, state = view is View.RELEASED, prepared.spec.method, prepared.initial_state()
    gradients = Engine(prepared.job).gradients
    records: Records | None = None
    if unit is Unit.RECORD:
        records = _records(prepared, gradients, state, len(clients) if real else 1, replaced, generator)
        sites = place_records(prepared.sites, records, clients, coins, real=real)
    else:
        sites = place_clients(prepared.sites, clients, real=real)
    prepared = prepared.with_sites(sites)
    receipts: list[Receipt] = []
    watcher: Watcher
    with make_runtime(prepared.job) as runtime, _personal(method) as personal:
        if records is None:
            ways = canary_directions(prepared.layout, len(clients) if real else 1, generator)
            watcher = (
                ClientInModels(runtime, method, clients, ways, coins, replaced)
                if real
                else ClientInUpdate(runtime, method, clients, view, ways[0], coins, replaced)
            )
        elif real:
            watcher = RecordInModels(runtime, method, clients, gradients, records, sites)
        elif view is View.ON_DEVICE:
            watcher = RecordOnDevice(runtime, method, clients, gradients, records, sites, prepared.streams)
        else:
            watcher = RecordInUpdate(runtime, method, clients, view, gradients, records)
        for closed in _rounds(prepared, state, watcher, personal, rounds, fixed=not real):
            receipts += closed.receipts
            watcher.published(state.parameters, closed.state)
            state = state if not real else closed.state
    return prepared, watcher, receipts


def _rounds(
    prepared: Prepared,
    state: ServerState,
    watcher: Watcher,
    personal: PersonalModels | None,
    rounds: int,
    *,
    fixed: bool,
) -> Iterator[loop.Closed]:
    """The first `rounds` rounds; if `fixed`, each opened with the state of the first, as an adversary's server may."""
    population = prepared.sites.population
    starts = [replace(state, round=round) for round in range(rounds)] if fixed else [state]
    for first in starts:
        training = loop.rounds(
            prepared.spec.method, first, population, prepared.layout, watcher, prepared.streams, personal=personal
        )
        for closed in training:
            yield closed
            if fixed or closed.state.round == rounds:
                break


def _records(
    prepared: Prepared,
    gradients: Gradients,
    state: ServerState,
    count: int,
    replaced: bool,
    generator: np.random.Generator,
) -> Records:
    example = prepared.spec.method.example
    return craft(
        gradients,
        state.parameters,
        prepared.dataset.input_shape,
        prepared.dataset.classes,
        None if example is None else example.at(0, prepared.spec.method.rounds).factors,
        count=count,
        replaced=replaced,
        generator=generator,
    )


@contextmanager
def _personal(method: Method) -> Iterator[PersonalModels | None]:
    """A place for the clients' own models while the audit runs."""
    if isinstance(method.personal, Shared):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="fedveil-audit-") as directory:
        yield PersonalModels(method.personal, Path(directory))


def _curve(table: Table, verified: Guarantee) -> tuple[tuple[float, float], ...]:
    """The rest of what is verified: ε at larger δ."""
    if not verified.finite:
        return ()
    others = [delta for delta in OTHER_DELTAS if delta > verified.delta]
    return tuple((delta, table.at(delta).of(verified.unit, verified.view).epsilon) for delta in others)


def _if_gaussian(shown: Evidence, verified: Guarantee, method: Method, unit: Unit, view: View) -> float | None:
    """ε at δ by the bound on μ, where all that is verified is a composition of plain Gaussians."""
    if shown.mean is None or not math.isfinite(verified.epsilon):
        return None
    if method.example is not None and method.upload is not None:
        return None  # the cell is the better of two bounds, of which one may be sampled
    whole = method.upload is not None and view is not View.ON_DEVICE
    sampled = method.batch.kind in ("poisson", "without-replacement") and view is not View.ON_DEVICE
    if not whole and (unit is Unit.CLIENT or method.example is None or sampled):
        return None
    return epsilon_of_mean(shown.mean, verified.delta)
