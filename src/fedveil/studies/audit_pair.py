"""A training and its repetition: the same noise, other coins. The difference is what canaries move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedveil.attacks.audit.bounds import Coins
from fedveil.attacks.audit.canaries import MOST_FLOATS
from fedveil.attacks.audit.power import Guesser
from fedveil.attacks.audit.watching import Samples
from fedveil.engine.loop import MakeRuntime
from fedveil.studies.audit_training import Trial, Watched, watch

REPEATED, UNCHANGED = 50, 2
"""Clients whose work is done twice with the same noise: with opposite coins, the last few of them with the same."""


@dataclass(frozen=True)
class TrialPair:
    """A training, and its repetition with the same noise by clients of which most have the opposite coin."""

    trial: Trial
    coins: Coins
    flipped: Coins
    first: Watched
    second: Watched

    @staticmethod
    def of(
        trial: Trial,
        coins: Coins,
        make_runtime: MakeRuntime,
        samples: Samples,
        parts: Sequence[Sequence[int]] | None = None,
        *,
        titles: tuple[str, str] = ("what canaries move", "canaries"),
        can_stop: bool = False,
    ) -> TrialPair:
        """Train twice: the few that repeat, then all of the `parts`, whose rest is left out where it `can_stop`."""
        again = repeated_clients(trial)
        flipped = coins ^ np.isin(trial.clients, again[: len(again) - UNCHANGED])
        kept = frozenset(again)
        few, all_of_them = titles
        second = watch(trial, flipped, make_runtime, kept=kept, parts=None if trial.real else [again], title=few)
        first = watch(
            trial, coins, make_runtime, samples=samples, kept=kept, parts=parts, title=all_of_them, can_stop=can_stop
        )
        return TrialPair(trial, coins, flipped, first, second)

    @property
    def finished(self) -> Coins:
        """Which canaries count."""
        return self.first.finished

    @property
    def exact(self) -> bool:
        """Whether clients with the same coin in both trainings sent the same: only then was the noise the same."""
        before, after = self.first.watcher.seen, self.second.watcher.seen
        same = repeated_clients(self.trial)[-UNCHANGED:]
        places = [place for place in before if place.client in same]  # none, where they were left out
        return bool(places) and all(place in after and torch.equal(before[place], after[place]) for place in places)

    def guesser(self) -> Guesser:
        """What each canary moves its score by; only the mean of it, where the noise was not the same."""
        changed, scores = (self.coins != self.flipped) & self.finished, self.first.watcher.scores
        differences = np.where(self.coins, 1.0, -1.0)[changed] * (scores - self.second.watcher.scores)[changed]
        if not len(differences):
            return Guesser(np.zeros(1))
        noise = scores[~self.coins & self.finished]
        return Guesser.of(differences if self.exact else np.full(1, differences.mean()), noise)


def repeated_clients(trial: Trial) -> list[int]:
    """The clients whose work is done twice: as many as fit into memory."""
    if trial.real:
        return list(trial.clients)
    most = max(MOST_FLOATS // 4 // (trial.rounds * trial.prepared.layout.size), 1)
    return list(trial.clients[: min(REPEATED, most)])
