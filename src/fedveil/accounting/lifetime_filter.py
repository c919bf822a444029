"""What a site may let itself be asked over all plans, where later plans are chosen by whoever saw earlier answers.

Composition of loss distributions takes the mechanisms as chosen beforehand. Within a plan they are: the plan is
approved by its hash. Plans are not. So a whole plan is *reserved* when its first answer is paid for, and

- the first plan counts as it is: nothing was seen before it;
- every later one counts as a Gaussian that covers it (`dominating_gaussian`): μ_j, and a share w_j of δ;
- a plan of which more is asked than it says is reserved once more, as if it were a later one.

With F for the first plan and m = Σ μ_j², a reservation is admitted only while H(F ⊗ G_√m)(ε) + Σ w_j ≤ δ.

Why that holds. Say that after some answers the open plans have steps left to give, A for short, and m', w' of the
Gaussian's and δ's budgets are not reserved yet. Claim: whatever is asked from now on, its divergence at any real ε is
at most H(A ⊗ G_√m')(ε) + w'. By induction over what can still happen. (1) Nothing: then it is max(0, 1 − e^ε). (2) An
answer y of an open plan: the divergence is the mean over y of what follows at ε − loss(y), at most that of
H(A without this step ⊗ G_√m')(ε − loss(y)) + w', and the mean of the first is H(A ⊗ G_√m')(ε). (3) A new plan B, with
μ and w: what follows is at most H(A ⊗ B ⊗ G_√(m' − μ²))(ε) + w' − w; B is covered by a Gaussian of μ with probability
1 − w, and two Gaussians are one, so this is at most H(A ⊗ G_√m')(ε) + w + w' − w. Plans may overlap and end early.
(Smith and Thakurta 2022 show it for Gaussians, Feldman and Zrnic 2021 for Rényi divergences.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fedveil.accounting.alone import PlanBounds
from fedveil.accounting.budget import CostSource
from fedveil.accounting.compose import Composition, Term, certified_delta, certify, composition
from fedveil.accounting.context import Budget
from fedveil.accounting.dominating_gaussian import dominating_mean
from fedveil.accounting.events import Step, canonical_noise

COVERING_SHARE = 0.1
"""Of the lifetime's δ: what all shares of later plans come to at most."""


@dataclass(frozen=True)
class PaidAnswer:
    """One answer: of which plan, what the whole of that plan shows, and what this answer does."""

    plan: str
    whole: PlanBounds
    own: PlanBounds


@dataclass(frozen=True)
class Reserved:
    """What is reserved, in its order; None where something was answered that nothing bounds."""

    parts: tuple[Composition, ...] | None

    def fits(self, budget: Budget) -> bool:
        """Whether all of it stays within a budget."""
        if self.parts is None:
            return False
        total, share = self._total(budget.delta)
        return total is not None and certified_delta(total, budget.epsilon) <= budget.delta - share

    def epsilon(self, delta: float) -> float:
        """The smallest ε of a budget at δ that would have admitted it; ∞ where none would."""
        if self.parts is None:
            return math.inf
        total, share = self._total(delta)
        return math.inf if total is None else certify(total, delta - share).epsilon

    def _total(self, delta: float) -> tuple[Composition | None, float]:
        """The first plan with the Gaussian that covers all later ones, and the share of δ that is set aside."""
        assert self.parts is not None
        if len(self.parts) < 2:
            return (self.parts[0] if self.parts else ()), 0.0
        aside = COVERING_SHARE * delta
        means = [dominating_mean(parts, aside / (j * (j + 1))) for j, parts in enumerate(self.parts[1:], start=1)]
        mean = math.hypot(*means)
        if not math.isfinite(mean):
            return None, aside
        covering = [Term(((Step("gaussian", 1 / mean), 1),))] if mean > 0 else []
        return composition(*self.parts[0], *covering), aside


def reserved(answers: Sequence[PaidAnswer], delta: float) -> Reserved:
    """What these answers, in their order, have reserved.

    A plan's source (the place whose noise bounds the view, and a relation) is chosen when it begins, from the whole
    plan. The relation is that of the first plan for ever: a bound under another one would not add up.
    """
    reservations: list[Composition] = []
    sources: dict[str, CostSource] = {}
    steps: dict[str, Counter[Step]] = {}
    copies: Counter[str] = Counter()
    relation = None
    for answer in answers:
        if answer.plan not in sources:
            source = answer.whole.best_source(delta, relation)
            if source is None:
                return Reserved(None)
            sources[answer.plan] = source
            relation = source[1] if relation is None else relation
        source = sources[answer.plan]
        own, whole = answer.own.by_source(source), answer.whole.by_source(source)
        if own is None or whole is None:
            return Reserved(None)
        counted = steps.setdefault(answer.plan, Counter())
        counted.update(_steps(own))
        needed = copies_needed(whole, counted)
        if needed is None:
            return Reserved(None)
        reservations += [whole] * (needed - copies[answer.plan])
        copies[answer.plan] = max(needed, copies[answer.plan])
    return Reserved(tuple(reservations))


def copies_needed(whole: Composition, answered: Counter[Step]) -> int | None:
    """How many times a plan holds all that was answered; None where it never does."""
    planned = _steps(whole)
    same = canonical_noise([*planned, *answered])
    limits, asked = Counter[Step](), Counter[Step]()
    for step, count in planned.items():
        limits[same[step]] += count
    for step, count in answered.items():
        asked[same[step]] += count
    if any(count and not limits[step] for step, count in asked.items()):
        return None
    return max([1, *(math.ceil(count / limits[step]) for step, count in asked.items() if count)])


def _steps(parts: Composition) -> Counter[Step]:
    """A site's steps are all made for sure: it counts on no draw."""
    counted: Counter[Step] = Counter()
    for term in parts:
        assert term.chance == 1
        assert not term.law
        for step, count in term.steps:
            counted[step] += term.times * count
    return counted


def plan_counts_as(whole: PlanBounds, answers: Sequence[PlanBounds], budget: Budget) -> Composition | None:
    """One plan against its own budget: whole, and more where more was asked than it says; None where nothing bounds it.

    How often is asked may depend on answers. Repetitions of one kind of step only ever grow, as do whole copies of a
    plan; so the largest that is admitted was fixed beforehand, and its composition holds.
    """
    source = whole.best_source(budget.delta)
    parts = None if source is None else whole.by_source(source)
    if source is None or parts is None:
        return None
    counted: Counter[Step] = Counter()
    for answer in answers:
        own = answer.by_source(source)
        if own is None:
            return None
        counted.update(_steps(own))
    planned = _steps(parts)
    needed = copies_needed(parts, counted)
    if needed is None or needed == 1:
        return None if needed is None else parts
    if len(planned) == 1:
        step = next(iter(planned))
        return composition(Term(((step, sum(counted.values())),)))
    return composition(*(Term(term.steps, term.chance, term.times * needed) for term in parts))
