"""What an audit compares with the declaration: noise, reports, batches, cohorts, and what one canary moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedveil.attacks.audit.bounds import Coins
from fedveil.attacks.audit.declared_noise import DeclaredRound, plain, spread_coordinates
from fedveil.attacks.audit.execution_checks import (
    batch_check,
    cohort_check,
    key_check,
    level_of,
    report_check,
    reuse_check,
    sensitivity_check,
    size_check,
)
from fedveil.attacks.audit.watching import Samples
from fedveil.attacks.audit.watching_clients import uses
from fedveil.attacks.audit.watching_models import InModels
from fedveil.core.streams import Purpose, Streams
from fedveil.core.types import Declaration, View
from fedveil.core.verdicts import Check
from fedveil.engine.loop import MakeRuntime
from fedveil.parts.cohorts import Everyone
from fedveil.runtimes.local import on_this_machine
from fedveil.studies.audit_pair import TrialPair, repeated_clients
from fedveil.studies.audit_training import Trial, Watched, watch

MOST_NOISES, MOST_COORDINATES = 1500, 2048
"""Noises that are compared with one another, and coordinates of each."""

DRAWN = 1000
"""Sizes of batches that are drawn as declared."""

KEYS_DRAWN = 1 << 18
"""Keys of new runs: so many that keys of only 32 random bits would come back."""

OTHER_TRAININGS, OF_EACH = 2, 2
"""Trainings under keys of their own, and clients of each, whose noise must be new."""

ROUNDING_OF_UPDATES = 1e-6
"""Single precision may move an update by this share of its length and the model's."""


def samples_of(trial: Trial, coins: Coins, most: int = MOST_NOISES, *, among: Sequence[int] | None = None) -> Samples:
    """Of clients that hold nothing, alike in number of records: who is looked at, and where. Only those `among`."""
    if trial.real:
        return Samples()
    sizes, planted = trial.prepared.sites.sizes, dict(zip(trial.clients, coins, strict=True))
    full = [client for client, coin in planted.items() if coin or trial.replaced]
    empty = sorted(set(range(len(sizes)) if among is None else among).difference(full))
    usual = max(set(sizes), key=sizes.count)
    alike = [client for client in empty if sizes[client] == usual][: max(most // trial.rounds, 1)]
    return Samples(frozenset(alike), spread_coordinates(trial.prepared.layout.group_slices, MOST_COORDINATES))


def plain_trial(trial: Trial) -> Trial:
    """The same training without what a client does to its noisy sums besides adding them up."""
    spec = trial.prepared.spec
    method = plain(spec.method)
    return (
        trial
        if method is spec.method
        else replace(trial, prepared=trial.prepared.with_spec(replace(spec, method=method)))
    )


def all_checks(pair: TrialPair, make_runtime: MakeRuntime, confidence: float) -> list[Check]:
    """Everything that can be compared; what is not plain is trained once more without what the promise ignores.

    After an interruption nothing more is trained, and what is known by now is compared.
    """
    trial, coins, whole = pair.trial, pair.coins, pair.first.whole
    checks = _cohort_checks(pair, confidence)
    if not trial.prepared.streams.seeded and whole:
        keys = (Streams.from_system().purpose_key(Purpose.EXAMPLE_NOISE) for _ in range(KEYS_DRAWN))
        checks.append(key_check(keys, level_of(confidence)))
    simple = trial if trial.real else plain_trial(trial)
    if simple is not trial and not whole:
        return checks
    if simple is not trial:
        again = repeated_clients(trial)
        samples = samples_of(trial, coins, trial.rounds * len(again))
        only = sorted(samples.clients.union(again))
        pair = TrialPair.of(simple, coins, make_runtime, samples, [only], titles=("checks, repeated", "checks"))
    checks += _noise_checks(simple, coins, pair.first, confidence)
    if not trial.real and pair.exact:
        checks += _sensitivity_checks(pair, confidence)
    return checks


def _noise_checks(trial: Trial, coins: Coins, first: Watched, confidence: float) -> list[Check]:
    """The noise of clients that hold nothing: its size, that none is used twice, that of reports, and their batches."""
    level, samples = level_of(confidence), first.watcher.samples
    if isinstance(first.watcher, InModels):
        return _server_checks(first.watcher, level)
    if not samples.clients:
        return []
    checks, noises = [], list(_noises(trial, first))
    if noises:
        checks.append(size_check(torch.stack(noises), level))
        if not trial.prepared.streams.seeded and first.whole:
            noises += _of_other_trainings(trial, coins, samples)
        checks.append(reuse_check(torch.stack(noises), level))
    reports = list(_report_noises(trial, samples))
    if reports:
        checks.append(report_check(torch.cat(reports), level))
    example = DeclaredRound.by(first.receipts, trial.method, 0, min(samples.clients)).at("example")
    if example is not None and samples.records:
        drawn = _batches(example, np.random.default_rng(trial.seed))
        checks.append(batch_check(list(samples.records.values()), drawn, level))
    return checks


def _noises(trial: Trial, watched: Watched) -> Iterator[Tensor]:
    """The noises in units of their declared standard deviations, where these are known."""
    samples, known = watched.watcher.samples, dict[int, float | None]()
    for place, noise in samples.noise.items():
        if place.round not in known:
            declared = DeclaredRound.by(watched.receipts, trial.method, place.round, min(samples.clients))
            known[place.round] = declared.noise(trial.view, trial.models[place.round])
        deviation = known[place.round]
        if deviation is not None:
            yield noise / deviation


def _of_other_trainings(trial: Trial, coins: Coins, samples: Samples) -> list[Tensor]:
    """Noises of the same clients in the first round of other trainings, each with a new key of the system."""
    few, once = sorted(samples.clients)[:OF_EACH], replace(trial, rounds=1, models=trial.models[:1])
    noises = list[Tensor]()
    for _ in range(OTHER_TRAININGS):
        mine = Samples(frozenset(few), samples.coordinates)
        noises += _noises(
            once, watch(once, coins, on_this_machine(1), samples=mine, parts=[few], streams=Streams.from_system())
        )
    return noises


def _report_noises(trial: Trial, samples: Samples) -> Iterator[Tensor]:
    """The noises of reports in units of their declared size: what an update of length zero reports is known."""
    upload, rounds = trial.method.upload, trial.method.rounds
    if upload is None or trial.method.example is not None:
        return
    bound = trial.prepared.initial_state().bound
    for place, report in samples.reports.items():
        mechanism = upload.at(place.round, rounds, bound)
        expected = mechanism.report(torch.zeros(1))
        assert expected is not None
        assert mechanism.reporter is not None
        yield (report - expected[0]) / mechanism.reporter.std


def _batches(example: Declaration, generator: np.random.Generator) -> list[int]:
    """Numbers of records in all batches of a round, as declared."""
    sampling, steps = example.sampling, example.steps
    if sampling.kind == "allocated":
        drawn = generator.multinomial(sampling.records, [1 / steps] * steps, size=DRAWN)
        return [int(total) for total in np.minimum(drawn, sampling.cap).sum(axis=1)]
    if sampling.kind != "poisson":
        return [steps * sampling.batch]
    drawn = generator.binomial(sampling.records, sampling.batch / sampling.records, size=(DRAWN, steps))
    return [int(total) for total in np.minimum(drawn, sampling.cap).sum(axis=1)]


def _server_checks(watcher: InModels, level: float) -> list[Check]:
    noises, reports = watcher.server_noise, [n.on_report for n in watcher.server_noise if n.on_report is not None]
    checks = []
    if noises:
        together = torch.stack([noise.on_sum for noise in noises])
        checks += [size_check(together, level), reuse_check(together, level)]
    if reports:
        checks.append(report_check(torch.tensor(reports), level))
    return checks


def _cohort_checks(pair: TrialPair, confidence: float) -> list[Check]:
    """Who was drawn in which round, where the draw is part of the promise."""
    trial, watcher = pair.trial, pair.first.watcher
    clients = trial.prepared.sites.population.clients
    if not isinstance(watcher, InModels) or isinstance(trial.method.cohort, Everyone) or trial.rounds < 2:
        return []
    return [cohort_check(watcher.cohorts, clients, level_of(confidence))]


def _sensitivity_checks(pair: TrialPair, confidence: float) -> list[Check]:
    """What canaries moved between two trainings with the same noise, against the declared sensitivity."""
    trial, first, second = pair.trial, pair.first, pair.second
    prepared, moved = first.prepared, []
    for place, mine in first.watcher.seen.items():
        declared = DeclaredRound.by(first.receipts, trial.method, place.round, place.client)
        used = uses(trial.method, prepared.sites, prepared.streams, place.round, place.client)
        allowed = declared.reach(trial.unit, trial.view, trial.replaced, len(used))
        other = second.watcher.seen.get(place)
        if allowed is None or other is None:
            return []
        size = (
            mine.norm() + other.norm() + (trial.models[place.round].norm() if trial.view is not View.ON_DEVICE else 0)
        )
        length = float((mine.double() - other.double()).norm() - ROUNDING_OF_UPDATES * size)
        moved.append((max(length, 0.0) if length == length else length, allowed))
    return [sensitivity_check(moved, level_of(confidence))] if moved else []
