"""L-BFGS for many attacks at once: each has its own history, step length and end; one evaluation serves all.

Every evaluation is of use to every attack: while one searches along its line, the next is already on another.
Attacks that are done leave, so the others don't carry them along.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedveil.attacks.inversion.lbfgs_memory import Memory
from fedveil.attacks.inversion.minimise import UPDATES, Minima, Mismatch, Watch, nobody
from fedveil.core.checks import count, not_negative

SUFFICIENT, CURVATURE = 1e-4, 0.9
"""Constants of the Wolfe conditions: enough descent, and a slope that has become flatter."""

MOST_TRIALS = 15
"""Step lengths tried on one line."""

CROWDED = 0.8
"""Attacks that are done are removed when fewer than this share are still at work: removing copies the histories."""


@dataclass(frozen=True)
class Lbfgs:
    """Limited-memory BFGS with a line search for the Wolfe conditions.

    An attack ends when its value falls to `goal`, when it stops falling, or after the iterations it is given.
    """

    kind: ClassVar[str] = "l-bfgs"
    history: int = 50
    goal: float = 1e-10

    def __post_init__(self) -> None:
        count("history", self.history)
        not_negative("goal", self.goal)

    def minimise(self, objective: Mismatch, start: Tensor, iterations: int, watch: Watch = nobody) -> Minima:
        """From `start` `[A, n]`, at most `iterations` times 20 updates each."""
        everyone = torch.arange(len(start))
        values, slopes = objective(start, everyone)
        watch(everyone, torch.zeros_like(everyone), start)
        ended = _Ended(start.clone(), values.clone(), torch.zeros_like(everyone))
        at_work = _Attacks(self.history, start, values, slopes)
        evaluations = len(start)
        while len(at_work.members):
            trials, trial_slopes = objective(at_work.trial, at_work.members)
            evaluations += len(at_work.members)
            moved = at_work.advance(trials, trial_slopes)
            if moved.any():
                watch(at_work.members[moved], at_work.updates[moved], at_work.points[moved])
            done = at_work.stuck | (at_work.values <= self.goal) | (at_work.updates >= iterations * UPDATES)
            at_work.stuck = done
            working = int((~done).sum())
            if working < CROWDED * len(done) or working == 0:
                ended.take(at_work, done)
                at_work.keep(~done)
        return Minima(ended.points, ended.values, ended.updates, evaluations)


@dataclass
class _Ended:
    points: Tensor
    values: Tensor
    updates: Tensor

    def take(self, attacks: _Attacks, done: Tensor) -> None:
        members = attacks.members[done]
        self.points[members] = attacks.points[done]
        self.values[members] = attacks.values[done]
        self.updates[members] = attacks.updates[done]


class _Attacks:
    """The state of the attacks at work: V points, the lines they search, and what they remember."""

    def __init__(self, history: int, points: Tensor, values: Tensor, slopes: Tensor) -> None:
        attacks, size = points.shape
        self.members = torch.arange(attacks)
        self.updates = torch.zeros(attacks, dtype=torch.int64)
        self.points, self.values, self.slopes = points.clone(), values, slopes
        self._memory = Memory.empty(attacks, history, size)
        self._retried = torch.zeros(attacks, dtype=torch.bool)
        self._quiet = torch.zeros(attacks, dtype=torch.int64)  # updates in a row that hardly fell
        length = slopes.norm(dim=1, keepdim=True)
        self._direction = -slopes / length.clamp_min(1e-30)
        self._grade = -length.squeeze(1)  # slope along the line at its beginning
        self._low, self._high = torch.zeros(attacks), torch.full((attacks,), float("inf"))
        self._length, self._trials = torch.ones(attacks), torch.zeros(attacks, dtype=torch.int64)
        self.stuck = ~torch.isfinite(values) | (self._grade == 0)

    @property
    def trial(self) -> Tensor:
        return torch.addcmul(self.points, self._direction, self._length[:, None])

    def keep(self, staying: Tensor) -> None:
        """Only these go on."""
        for name, value in list(vars(self).items()):
            if isinstance(value, Tensor):
                setattr(self, name, value[staying])
        self._memory = self._memory.keep(staying)

    def advance(self, trials: Tensor, slopes: Tensor) -> Tensor:
        """Take in the objective at every trial point; returns which attacks made an update."""
        sound = torch.isfinite(trials) & torch.isfinite(slopes).all(dim=1)
        falls = sound & (trials <= self.values + SUFFICIENT * self._length * self._grade)
        flat = (slopes * self._direction).sum(dim=1) >= CURVATURE * self._grade
        self._trials += 1
        tired = self._trials >= MOST_TRIALS
        moved: Tensor = ~self.stuck & falls & (flat | tired)
        lost = ~self.stuck & ~falls & tired
        self._search(falls)
        if moved.any():
            self._move(moved, trials, slopes)
        self._recover(lost)
        renewed = moved | lost
        if renewed.any():
            self._new_lines(renewed)
        return moved

    def _search(self, falls: Tensor) -> None:
        """Narrow the bracket of each line: shorter after a rise, longer while it still falls steeply."""
        self._high = torch.where(falls, self._high, self._length)
        self._low = torch.where(falls, self._length, self._low)
        # A first bad step is often far off: go down fast until something falls.
        middle = torch.where(self._low > 0, (self._low + self._high) / 2, self._high / 4)
        self._length = torch.where(torch.isfinite(self._high), middle, 2 * self._low)

    def _move(self, moved: Tensor, trials: Tensor, slopes: Tensor) -> None:
        """Make the update of the `moved`: go there, remember the pair (s, y) where its curvature is positive."""
        # `_search` has already set the next length: the accepted one is what it put into the bracket.
        step = self._direction * self._low[:, None]
        change = slopes - self.slopes
        curvature = (step * change).sum(dim=1)
        sizes = step.square().sum(dim=1) * change.square().sum(dim=1)
        curved = moved & (curvature > 1e-7 * sizes.sqrt())
        fall = self.values - trials
        self._quiet = torch.where(fall > 1e-6 * self.values.abs(), 0, self._quiet + 1).where(moved, self._quiet)
        self.points = torch.where(moved[:, None], self.points + step, self.points)
        self.values = torch.where(moved, trials, self.values)
        self.slopes = torch.where(moved[:, None], slopes, self.slopes)
        self.updates += moved
        self.stuck = self.stuck | (moved & (self._quiet >= 5))
        self._retried &= ~moved
        self._memory.remember(curved, step, change, curvature, self.slopes)

    def _recover(self, lost: Tensor) -> None:
        """A line without descent: forget the history once, then give up."""
        self.stuck = self.stuck | (lost & self._retried)
        self._retried = self._retried | lost
        self._memory.forget(lost)

    def _new_lines(self, renewed: Tensor) -> None:
        direction = self._memory.descent(self.slopes)
        grade = (direction * self.slopes).sum(dim=1)
        length = self.slopes.norm(dim=1)
        poor = ~torch.isfinite(grade) | (grade >= 0) | (self._memory.written == 0)
        steepest = -self.slopes / length.clamp_min(1e-30)[:, None]
        # Without memory the length of a step is unknown: as far as the last line went, more carefully after a loss.
        direction = torch.where(poor[:, None], steepest, direction)
        grade = torch.where(poor, -length, grade)
        first = torch.where(poor & self._retried, 1e-2, 1.0)
        self._direction = torch.where(renewed[:, None], direction, self._direction)
        self._grade = torch.where(renewed, grade, self._grade)
        self._length = torch.where(renewed, first, self._length)
        self._low = torch.where(renewed, 0.0, self._low)
        self._high = torch.where(renewed, float("inf"), self._high)
        self._trials = torch.where(renewed, 0, self._trials)
        self.stuck = self.stuck | (renewed & (length == 0))
