"""The membership audit of a spec: run it with canaries, let the adversary guess, compare with what is verified."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedveil.accounting.plan import plan, replay
from fedveil.accounting.table import Table
from fedveil.accounting.tradeoff import epsilon_of_mean
from fedveil.attacks.audit.bounds import Coins, check_confidence, evidence
from fedveil.attacks.audit.canaries import check_canaries
from fedveil.attacks.audit.power import power_of
from fedveil.attacks.audit.promise import Promise
from fedveil.config.spec import Source
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.guarantee import Guarantee, Relation
from fedveil.core.progress import Progress, nobody_watches, watched_by
from fedveil.core.streams import Purpose
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset
from fedveil.engine.loop import MakeRuntime
from fedveil.method import Method
from fedveil.parts.cohorts import Everyone
from fedveil.parts.personal import Attention
from fedveil.runs.argument_checks import check_arguments
from fedveil.runs.book import check_records
from fedveil.runs.evidence import keep_audit
from fedveil.runs.files import run_of
from fedveil.runs.prepare import Prepared, prepared_for
from fedveil.runtimes.local import on_this_machine
from fedveil.studies.audit_checks import all_checks, samples_of
from fedveil.studies.audit_pair import TrialPair
from fedveil.studies.audit_result import Audit
from fedveil.studies.audit_training import Trial

CANARIES, FEWEST_CANARIES, MOST_LOCAL_STEPS = 1000, 100, 30_000
"""Canaries of an audit that does not say how many: the first number, or all clients where there are fewer; less, down
to the second, where clients would make more local steps than the third, so that it ends while one watches."""

AUDIT_PARTS, LEAST_PART = 8, 20
"""Groups of clients that train one after another, and how many of them there are in one at least."""

AUDIT_ROUNDS = 2
"""Rounds of an audit that does not say how many: noise that is used again shows from the second on."""

OTHER_DELTAS = (1e-3, 1e-2, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Where else the verified curve ε(δ) is compared with what the adversary could do."""


def audit(
    source: Source = "fed-cdp",
    overrides: Mapping[str, Any] | None = None,
    *,
    rounds: int | None = None,
    unit: Unit | str = Unit.RECORD,
    view: View | str = View.SERVER,
    canaries: int | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    workers: int | None = None,
    dataset: Dataset | None = None,
    keep: bool = True,
    runtime: MakeRuntime | None = None,
    progress: Progress = nobody_watches,
) -> Audit:
    """Run the first `rounds` rounds (two) of a spec with canaries, and bound ε from below by what the view lets guess.

    Against `on_device`, `client` and `server` the server itself is the adversary: every canary sits in a client of its
    own, all clients take part, the other records contribute nothing, and each round is opened with another random
    model, which a server may do and the guarantee must bear. So nothing a client sees depends on another, and the
    trials are independent. Against `released` the training is that of the spec, on its records and with its cohorts;
    the adversary sees the models only.

    A part of the clients works a second time with the same noise and the opposite coins. That shows what a canary
    moves, and so what the audit could have noticed.

    A run directory stands for its spec, which is trained anew; the result is then kept in it, for its report, unless
    `keep` is false. `runtime` says where the clients work; by default on this machine, with so many `workers`.

    An interruption (Ctrl-C) ends with what the finished canaries show, where clients do not depend on one another;
    `watch` says why that is sound.
    """
    numbers = {"rounds": rounds, "canaries": canaries, "seed": seed, "workers": workers}
    check_arguments(overrides=overrides, dataset=dataset, numbers=numbers)
    for name, choices, value in (("unit", Unit, unit), ("view", View, view)):
        if value not in tuple(choices):
            raise ArgumentError(name, f"must be {' or '.join(choices)}, not {value!r}")
    unit, view = Unit(unit), View(view)
    make_runtime = runtime or on_this_machine(workers)
    check_confidence(confidence)
    settings = dict(overrides or {}) | ({} if seed is None else {"seed": seed})
    run = run_of(source, overrides)
    if run is not None:
        run.check()
        if dataset is not None:
            check_records(run, dataset)
    prepared = prepared_for(source if run is None else run.spec, settings, dataset)
    if prepared.dataset.tokens:
        raise FedveilError("data: records are tokens, and a canary is made of numbers; they can't be audited")
    method = prepared.spec.method
    if rounds is None:
        rounds = min(AUDIT_ROUNDS, method.rounds, method.cohort.most or AUDIT_ROUNDS)
    prepared = _setting(prepared, unit, view, rounds)
    generator = prepared.streams.generator(Purpose.AUDIT)
    replaced = plan(prepared.context, rounds).of(unit, view).relation is Relation.REPLACE_ONE
    clients = _canary_clients(prepared, view, rounds, replaced, canaries, generator)
    coins = generator.random(len(clients)) < 0.5
    trial = Trial.of(prepared, unit, view, rounds, clients, replaced, generator)
    only = _at_work(trial) if canaries is None and not trial.real else None
    with watched_by(progress):
        result = _audited(trial, coins, make_runtime, confidence, only)
    if run is not None and keep:
        keep_audit(run, result.to_dict())
    return result


def _audited(
    trial: Trial, coins: Coins, make_runtime: MakeRuntime, confidence: float, only: Sequence[int] | None = None
) -> Audit:
    """`only` some clients take part, where those without canaries are many and show nothing that these do not."""
    prepared, method, unit, view = trial.prepared, trial.method, trial.unit, trial.view
    independent = _independent(method, view, trial.rounds)
    samples, parts = samples_of(trial, coins, among=only), _parts(trial, only, independent)
    pair = TrialPair.of(trial, coins, make_runtime, samples, parts, can_stop=independent)
    watcher, counted = pair.first.watcher, pair.finished
    shown = evidence(
        watcher.scores[counted],
        coins[counted],
        delta=prepared.spec.privacy.delta,
        confidence=confidence,
        independent=independent,
        readings=watcher.readings[counted],
    )
    table = replay(prepared.context, [receipt.charge for receipt in pair.first.receipts], trial.rounds)
    verified = table.of(unit, view)
    several = method.example is not None and method.upload is not None  # the cell is the better of two bounds
    comparable = shown.mean is not None and method.server is None and not several
    mean = table.gaussian_mean(unit, view) if comparable else None
    promise = Promise(verified.delta, verified.epsilon, _curve(table, verified), mean)
    return Audit(
        method=prepared.spec.base,
        data=prepared.dataset.name,
        unit=unit,
        view=view,
        rounds=trial.rounds,
        canaries=int(counted.sum()),
        planned=len(coins),
        evidence=shown,
        verified=verified,
        promise=promise,
        gaussian=None if mean is None or shown.mean is None else epsilon_of_mean(shown.mean, verified.delta),
        power=power_of(promise, pair.guesser(), coins[counted], confidence, independent) if promise.finite else None,
        checks=tuple(all_checks(pair, make_runtime, confidence)),
        seeded=prepared.streams.seeded,
    )


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
        most = method.cohort.most
        if most is not None and rounds > most:
            raise ArgumentError("rounds", f"a client takes part in at most {most} rounds (cohort.most), not {rounds}")
        method = replace(method, cohort=Everyone())
    return prepared.with_spec(replace(spec, method=method, privacy=replace(spec.privacy, epsilon=None)))


def _at_work(trial: Trial) -> list[int]:
    """Who trains where clients do not depend on one another: those with canaries, and a tenth as many without."""
    others = sorted(set(range(trial.prepared.sites.population.clients)).difference(trial.clients))
    return sorted([*trial.clients, *others[: max(len(trial.clients) // 10, 1)]])


def _parts(trial: Trial, only: Sequence[int] | None, independent: bool) -> list[Sequence[int]] | None:
    """In which groups clients train one after another, so that an interruption leaves some; None: all together."""
    if not independent:
        return None if only is None else [only]
    everyone = range(trial.prepared.sites.population.clients) if only is None else only
    size = max(math.ceil(len(everyone) / AUDIT_PARTS), LEAST_PART)
    return [everyone[first : first + size] for first in range(0, len(everyone), size)]


def _canary_clients(
    prepared: Prepared, view: View, rounds: int, replaced: bool, canaries: int | None, generator: np.random.Generator
) -> tuple[int, ...]:
    """Who has a canary; where even a canary that is out contributes something, some clients are left without."""
    clients = prepared.sites.population.clients
    if canaries is None:
        empty = clients // 10 if replaced and view is not View.RELEASED else 0
        canaries = min(CANARIES, clients - empty)
        if view is not View.RELEASED:
            steps = rounds * prepared.spec.method.local_steps(max(prepared.sites.population.records))
            canaries = min(canaries, max(FEWEST_CANARIES, MOST_LOCAL_STEPS // steps))
    check_canaries(canaries, clients, prepared.layout.size if view is View.RELEASED else None)
    return tuple(sorted(int(client) for client in generator.choice(clients, size=canaries, replace=False)))


def _independent(method: Method, view: View, rounds: int) -> bool:
    """Whether what a client sends depends on no other: not in published sums, nor where clients get others' models."""
    return view is not View.RELEASED and (rounds == 1 or not isinstance(method.personal, Attention))


def _curve(table: Table, verified: Guarantee) -> tuple[tuple[float, float], ...]:
    """The rest of what is verified: ε at larger δ."""
    if not verified.finite:
        return ()
    others = [delta for delta in OTHER_DELTAS if delta > verified.delta]
    return tuple((delta, table.at(delta).of(verified.unit, verified.view).epsilon) for delta in others)
