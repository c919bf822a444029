"""From a declaration to the step mechanisms that one unit of data met."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from scipy.special import bdtrc

from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Relation
from fedveil.core.types import Declaration, Sampling

SAME_NOISE = 1e-9
"""Noise multipliers closer than this (relative) are one mechanism; the smaller one is accounted."""

STEP_KINDS = ("gaussian", "poisson", "without-replacement", "hidden-record", "group", "gathered", "allocated")

SMALLEST_OVERFLOW = 1e-9
"""Rarer overflows of a Poisson batch are accounted as this frequent, so that like clients share one computation."""


@dataclass(frozen=True, order=True)
class Step:
    """One noisy sum, as one unit of data meets it.

    - `gaussian`: N(0, z²) on a sum that the unit changes by at most 1 (L2), z = `noise_multiplier`.
    - `poisson`: the same on a sample into which the unit's own coin brings it with probability `rate`. With
      probability `overflow` at most, the other records fill the batch's slots, and the unit, if it comes in, pushes
      one of them out: a change of at most 2.
    - `without-replacement`: the same on a uniform subset of fixed size, a share `rate` of all; replace-one.
    - `hidden-record`: one record of a client that a hidden coin brings in with probability `rate`, under noise on the
      sum of whole clients; z is relative to the whole client's S (`discrete.hidden_record`).
    - `group`: all of a client's `size` records at once, each in the sum by its own coin of probability `rate`, at most
      `slots` of them.
    - `gathered`: a `gaussian` under the noises of the others as well: each of `size` others adds one of the same size
      with probability `rate`, and how many did may be seen.
    - `allocated`: the unit is in one of `size` noisy sums, chosen uniformly. With probability `overflow` at most, other
      records fill the slots of one of them.

    z is relative to what the relation lets the sum change: S for add-or-remove, 2S for replace-one.
    """

    kind: str
    noise_multiplier: float
    rate: float = 1.0
    overflow: float = 0.0
    size: int = 0
    slots: int = 0

    def __post_init__(self) -> None:
        if self.kind not in STEP_KINDS:
            raise FedveilError(f"accounting: no rule for a mechanism of kind {self.kind!r}")
        if not 0 < self.noise_multiplier < math.inf:
            raise FedveilError(f"noise multiplier: must be a positive number, not {self.noise_multiplier}")
        if not 0 < self.rate <= 1:
            raise FedveilError(f"sampling rate: must be above 0 and at most 1, not {self.rate}")
        if not 0 <= self.overflow <= 1:
            raise FedveilError(f"overflow probability: must lie between 0 and 1, not {self.overflow}")
        if self.size < 0 or (self.kind in ("group", "allocated") and self.size < 1):
            raise FedveilError(f"accounting: {self.kind} of {self.size} cannot be accounted")
        if self.kind == "group" and not 1 <= self.slots <= self.size:
            raise FedveilError(f"accounting: a group of {self.size} in {self.slots} slots cannot be accounted")

    def __str__(self) -> str:
        noise = f"Gaussian(z = {self.noise_multiplier:.4g})"
        if self.kind == "gaussian":
            return noise
        if self.kind == "poisson":
            cut = f", cut with probability ≤ {self.overflow:.2g}" if self.overflow > SMALLEST_OVERFLOW else ""
            return f"Poisson({self.rate:.4g}{cut}) {noise}"
        if self.kind == "hidden-record":
            return f"HiddenRecord({self.rate:.4g}) {noise}"
        if self.kind == "group":
            return f"Group({self.size} records, each Poisson({self.rate:.4g})) {noise}"
        if self.kind == "gathered":
            return f"Gathered(with each of {self.size} others by a coin of {self.rate:.4g}) {noise}"
        if self.kind == "allocated":
            cut = f", cut with probability ≤ {self.overflow:.2g}" if self.overflow > SMALLEST_OVERFLOW else ""
            return f"Allocated(1 of {self.size}{cut}) {noise}"
        return f"WithoutReplacement({self.rate:.4g}) {noise}"

    def covers(self, other: Step) -> bool:
        """Whether this step is at least as revealing as `other`: less noise, sampled and cut at least as often."""
        same = (self.kind, self.size, self.slots) == (other.kind, other.size, other.slots)
        # Gathered noise grows with the rate at which others bring theirs.
        rates = self.rate <= other.rate if self.kind == "gathered" else self.rate >= other.rate
        return same and self.noise_multiplier <= other.noise_multiplier and rates and self.overflow >= other.overflow


Counted = tuple[tuple[Step, int], ...]
"""Steps with how often each was made."""


def relation_of(sampling: Sampling) -> Relation:
    """A fixed-size sample has no place to leave empty, so only an exchange of records can be accounted."""
    return Relation.REPLACE_ONE if sampling.kind == "without-replacement" else Relation.ADD_OR_REMOVE


def sum_steps(declaration: Declaration, factor: float = 1.0) -> Counted:
    """What one round does to a record whose batch *sums* are seen; sensitivity S of the declaration.

    z = sum_std / S. Poisson: L sampled steps at q = B/N. Fixed size without replacement: L sampled steps at z/2.
    Partition: the record is in `uses` of the round's steps and nobody's chance hides in which, so `uses` plain
    Gaussians; the other steps do not depend on it. Allocated: one of the L steps, chosen uniformly by the record alone.
    All records in every step: L plain Gaussians. `factor` is by how much others' noises add to z.
    """
    sampling, noise = declaration.sampling, total_multiplier(declaration) * factor
    _check_counts(declaration)
    rate = sampling.batch / sampling.records
    if not 0 < rate <= 1:
        raise FedveilError(f"{declaration.place}: a batch of {sampling.batch} out of {sampling.records} records")
    if sampling.kind == "poisson" and rate < 1:
        return ((Step("poisson", noise, rate, overflow_probability(sampling)), declaration.steps),)
    if sampling.kind == "without-replacement":
        return ((Step("without-replacement", noise / 2, rate), declaration.steps),)
    if sampling.kind == "allocated":
        overflow = allocation_overflow(sampling, declaration.steps)
        return ((Step("allocated", noise, overflow=overflow, size=declaration.steps), 1),)
    if sampling.kind == "partition":
        return ((Step("gaussian", noise), min(sampling.uses, declaration.steps)),)
    if sampling.kind in ("all", "poisson"):
        return ((Step("gaussian", noise), declaration.steps),)
    raise FedveilError(f"{declaration.place}: no accounting rule for batches drawn by {sampling.kind!r}")


def row_steps(declaration: Declaration) -> Counted:
    """What one round does to a record whose own noisy gradient is seen: a plain Gaussian each time it is used.

    z = row_std / S (2S under replace-one), without sqrt(B) and without amplification: the sample is in plain sight.
    """
    _check_counts(declaration)
    noise = noise_multiplier(declaration.row_std, declaration.sensitivity)
    halved = noise / 2 if relation_of(declaration.sampling) is Relation.REPLACE_ONE else noise
    return ((Step("gaussian", halved), min(declaration.sampling.uses, declaration.steps)),)


def noise_multiplier(standard_deviation: float, sensitivity: float) -> float:
    """z = standard deviation / sensitivity, refusing everything that is not a positive number."""
    if not (0 < standard_deviation < math.inf and 0 < sensitivity < math.inf):
        raise FedveilError(
            f"noise of standard deviation {standard_deviation} for a sensitivity of {sensitivity} cannot be accounted"
        )
    return standard_deviation / sensitivity


def total_multiplier(declaration: Declaration) -> float:
    """z of all that one step releases: the noisy sum and, where there is one, the noisy report of the norms.

    Two Gaussian releases of the same unit are one, with z = (z_1^−2 + z_2^−2)^(−1/2).
    """
    noise = noise_multiplier(declaration.sum_std, declaration.sensitivity)
    if declaration.report is None:
        return noise
    return 1 / math.hypot(1 / noise, 1 / noise_multiplier(declaration.report, 1.0))


def overflow_probability(sampling: Sampling) -> float:
    """At most how likely the *other* N−1 records alone fill the slots, P(Bin(N−1, q) ≥ cap), rounded up.

    Only then does a record's coming change who else is in the batch. The event does not depend on the record, so it
    may be taken as known.
    """
    if sampling.cap >= sampling.records:
        return 0.0
    if sampling.cap < 1:
        raise FedveilError(f"a Poisson batch with {sampling.cap} slots cannot be accounted")
    return _rounded_overflow(sampling, float(bdtrc(sampling.cap - 1, sampling.records - 1, _rate(sampling))))


def allocation_overflow(sampling: Sampling, steps: int) -> float:
    """At most how likely the *other* N−1 records alone fill the slots of any of the L steps of a round, rounded up.

    Each step holds Bin(N−1, 1/L) of them, so L times the tail of one. Where that happens the record pushes another one
    out of its own step: a change of at most 2.
    """
    if sampling.cap >= sampling.records:
        return 0.0
    if sampling.cap < 1:
        raise FedveilError(f"an allocated batch with {sampling.cap} slots cannot be accounted")
    tail = float(bdtrc(sampling.cap - 1, sampling.records - 1, 1 / steps)) if steps > 1 else 1.0
    return _rounded_overflow(sampling, min(1.0, steps * tail))


def _rate(sampling: Sampling) -> float:
    return sampling.batch / sampling.records


def _rounded_overflow(sampling: Sampling, exact: float) -> float:
    if not 0 <= exact <= 1:
        raise FedveilError(f"the overflow probability of {sampling} came out as {exact}")
    raised = exact * (1 + 1e-6)  # room for the rounding of the binomial tail
    if raised <= SMALLEST_OVERFLOW:
        return SMALLEST_OVERFLOW
    unit = 10.0 ** (math.floor(math.log10(raised)) - 1)
    return min(1.0, math.ceil(raised / unit) * unit)


def canonical_noise(steps: Iterable[Step]) -> dict[Step, Step]:
    """Each step with its noise multiplier lowered to the smallest of those that differ from it by rounding only.

    C_t may change from round to round; z does not, but σ·C_t/(C_t·sqrt(M)) does in its last digit.
    """
    canonical: dict[Step, Step] = {}
    last: Step | None = None
    for step in sorted(set(steps), key=lambda step: (*_sampling(step), step.noise_multiplier)):
        if (
            last is None
            or _sampling(step) != _sampling(last)
            or step.noise_multiplier > last.noise_multiplier * (1 + SAME_NOISE)
        ):
            last = step
        canonical[step] = last
    return canonical


def _sampling(step: Step) -> tuple[str, float, float, int, int]:
    return (step.kind, step.rate, step.overflow, step.size, step.slots)


def added_up(counted: Iterable[tuple[Step, int]]) -> Counted:
    """Add up equal steps. Composition does not depend on the order, so the result is sorted."""
    totals: dict[Step, int] = {}
    for step, count in counted:
        if count < 0:
            raise FedveilError(f"a mechanism cannot have run {count} times")
        totals[step] = totals.get(step, 0) + count
    return tuple(sorted((step, count) for step, count in totals.items() if count))


def counted_words(counted: Counted) -> str:
    """ "10,000 × Poisson(0.01) Gaussian(z = 7.746)" """
    return " + ".join(f"{count:,} × {step}" for step, count in counted) or "nothing"


def _check_counts(declaration: Declaration) -> None:
    if declaration.steps < 0 or declaration.sampling.uses < 0 or declaration.sampling.records < 1:
        raise FedveilError(f"{declaration.place}: impossible counts in {declaration}")
