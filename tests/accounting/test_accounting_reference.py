"""Random settings of every kind of rule, against an accountant that shares no code with the product's.

The pairs are written down here from the rules themselves. What is certified must not be below what they give (but for
the reference's own error of a few parts in ten thousand), and not more than 2 % above it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from accounts import plan
from reference_accountant import (
    allocated,
    doubled,
    fixed_size,
    gaussian_epsilon_of,
    gaussian_law,
    hidden,
    law_of_pair,
    mixed,
    on_grid,
    power,
    sampled,
    seen,
    spread_of,
    worst_epsilon,
)
from scipy.stats import binom

from fedveil.accounting.compose import Term, certify, composition
from fedveil.accounting.events import Step
from fedveil.core.guarantee import Relation
from fedveil.core.types import Population, Unit, View
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.method import Method
from fedveil.parts.batches import PartitionBatch, PoissonBatch
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.stopping import Stop

RELEASED = View.RELEASED
Checked = tuple[float, float]
"""What is certified, and what the rule's pair gives."""


def on_clients(sigma: float) -> Gaussian:
    return Gaussian(clip=Clip(1.0), sigma=sigma, unit=Unit.CLIENT)


def on_records(sigma: float) -> Gaussian:
    return Gaussian(clip=Clip(1.0), sigma=sigma)


def between(random: Random, low: float, high: float) -> float:
    """Evenly on a logarithmic scale."""
    return math.exp(random.uniform(math.log(low), math.log(high)))


def rate_of(random: Random) -> float:
    """Near 0, near 1, or anywhere."""
    return random.choice((between(random, 1e-3, 0.9), 1 - between(random, 1e-3, 0.1)))


def delta_of(random: Random) -> float:
    return 10 ** random.uniform(-8, -3)


def width(spread: float, count: int, fine: int = 30) -> float:
    return max(min(spread / fine, 0.01), spread * math.sqrt(count) * 30 / 2**22)


def coins(rate: float) -> list[tuple[float, float]]:
    return [(1 - rate, 0.0), (rate, 1.0)]


ABSENT = [(1.0, 0.0)]


def partition_in_fixed_cohorts(random: Random) -> Checked:
    """Rule (b): a round is one Gaussian, and happens with probability m/K."""
    clients, rounds = random.randint(20, 2000), int(between(random, 2, 1000))
    size, noise, delta = random.randint(1, clients // 2), between(random, 0.6, 20), delta_of(random)
    batch, steps = random.randint(1, 20), random.randint(2, 5)
    method = Method(
        example=on_records(noise),
        batch=PartitionBatch(batch),
        local=LocalTraining(steps=steps),
        cohort=FixedSize(size),
        stop=Stop(rounds),
    )
    found = plan(method, Population((batch * steps,) * clients), 1, delta=delta).of(Unit.RECORD, RELEASED)
    share = size / clients
    law = gaussian_law(noise, width(math.sqrt(share) / noise, rounds))
    return found.epsilon, power(seen(law, share), rounds).epsilon(delta)


def sampled_batches_in_fixed_cohorts(random: Random) -> Checked:
    """Rule (b), with L sampled steps in a round; with one step rule (d) as well: the noises of m clients."""
    clients, rounds = random.randint(20, 1000), int(between(random, 2, 300))
    size, noise, delta = random.randint(2, clients - 1), between(random, 0.5, 6), delta_of(random)
    records, steps = random.randint(20, 800), random.choice((1, random.randint(2, 30)))
    batch = random.randint(1, max(1, records // 4))
    method = Method(
        example=on_records(noise),
        batch=PoissonBatch(batch),
        local=LocalTraining(steps=steps),
        cohort=FixedSize(size),
        stop=Stop(rounds),
    )
    found = plan(method, Population((records,) * clients), 1, delta=delta).of(Unit.RECORD, RELEASED)
    rate, together = batch / records, noise * (math.sqrt(size) if steps == 1 else 1.0)
    spread = max(spread_of(coins(rate), ABSENT, together), 1e-6)
    laws = sampled(together, rate, width(spread, steps * rounds))
    return found.epsilon, max(power(seen(power(law, steps), size / clients), rounds).epsilon(delta) for law in laws)


def server_noise_for_a_record(random: Random) -> Checked:
    """Rule (c), exactly: opposite records of a client that a hidden coin brings in."""
    rate, rounds = rate_of(random), int(between(random, 1, 2000))
    noise, delta = between(random, 0.3, 8), delta_of(random)
    method = Method(server=on_clients(noise), cohort=PoissonCohort(rate), stop=Stop(rounds))
    table = plan(method, Population((50,) * 100), 1, delta=delta)
    spread = max(spread_of(coins(rate), [(1 - rate, 0.0), (rate, -1.0)], noise), 1e-5)
    grid = width(spread, rounds)
    client = worst_epsilon(sampled(noise, rate, grid), rounds, delta)
    held = table.of(Unit.CLIENT, RELEASED).epsilon
    assert 0.998 * client - 1e-3 <= held <= 1.02 * client + 1e-3
    return table.of(Unit.RECORD, RELEASED).epsilon, power(hidden(noise, rate, grid), rounds).epsilon(delta)


def server_noise_in_fixed_cohorts(random: Random) -> Checked:
    """A uniform subset, replace-one, z/2."""
    clients, rounds = random.randint(10, 500), int(between(random, 1, 2000))
    size, noise, delta = random.randint(1, clients - 1), between(random, 0.8, 10), delta_of(random)
    method = Method(server=on_clients(noise), cohort=FixedSize(size), stop=Stop(rounds))
    found = plan(method, Population((50,) * clients), 1, delta=delta).of(Unit.CLIENT, RELEASED)
    assert found.relation is Relation.REPLACE_ONE
    rate = size / clients
    law = fixed_size(noise / 2, rate, width(spread_of(coins(rate), ABSENT, noise / 2), rounds))
    return found.epsilon, power(law, rounds).epsilon(delta)


def upload_noise_of_clients_that_send_zero(random: Random) -> Checked:
    """Zero-out: a seen draw, and the noises of n others with the probability of n."""
    clients, rounds, rate = random.randint(5, 200), int(between(random, 1, 500)), rate_of(random)
    noise, delta = between(random, 0.5, 6), delta_of(random)
    method = Method(upload=on_clients(noise), cohort=PoissonCohort(rate), stop=Stop(rounds))
    table = plan(method, Population((50,) * clients), 1, delta=delta)
    grid = width(math.sqrt(rate / (1 + rate * (clients - 1))) / noise, rounds)
    cases = [(float(binom.pmf(n, clients - 1, rate)), n) for n in range(clients)]
    one = mixed(
        [
            (chance, law_of_pair([(1.0, 1.0)], ABSENT, noise * math.sqrt(n + 1), grid, cells=40_000))
            for chance, n in cases
            if chance > 1e-14
        ]
    )
    usual = power(seen(gaussian_law(noise, width(math.sqrt(rate) / noise, rounds)), rate), rounds).epsilon(delta)
    removed = table.of(Unit.CLIENT, RELEASED)
    assert removed.relation is not Relation.ADD_OR_REMOVE or 0.998 * usual <= removed.epsilon <= 1.02 * usual + 1e-3
    found = table.under(Relation.ZERO_OUT, Unit.CLIENT, RELEASED).epsilon
    return found, power(seen(one, rate), rounds).epsilon(delta)


def quorum_of_summed_uploads(random: Random) -> Checked:
    """Everybody is drawn and only so many are sure to answer: their noises count, and no draw does."""
    clients, rounds = random.randint(12, 60), int(between(random, 1, 300))
    quorum, noise, delta = random.randint(5, clients - 1), between(random, 1, 8), delta_of(random)
    method = Method(upload=on_clients(noise), cohort=FixedSize(clients, quorum=quorum), stop=Stop(rounds))
    found = plan(method, Population((50,) * clients), 1, delta=delta).of(Unit.CLIENT, RELEASED)
    return found.epsilon, gaussian_epsilon_of(noise * math.sqrt(quorum) / 2 / math.sqrt(rounds), delta)


def groups(random: Random) -> Checked:
    """A client's few records at once: how many of them a batch holds is binomial."""
    records, count = random.randint(2, 30), int(between(random, 1, 300))
    batch, delta = random.randint(1, max(1, records // 2)), delta_of(random)
    noise = between(random, 1.5, 8) * math.sqrt(batch)
    method = Method(
        example=on_records(noise),
        batch=PoissonBatch(batch),
        local=LocalTraining(steps=count),
        cohort=Everyone(),
        stop=Stop(1),
    )
    found = plan(method, Population((records,) * 3), 1, delta=delta).of(Unit.CLIENT, View.SERVER)
    slots = min(records, max(method.declare(0, records, 1, 3)[0].sampling.cap, batch))
    chances = [float(binom.pmf(k, records, batch / records)) for k in range(slots)]
    present = [(chance, float(k)) for k, chance in enumerate([*chances, 1 - sum(chances)]) if chance > 0]
    grid = width(max(spread_of(present, ABSENT, noise), spread_of(ABSENT, present, noise)), count)
    laws = law_of_pair(present, ABSENT, noise, grid), law_of_pair(ABSENT, present, noise, grid)
    return found.epsilon, worst_epsilon(laws, count, delta)


def allocation(random: Random) -> Checked:
    """One of L steps, now and then with filled slots; also with little noise."""
    steps, rounds = int(between(random, 2, 150)), int(between(random, 1, 200))
    noise, delta = between(random, 0.9, 9), 10 ** random.uniform(-6, -3)
    overflow = random.choice((0.0, 1e-6, 1e-3))
    parts = composition(Term(((Step("allocated", noise, overflow=overflow, size=steps), rounds),)))
    grid = width(math.sqrt(min(math.expm1(noise**-2) / steps, noise**-2)), rounds)
    laws = allocated(steps, noise, grid)
    if overflow:
        laws = tuple(mixed([(overflow, gaussian_law(noise / 2, grid)), (1 - overflow, law)]) for law in laws)
    return certify(parts, delta).epsilon, worst_epsilon(laws, rounds, delta)


def allocation_at_tiny_deltas(random: Random) -> Checked:
    """δ down to 1e-13; the reference adds up ratios, and then losses, by direct convolution."""
    doublings, again, noise = random.randint(1, 3), random.randint(0, 4), between(random, 2.5, 9)
    steps, delta = 2**doublings, 10 ** random.uniform(-13, -7)
    spread = 1 / noise
    scores = np.linspace(-12, 12, 400_001)
    middles = (scores[1:] + scores[:-1]) / 2
    masses = np.exp(-(middles**2) / 2)
    masses /= masses.sum()
    cell = math.sqrt(math.expm1(spread**2)) / 40
    total = doubled(on_grid(np.exp(spread * middles - spread**2 / 2), masses, cell), doublings)
    ratios = (total.first + np.arange(len(total.masses))) * (cell / steps)
    shown = ratios > 0
    losses, without = np.log(ratios[shown]), total.masses[shown]
    grid = max(spread / math.sqrt(steps) / 30, (losses.max() - losses.min()) / 10_000)
    laws = on_grid(losses, without * ratios[shown], grid), on_grid(-losses, without, grid)
    parts = composition(Term(((Step("allocated", noise, size=steps), 2**again),)))
    return certify(parts, delta).epsilon, max(doubled(law, again).epsilon(delta) for law in laws)


def tiny_deltas(random: Random) -> Checked:
    """δ down to 1e-20, where plain transforms see nothing; the reference convolves directly."""
    kind = random.choice(("poisson", "without-replacement", "hidden-record"))
    noise, rate, doublings = between(random, 0.8, 10), rate_of(random), random.randint(0, 7)
    delta = 10 ** random.uniform(-20, -9)
    parts = composition(Term(((Step(kind, noise, rate), 2**doublings),)))
    lower = [(1 - rate, 0.0), (rate, -1.0)] if kind == "hidden-record" else ABSENT
    spread = max(spread_of(coins(rate), lower, noise), spread_of(lower, coins(rate), noise), 1e-5)
    grid = max(min(spread / 40, 0.01), (14 / noise + noise**-2) / 15_000)
    if kind == "poisson":
        laws = sampled(noise, rate, grid)
    else:
        laws = ((fixed_size if kind == "without-replacement" else hidden)(noise, rate, grid),)
    return certify(parts, delta).epsilon, max(doubled(law, doublings).epsilon(delta) for law in laws)


RULES: tuple[Callable[[Random], Checked], ...] = (
    partition_in_fixed_cohorts,
    sampled_batches_in_fixed_cohorts,
    server_noise_for_a_record,
    server_noise_in_fixed_cohorts,
    upload_noise_of_clients_that_send_zero,
    quorum_of_summed_uploads,
    groups,
    allocation,
    allocation_at_tiny_deltas,
    tiny_deltas,
)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_what_is_certified_is_what_the_rule_gives(rule: Callable[[Random], Checked], seed: int) -> None:
    certified, truth = rule(Random(1000 + seed))
    if truth < 2e-3 or truth > 500:  # nothing to compare, or nothing that means anything
        assert certified >= truth * 0.99 - 1e-4
        return
    assert truth * 0.998 <= certified <= truth * 1.02
