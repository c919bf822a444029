"""Gradient inversion: an attack is a small composition, and one function carries it out for many victims at once.

Steps of the attack (Wei et al., 2021, §III): seed, dummy gradient by the client's own functions, distance to what was
stolen, optimiser. The adversary uses what its view shows and public facts, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Event, Lock

import torch
from torch import Tensor

from fedveil.attacks.inversion.adam import AdamDescent
from fedveil.attacks.inversion.distances import Cosine, Distance, SquaredL2, Target
from fedveil.attacks.inversion.labels import Analytic, Joint, Known, Label, recovered
from fedveil.attacks.inversion.lbfgs import Lbfgs
from fedveil.attacks.inversion.minimise import UPDATES, Forgetful, Group, Keeper, Minima, Mismatch, Watch, nobody
from fedveil.attacks.inversion.regularisers import NoRegulariser, Regulariser, SquaredNorm, TotalVariation
from fedveil.attacks.inversion.seeds import Normal, Patterned, Seed, Uniform
from fedveil.attacks.inversion.simulate import predicted
from fedveil.attacks.inversion.victims import Stolen
from fedveil.core.checks import not_negative
from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.types import View

Minimiser = Lbfgs | AdamDescent

EXAMPLES_AT_A_TIME = 50
"""Dummy records of victims that are attacked side by side: enough to keep a core busy, few enough for its caches."""

LEAST_GROUPS = 2
"""Few victims make two groups, for two workers. How many workers there are does not count: no bit depends on it."""

MATCHED = 1e-4
"""A relative distance below which the adversary takes its reconstruction for right, and above which it tries again."""

WITHHELD_SHARE = 0.02
"""With more exact zeros than this, an update was sent in part: what was withheld is not matched."""

PIXEL_DEVIATION = 0.35
"""How far pixels lie from grey, as an informed adversary takes it; tabular features are standardised."""


@dataclass(frozen=True, kw_only=True)
class Inversion:
    """seed × distance × regulariser × optimiser × label.

    `restarts`: so many times the adversary tries again, with new seeds, where a gradient was not matched.
    `informed`: it knows σ and weighs its prior belief against the noise (maximum a posteriori).
    `polish`: it goes on without the regulariser from where that has led, with as many iterations again.
    """

    seed: Seed = field(default_factory=Patterned)
    distance: Distance = field(default_factory=SquaredL2)
    regulariser: Regulariser = field(default_factory=NoRegulariser)
    optimiser: Minimiser = field(default_factory=Lbfgs)
    label: Label = field(default_factory=Analytic)
    restarts: int = 0
    informed: bool = False
    polish: bool = False

    def __post_init__(self) -> None:
        not_negative("restarts", self.restarts)


PRESETS: dict[str, Inversion] = {
    # Zhu et al. 2019: normal seed, records and soft labels together.
    "dlg": Inversion(seed=Normal(), optimiser=Lbfgs(history=100), label=Joint()),
    # Zhao et al. 2020: the label is read off first.
    "idlg": Inversion(seed=Uniform(), optimiser=Lbfgs(history=100)),
    # Wei et al. 2020 and 2021: a patterned seed.
    "cpl": Inversion(optimiser=Lbfgs(history=100)),
    # Geiping et al. 2020: only the direction, smooth pictures, signed Adam.
    "inverting-gradients": Inversion(
        seed=Normal(), distance=Cosine(), regulariser=TotalVariation(1e-4), optimiser=AdamDescent(rate=0.1)
    ),
    # cpl with every layer counted alike, and another try where the gradient was not matched.
    "balanced": Inversion(distance=SquaredL2(by="layer"), restarts=2),
    # For batches of photographs: what the update leaves open is filled with smooth pictures.
    "smooth": Inversion(distance=SquaredL2(by="layer"), regulariser=TotalVariation(1e-2)),
    # For noisy gradients of known σ.
    "informed": Inversion(informed=True),
}


@dataclass(frozen=True)
class Reconstruction:
    """What the adversary ends with, victim by victim."""

    inputs: Tensor  # [V, n, *shape]
    labels: Tensor  # [V, n]
    distances: Tensor  # [V] to what was stolen, as the attack measures it
    iterations: Tensor  # [V]
    seeds: Tensor  # [V, n, *shape]


def invert(
    attack: Inversion,
    stolen: Stolen,
    iterations: int,
    generator: torch.Generator,
    *,
    watch: Watch = nobody,
    told: Tensor | None = None,
    workers: int = 1,
    keeper: Keeper | None = None,
) -> Reconstruction:
    """Reconstruct every victim's records. `told` are the true labels, for an attack that is given them (`Known`).

    `watch` sees the records as they develop, `[V, n, *shape]`; it must not pass anything to the attack. The `keeper` is
    given every group of victims that is done, and asked for it before it is attacked.
    """
    if iterations < 1:
        raise ArgumentError("iterations", f"must be at least 1, not {iterations}")
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        crew = _Crew(pool, watch, keeper or Forgetful())
        problem = _Problem(attack, stolen, told)
        everyone = torch.arange(len(stolen.observations))
        seeds = problem.seeds(generator, len(everyone))
        made = torch.zeros(len(everyone), dtype=torch.int64)
        first = crew.run("try 1", attack, problem, seeds, everyone, iterations, made)
        points, values, made = first.points, first.values, first.iterations
        for number in range(2, 2 + (attack.restarts if stolen.noise_std == 0 else 0)):
            again = (~(values <= MATCHED)).nonzero().squeeze(1)
            if not len(again):
                break
            fresh = problem.seeds(generator, len(again))
            tried = crew.run(f"try {number}", attack, problem, fresh, again, iterations, made[again])
            made[again] += tried.iterations
            better = ~(tried.values >= values[again])
            points[again[better]], values[again[better]] = tried.points[better], tried.values[better]
            seeds[again[better]] = fresh[better]
        if attack.polish:
            plain = _Problem(replace(attack, regulariser=NoRegulariser()), stolen, told)
            polished = crew.run("polish", attack, plain, points, everyone, iterations, made)
            points, values, made = polished.points, polished.values, made + polished.iterations
    inputs, labels = problem.records(points, everyone)
    return Reconstruction(
        inputs=problem.within_range(inputs),
        labels=labels if labels.ndim == 2 else labels.argmax(dim=-1),
        distances=values,
        iterations=made,
        seeds=problem.records(seeds, everyone)[0],
    )


@dataclass(frozen=True)
class _Crew:
    """The threads that attack, the watch that sees every step, and the keeper of finished groups."""

    pool: ThreadPoolExecutor
    watch: Watch
    keeper: Keeper

    def run(
        self,
        name: str,
        attack: Inversion,
        problem: _Problem,
        seeds: Tensor,
        members: Tensor,
        iterations: int,
        made: Tensor,
    ) -> Minima:
        """Attack the victims `members` from these seeds, in groups side by side; each worker has one group at a time.

        `made` are the iterations that earlier tries made for each victim; the watch counts on from there.
        A thread can't be interrupted: where the waiting ends early (Ctrl-C), the workers stop at their next evaluation.
        """
        at_a_time = min(EXAMPLES_AT_A_TIME // problem.records_each, math.ceil(len(members) / LEAST_GROUPS))
        size, alone, given_up = max(at_a_time, 1), Lock(), Event()

        def group(first: int) -> Minima:
            victims, before = members[first : first + size], made[first : first + size]

            def seen(rows: Tensor, updates: Tensor, points: Tensor) -> None:
                shown = problem.within_range(problem.records(points, victims[rows])[0])
                with alone:
                    self.watch(victims[rows], updates + UPDATES * before[rows], shown)

            def objective(points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
                if given_up.is_set():
                    raise CancelledError
                return evaluate(points, rows)

            mine = Group(name, first, len(members))
            with alone:
                kept = self.keeper.found(mine)
            if kept is not None:
                return kept
            evaluate, looking = problem.of(victims), nobody if self.watch is nobody else seen
            minima = attack.optimiser.minimise(objective, seeds[first : first + size], iterations, looking)
            with alone:  # nobody looks while what they have seen is kept
                self.keeper.keep(mine, minima)
            return minima

        try:
            return Minima.join(list(self.pool.map(group, range(0, len(members), size))))
        finally:
            given_up.set()


class _Problem:
    """The distance to what was stolen as a function of flat points: records and, where unknown, label scores."""

    def __init__(self, attack: Inversion, stolen: Stolen, told: Tensor | None) -> None:
        self._attack, self._stolen = attack, stolen
        facts = stolen.facts
        self._shape = (facts.records, *facts.input_shape)
        tensors = stolen.tensors
        if not torch.isfinite(tensors).all():
            raise ArgumentError("view", "what was stolen is not finite; the victims' training diverged")
        if not tensors.any():
            raise ArgumentError("view", "what was stolen is zero everywhere: the model has no usable gradient")
        shared = tensors != 0
        partial = stolen.view is not View.ON_DEVICE and 1 - float(shared.float().mean()) > WITHHELD_SHARE
        self._target = Target.of(tensors, facts.gradients.layout.group_slices, shared if partial else None)
        self._labels = self._known_labels(told)
        self._regularise = self._prior()

    def _known_labels(self, told: Tensor | None) -> Tensor | None:
        match self._attack.label:
            case Analytic():
                return None if self._stolen.facts.objective.of_numbers else recovered(self._stolen)
            case Known():
                if told is None:
                    raise FedveilError("label: this attack must be told the labels")
                return told[:, : self._shape[0]]
            case Joint():
                return None

    def _prior(self) -> Callable[[Tensor], Tensor]:
        """The regulariser; for an informed adversary also its belief, weighed by the noise: −log posterior, scaled."""
        attack, stolen = self._attack, self._stolen
        if not attack.informed or stolen.noise_std == 0:
            return attack.regulariser.of
        centre, deviation = (0.5, PIXEL_DEVIATION) if stolen.facts.pictures else (0.0, 1.0)
        scale = float(attack.distance.scales(self._target).amax(dim=1).mean())  # of squared errors: 1/‖stolen‖²
        size = float(torch.tensor(self._shape).prod())
        belief = SquaredNorm(weight=(stolen.noise_std / deviation) ** 2 * scale * size, centre=centre)
        return lambda inputs: attack.regulariser.of(inputs) + belief.of(inputs)

    @property
    def records_each(self) -> int:
        """How many records a victim has."""
        return self._shape[0]

    def seeds(self, generator: torch.Generator, attacks: int) -> Tensor:
        """Flat starting points `[attacks, n]`."""
        drawn = self._attack.seed.draw(attacks * self._shape[0], self._shape[1:], generator).view(attacks, -1)
        if self._labels is not None:
            return drawn
        scores = torch.randn(attacks, self._shape[0] * self._stolen.facts.outputs, generator=generator)
        return torch.cat([drawn, scores], dim=1)

    def records(self, points: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        """Records `[V, n, *shape]` and labels, of flat points: classes, distributions over them, or numbers."""
        size = int(torch.tensor(self._shape).prod())
        inputs = points[:, :size].view(-1, *self._shape)
        if self._labels is not None:
            return inputs, self._labels[members]
        scores = points[:, size:].view(len(points), self._shape[0], -1)
        if self._stolen.facts.objective.of_numbers:
            return inputs, torch.tanh(scores.squeeze(-1))  # a number is known to lie in [−1, 1]
        return inputs, torch.softmax(scores, dim=-1)

    def within_range(self, inputs: Tensor) -> Tensor:
        """Pixels are known to lie in [0, 1]."""
        return inputs.clamp(0, 1) if self._stolen.facts.pictures else inputs

    def of(self, victims: Tensor) -> Mismatch:
        """The objective for these victims; row r of it is `victims[r]`."""
        held: tuple[Tensor, Target] | None = None

        def objective(points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            nonlocal held
            if held is None or held[0] is not rows:  # it changes only when attacks leave
                held = rows, self._target.rows(victims[rows])
            return self._evaluate(points, victims[rows], held[1])

        return objective

    def _evaluate(self, points: Tensor, members: Tensor, target: Target) -> tuple[Tensor, Tensor]:
        leaf = points.detach().requires_grad_(True)
        inputs, labels = self.records(leaf, members)
        guess = predicted(self._stolen.facts, self._stolen.view, self._stolen.start, inputs, labels)
        values = self._attack.distance.between(guess, target) + self._regularise(inputs)
        if not values.requires_grad:
            raise FedveilError("model: its gradient does not depend on the records, so there is nothing to match")
        (slopes,) = torch.autograd.grad(values.sum(), leaf)
        return values.detach(), slopes
