"""Each rule for draws, sums and groups against quadrature, simulation or brute force, which it may never fall below."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from accounts import plan, replay, texts
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from fedveil.accounting.compose import Composition, Term, certified_delta, certify, composition
from fedveil.accounting.drawn_rounds import law_of_coins, law_of_fixed_size
from fedveil.accounting.events import Step
from fedveil.accounting.gaussian_privacy import gaussian_delta
from fedveil.accounting.pld import drawn_of_group, gathered_noises
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import CaveatKind, Guarantee, Relation
from fedveil.core.types import Charge, Population, Unit, View
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.method import Method
from fedveil.parts.aggregation import Aggregation
from fedveil.parts.batches import BatchSampler, FullBatch, PartitionBatch, PoissonBatch, WithoutReplacement
from fedveil.parts.cohorts import Cohort, Everyone, FixedSize, PoissonCohort
from fedveil.parts.compression import Share
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import Adam, Momentum
from fedveil.parts.personal import Interpolated
from fedveil.parts.stopping import Stop

Values = npt.NDArray[np.float64]
few = settings(max_examples=12, deadline=None)


def step(kind: str, noise: float, rate: float = 1.0, count: int = 1, size: int = 0, slots: int = 0) -> Composition:
    return composition(Term(((Step(kind, noise, rate, 0.0, size, slots), count),)))


def on_clients(sigma: float) -> Gaussian:
    return Gaussian(clip=Clip(1.0), sigma=sigma, unit=Unit.CLIENT)


def on_records(sigma: float) -> Gaussian:
    return Gaussian(clip=Clip(1.0), sigma=sigma)


# One record of a client that a hidden coin brings in.

PLANE: Values = np.stack(np.meshgrid(np.linspace(-9, 9, 361), np.linspace(-9, 9, 361)), axis=-1)


def density(mean: tuple[float, float], noise: float) -> Values:
    distance = ((PLANE - np.array(mean)) ** 2).sum(axis=-1)
    return np.asarray(np.exp(-distance / (2 * noise**2)) / (2 * math.pi * noise**2))


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0, 2 * math.pi),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0.5, 1.6),
    st.floats(0.02, 0.98),
    st.floats(0, 3),
)
def test_no_two_records_in_the_plane_are_told_apart_better_than_opposite_ones(
    angle: float, length: float, other: float, noise: float, rate: float, epsilon: float
) -> None:
    """Brute force over directions and lengths of both contributions, by quadrature in two dimensions."""
    absent = density((0.0, 0.0), noise)
    present = density((length, 0.0), noise)
    exchanged = density((other * math.cos(angle), other * math.sin(angle)), noise)
    first, second = (1 - rate) * absent + rate * present, (1 - rate) * absent + rate * exchanged
    cell = 0.05**2
    attained = max(
        float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * cell) for p, q in ((first, second), (second, first))
    )
    assert attained <= certified_delta(step("hidden-record", noise, rate), epsilon) + 1e-6


@pytest.mark.parametrize(("noise", "rate"), [(0.77, 0.031), (1.0, 0.1), (2.0, 0.5), (1.0, 1.0)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
def test_opposite_records_attain_what_is_certified(noise: float, rate: float, epsilon: float) -> None:
    x: Values = np.linspace(-15, 15, 200_001)
    p = (1 - rate) * norm.pdf(x, 0, noise) + rate * norm.pdf(x, 1, noise)
    q = (1 - rate) * norm.pdf(x, 0, noise) + rate * norm.pdf(x, -1, noise)
    true = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (x[1] - x[0]))
    found = certified_delta(step("hidden-record", noise, rate), epsilon)
    assert true - 1e-9 <= found <= true * 1.002 + 1e-9
    if rate == 1:
        assert found == pytest.approx(gaussian_delta(noise / 2, epsilon), rel=2e-3, abs=1e-9)


@pytest.mark.parametrize(
    ("noise", "rate", "count", "delta", "most"), [(0.77, 0.031, 211, 1e-6, 16.5), (1.0, 0.1, 100, 1e-5, 17.6)]
)
def test_a_hidden_record_stays_below_two_bounds_and_above_what_removing_its_client_costs(
    noise: float, rate: float, count: int, delta: float, most: float
) -> None:
    """At most the convexity bound p·[(1−β)·H_α(z) + β·H_α(z/2)], composed; at least the client's removal."""
    found = certify(step("hidden-record", noise, rate, count), delta).epsilon
    assert certify(step("poisson", noise, rate, count), delta).epsilon <= found <= most
    for epsilon in (0.0, 0.5, 2.0, 4.0):
        inside = math.log1p(math.expm1(epsilon) / rate)
        share = math.exp(epsilon - inside)
        bound = rate * ((1 - share) * gaussian_delta(noise, inside) + share * gaussian_delta(noise / 2, inside))
        assert certified_delta(step("hidden-record", noise, rate), epsilon) <= bound * 1.002 + 1e-9


def test_composed_hidden_records_against_simulation() -> None:
    noise, rate, count, epsilon = 1.0, 0.3, 5, 1.0
    generator = np.random.default_rng(3)
    x = noise * generator.normal(size=(400_000, count)) + (generator.random((400_000, count)) < rate)
    up, down = (np.log1p(rate * np.expm1((sign * 2 * x - 1) / (2 * noise**2))) for sign in (1, -1))
    values = np.maximum(-np.expm1(epsilon - (up - down).sum(axis=1)), 0.0)
    true, error = float(values.mean()), float(values.std() / math.sqrt(len(values)))
    found = certified_delta(step("hidden-record", noise, rate, count), epsilon)
    assert true - 4 * error <= found <= true + 4 * error + 0.002


# Groups of records, and noises of others.


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
@pytest.mark.parametrize(("records", "slots"), [(2, 2), (3, 2), (5, 5)])
def test_a_group_is_the_mixture_of_how_many_of_it_are_in_a_batch(records: int, slots: int, epsilon: float) -> None:
    noise, rate = 1.3, 1 / records
    x: Values = np.linspace(-20, 25, 200_001)
    weights = [float(binom.pmf(k, records, rate)) for k in range(slots)]
    weights.append(1 - sum(weights))
    assert drawn_of_group(Step("group", noise, rate, size=records, slots=slots)) == pytest.approx(weights, abs=1e-9)
    p, q = sum(w * norm.pdf(x, k, noise) for k, w in enumerate(weights)), norm.pdf(x, 0, noise)
    true = max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() * (x[1] - x[0])) for a, b in ((p, q), (q, p)))
    found = certified_delta(step("group", noise, rate, size=records, slots=slots), epsilon)
    assert true - 1e-9 <= found <= true * 1.002 + 1e-9


@pytest.mark.parametrize(("records", "holds"), [(2, 17.486), (3, 17.899), (5, 18.279)])
def test_a_client_of_few_records_is_counted_by_how_many_a_batch_holds(records: int, holds: float) -> None:
    method = Method(
        example=on_records(3.0), batch=PoissonBatch(1), local=LocalTraining(steps=80), cohort=Everyone(), stop=Stop(1)
    )
    found = plan(method, Population((records,) * 3), 1, delta=1e-5).of(Unit.CLIENT, View.SERVER)
    assert found.epsilon == pytest.approx(holds, rel=1e-3)
    assert found.caveat(CaveatKind.GROUP) is not None


@few
@given(st.floats(1.0, 6.0), st.integers(2, 12), st.integers(1, 40))
def test_a_group_costs_more_with_more_records_and_steps_and_less_noise(noise: float, size: int, count: int) -> None:
    def epsilon(noise: float, size: int, count: int) -> float:
        return certify(step("group", noise, 0.2, count, size=size, slots=size), 1e-5).epsilon

    base = epsilon(noise, size, count)
    assert base <= epsilon(noise, size + 1, count) * 1.002 + 1e-4
    assert base <= epsilon(noise, size, count + 3) * 1.002 + 1e-4
    assert epsilon(noise * 1.2, size, count) <= base * 1.002 + 1e-4
    assert base >= certify(step("poisson", noise, 0.2, count), 1e-5).epsilon * 0.998 - 1e-4


@pytest.mark.parametrize("epsilon", [0.05, 0.2, 0.5])
def test_gathered_noise_is_the_mean_over_how_many_others_were_drawn(epsilon: float) -> None:
    noise, rate, others = 1.4, 0.1, 40
    one = Step("gathered", noise, rate, size=others)
    weights = binom.pmf(np.arange(others + 1), others, rate)
    true = sum(w * gaussian_delta(noise * math.sqrt(n + 1), epsilon) for n, w in enumerate(weights))
    found = certified_delta(composition(Term(((one, 1),))), epsilon)
    assert true - 1e-9 <= found <= true * 1.002 + 1e-9
    assert sum(weight for weight, _ in gathered_noises(one)) == pytest.approx(1.0, abs=1e-9)
    crowd = Step("gathered", noise, rate, size=20_000)  # neighbouring numbers count as the smallest of them
    grouped = sum(weight / z**2 for weight, z in gathered_noises(crowd))
    exact = sum(w / (noise**2 * (n + 1)) for n, w in enumerate(binom.pmf(np.arange(20_001), 20_000, rate)))
    assert exact <= grouped <= exact * 1.01


# How often a client is drawn.


@few
@given(st.integers(1, 60), st.floats(0.01, 0.99), st.integers(1, 20))
def test_the_law_of_coins_is_a_stopped_binomial(times: int, rate: float, most: int) -> None:
    law = law_of_coins(times, rate, most)
    assert sum(law) == pytest.approx(1.0, abs=1e-9)
    assert len(law) == min(most, times) + 1
    for number in range(len(law) - 1):
        assert sum(law[: number + 1]) == pytest.approx(float(binom.cdf(number, times, rate)), abs=1e-9)


@pytest.mark.parametrize(
    ("clients", "size", "most", "times"), [(30, 6, 5, 19), (20, 10, 3, 5), (12, 4, 10, 20), (40, 4, 2, 15)]
)
def test_the_law_of_fixed_cohorts_is_never_below_the_sampler_that_runs(
    clients: int, size: int, most: int, times: int
) -> None:
    cohort, law = FixedSize(size, most), law_of_fixed_size(times, size, clients, most)
    generator, counts = np.random.default_rng(1), np.zeros(most + 1)
    for _ in range(400):
        taken = [0] * clients
        for _ in range(times):
            for client in cohort.draw([i for i in range(clients) if taken[i] < most], generator):
                taken[client] += 1
        counts += np.bincount(taken, minlength=most + 1)
    observed = np.cumsum(counts / counts.sum())
    error = 4 * 0.5 / math.sqrt(400)  # clients of one training are not independent; trainings are
    assert all(np.cumsum(law)[number] <= observed[number] + error for number in range(len(law)))


@few
@given(st.floats(0.8, 8.0), st.floats(0.05, 0.9), st.integers(2, 12), st.integers(1, 8))
def test_a_law_of_rounds_lies_between_one_round_and_the_limit(noise: float, rate: float, times: int, most: int) -> None:
    steps = ((Step("gaussian", noise), 1),)
    law = certify(composition(Term(steps, law=law_of_coins(times, rate, most))), 1e-5).epsilon
    limit = certify(composition(Term(steps, 1.0, min(times, most))), 1e-5).epsilon
    unlimited = certify(composition(Term(steps, rate, times)), 1e-5).epsilon
    assert law <= limit * 1.002 + 1e-4
    assert law <= unlimited * 1.002 + 1e-4
    if most >= times:
        assert law == pytest.approx(unlimited, rel=5e-3, abs=1e-3)


def test_a_law_that_is_none_is_refused() -> None:
    steps = ((Step("gaussian", 1.0), 1),)
    for law in ((0.5, 0.4), (1.5, -0.5)):
        with pytest.raises(FedveilError):
            composition(Term(steps, law=law))


# The rules as tables apply them: values of an independent accountant.

RELEASED, PEER = View.RELEASED, View.PEER
ONE_STEP = Method(
    example=on_records(3.5),
    batch=PoissonBatch(100),
    local=LocalTraining(steps=1),
    cohort=FixedSize(100),
    stop=Stop(100),
)
THOUSAND = Population((500,) * 1000)


def released(method: Method, population: Population, unit: Unit, delta: float = 1e-5) -> Guarantee:
    return plan(method, population, 1, delta=delta).of(unit, RELEASED)


def test_settings_that_were_computed_elsewhere() -> None:
    many = Method(
        example=on_records(1.9),
        batch=PoissonBatch(9),
        local=LocalTraining(steps=21),
        cohort=FixedSize(30),
        stop=Stop(67),
    )
    assert released(many, Population((477,) * 429), Unit.RECORD, 1e-6).epsilon == pytest.approx(0.570, rel=0.02)
    assert released(ONE_STEP, THOUSAND, Unit.RECORD).epsilon == pytest.approx(0.057, rel=0.02)
    limited = Method(upload=on_clients(3.1), cohort=FixedSize(6, most=5), stop=Stop(19))
    few_sites = released(limited, Population((50,) * 30), Unit.CLIENT)
    assert 2.274 < few_sites.epsilon <= 2.394  # by the simulated law of a client's rounds, and for one that has all 5
    assert few_sites.relation is Relation.REPLACE_ONE
    assert few_sites.caveat(CaveatKind.FULL_COHORTS) is not None


def test_noises_of_one_step_add_up_only_where_nothing_but_their_sum_is_seen() -> None:
    cell = released(ONE_STEP, THOUSAND, Unit.RECORD)
    assert {CaveatKind.PLAIN_SUM, CaveatKind.OTHERS_NOISE, CaveatKind.MEAN_OF_DRAWS} <= {c.kind for c in cell.caveats}
    assert "Gaussian(z = 35)" in cell.composition
    assert "Gaussian(z = 34.82)" in plan(ONE_STEP, THOUSAND, 1, delta=1e-5).of(Unit.RECORD, PEER).composition
    assert ONE_STEP.example is not None
    rows = replace(ONE_STEP.example, noise="row", each_row=True)
    for other in (
        replace(ONE_STEP, local=LocalTraining(steps=2)),
        replace(ONE_STEP, local=LocalTraining(steps=1, optimiser=Adam())),
        replace(ONE_STEP, local=LocalTraining(steps=1, optimiser=Momentum())),
        replace(ONE_STEP, local=LocalTraining(steps=1, decay=0.1)),
        replace(ONE_STEP, compress=Share(fraction=0.1)),
        replace(ONE_STEP, upload=Gaussian(clip=Clip(1.0), sigma=0.0, unit=Unit.CLIENT)),
        replace(ONE_STEP, server=Gaussian(clip=Clip(1.0), sigma=0.0, unit=Unit.CLIENT)),
        replace(ONE_STEP, personal=Interpolated()),
        replace(ONE_STEP, aggregate=Aggregation(weights="records")),
        replace(ONE_STEP, cohort=PoissonCohort(0.1)),
        replace(ONE_STEP, batch=WithoutReplacement(100), example=rows),
    ):
        found = released(other, THOUSAND, Unit.RECORD)
        assert found.caveat(CaveatKind.PLAIN_SUM) is None
        assert "z = 35" not in found.composition
    unequal = replace(ONE_STEP, batch=FullBatch())
    assert released(unequal, Population((500,) * 999 + (400,)), Unit.RECORD).caveat(CaveatKind.PLAIN_SUM) is None
    assert released(unequal, THOUSAND, Unit.RECORD).caveat(CaveatKind.PLAIN_SUM) is not None
    together = plan(replace(ONE_STEP, cohort=Everyone()), Population((500,) * 20), 1, delta=1e-5, excluding=True)
    cell = together.of(Unit.RECORD, RELEASED)  # all take part always and have spent the same: none is left out alone
    assert cell.caveat(CaveatKind.PLAIN_SUM) is not None
    assert cell.caveat(CaveatKind.HIDDEN_DRAW) is None
    unlike = plan(replace(ONE_STEP, cohort=Everyone()), Population((500, 400)), 1, delta=1e-5, excluding=True)
    assert unlike.of(Unit.RECORD, RELEASED).caveat(CaveatKind.PLAIN_SUM) is None
    excluding = plan(ONE_STEP, THOUSAND, 1, delta=1e-5, excluding=True).of(Unit.RECORD, RELEASED)
    assert excluding.caveat(CaveatKind.PLAIN_SUM) is None
    assert excluding.caveat(CaveatKind.MEAN_OF_DRAWS) is None
    assert plan(ONE_STEP, THOUSAND, 1, delta=1e-5).of(Unit.CLIENT, RELEASED).caveat(CaveatKind.OTHERS_NOISE) is None


def test_a_run_whose_cohorts_were_not_full_is_not_accounted_as_if_they_were() -> None:
    method = Method(upload=on_clients(3.1), cohort=FixedSize(6, most=5), stop=Stop(4))
    population = Population((50,) * 12)

    def charged(sizes: list[int]) -> list[Charge]:
        return [
            Charge(round, client, declared)
            for round, size in enumerate(sizes)
            for client in range(size)
            for declared in method.declare(round, 50, 1, 12)
        ]

    full, short = (
        replay(charged(sizes), population, method, 1, delta=1e-5, rounds=4).of(Unit.CLIENT, RELEASED)
        for sizes in ([6, 6, 6, 6], [6, 6, 6, 4])
    )
    assert full.caveat(CaveatKind.FULL_COHORTS) is not None
    assert short.caveat(CaveatKind.FULL_COHORTS) is None
    assert full.epsilon < short.epsilon


def test_a_client_that_stays_and_sends_zero_is_a_relation_of_its_own() -> None:
    method = Method(upload=on_clients(1.4), cohort=PoissonCohort(23 / 301), stop=Stop(99))
    table = plan(method, Population((50,) * 301), 1, delta=1e-5)
    usual, zero = table.of(Unit.CLIENT, RELEASED), table.under(Relation.ZERO_OUT, Unit.CLIENT, RELEASED)
    assert (usual.relation, zero.relation) == (Relation.ADD_OR_REMOVE, Relation.ZERO_OUT)
    assert usual.epsilon == pytest.approx(12.55, abs=0.01)
    assert zero.epsilon == pytest.approx(1.884, abs=0.002)
    assert zero.caveat(CaveatKind.OTHERS_NOISE) is not None
    assert table.beside(Unit.CLIENT, RELEASED) == (zero,)
    assert not any(cell.relation is Relation.ZERO_OUT for cell in table.guarantees)
    peer = table.under(Relation.ZERO_OUT, Unit.CLIENT, PEER).epsilon  # knows its own noise
    assert zero.epsilon < peer < 1.02 * zero.epsilon
    compressed = plan(replace(method, compress=Share(fraction=0.1)), Population((50,) * 301), 1, delta=1e-5)
    assert compressed.under(Relation.ZERO_OUT, Unit.CLIENT, RELEASED).epsilon == pytest.approx(usual.epsilon)
    assert compressed.beside(Unit.CLIENT, RELEASED) == ()


def test_a_record_is_hidden_by_whoever_is_drawn_with_its_client() -> None:
    """The client stays and adds its noise whatever the record is, so the noises of n others count."""
    method = Method(upload=on_clients(1.4), cohort=PoissonCohort(23 / 301), stop=Stop(99))
    table = plan(method, Population((50,) * 301), 1, delta=1e-5)
    found = table.of(Unit.RECORD, RELEASED)
    assert found.epsilon == table.under(Relation.REPLACE_ONE, Unit.CLIENT, RELEASED).epsilon
    assert any("noise of the other clients" in text for text in texts(found))


# A table is consistent.


def methods() -> st.SearchStrategy[tuple[Method, Population]]:
    cohorts: st.SearchStrategy[Cohort] = st.one_of(
        st.builds(FixedSize, st.integers(1, 12), st.sampled_from([None, 1, 3])),
        st.builds(PoissonCohort, st.sampled_from([0.05, 0.3, 1.0]), st.sampled_from([None, 2])),
        st.just(Everyone()),
    )
    batches: st.SearchStrategy[BatchSampler] = st.one_of(
        st.builds(PoissonBatch, st.integers(1, 3)),
        st.builds(WithoutReplacement, st.integers(1, 3)),
        st.builds(PartitionBatch, st.integers(1, 3)),
        st.just(FullBatch()),
    )
    sigmas = st.sampled_from([0.8, 2.0, 6.0])
    records, clients = st.sampled_from([on_records(3.0), on_records(9.0), None]), st.one_of(st.none(), sigmas)

    def build(
        cohort: Cohort,
        batch: BatchSampler,
        example: Gaussian | None,
        upload: float | None,
        server: float | None,
        steps: int,
        rounds: int,
        held: int,
    ) -> tuple[Method, Population]:
        method = Method(
            cohort=cohort,
            batch=batch,
            local=LocalTraining(steps=steps),
            example=example,
            upload=None if upload is None else on_clients(upload),
            server=None if server is None else on_clients(server),
            stop=Stop(rounds),
        )
        return method, Population((held,) * 12)

    return st.builds(
        build, cohorts, batches, records, clients, clients, st.integers(1, 3), st.integers(1, 9), st.integers(3, 6)
    )


def implied(cell: Guarantee, at: list[Guarantee]) -> float:
    """ε of exchanging a unit, from ε(δ) of removing it, at δ and at smaller ones: remove one and add the other."""
    if cell.relation is Relation.REPLACE_ONE:
        return cell.epsilon
    pairs = [(one, two) for one in at for two in at if one.delta + math.exp(min(one.epsilon, 700)) * two.delta <= 1e-5]
    return min((one.epsilon + two.epsilon for one, two in pairs), default=math.inf)


@settings(max_examples=40, deadline=None)
@given(methods())
def test_a_record_never_costs_more_than_exchanging_its_whole_client(made: tuple[Method, Population]) -> None:
    method, population = made
    table = plan(method, population, 1, delta=1e-5)
    for view in View:
        record, client = table.of(Unit.RECORD, view), table.of(Unit.CLIENT, view)
        deltas = (5e-6, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12)
        smaller = [table.at(delta).of(Unit.CLIENT, view) for delta in deltas] if client.finite else []
        exchanged = table.under(Relation.REPLACE_ONE, Unit.CLIENT, view)
        for bound in (implied(client, smaller), exchanged.epsilon):
            assert record.epsilon <= bound * 1.002 + 1e-4


@settings(max_examples=15, deadline=None)
@given(methods())
def test_whoever_sees_less_learns_no_more(made: tuple[Method, Population]) -> None:
    """Under the same relation, published models tell no more than all uploads, and a longer training no less."""
    method, population = made
    table = plan(method, population, 1, delta=1e-5)
    longer = plan(replace(method, stop=Stop(method.rounds + 2)), population, 1, delta=1e-5)
    for unit in Unit:
        server, shown = table.of(unit, View.SERVER), table.of(unit, RELEASED)
        if server.relation is shown.relation:
            assert shown.epsilon <= server.epsilon * 1.002 + 1e-4
        for view in View:
            mine, more = table.of(unit, view), longer.of(unit, view)
            if mine.relation is more.relation:
                assert mine.epsilon <= more.epsilon * 1.002 + 1e-4


@few
@given(st.floats(0.6, 6.0), st.floats(0.01, 0.9), st.integers(1, 200))
def test_a_hidden_record_costs_more_with_less_noise_more_rounds_and_a_larger_rate(
    noise: float, rate: float, count: int
) -> None:
    found = [
        certify(step("hidden-record", *arguments), 1e-5).epsilon
        for arguments in ((noise * 1.2, rate, count), (noise, rate, count), (noise, rate, count * 2))
    ]
    assert all(a <= b * 1.002 + 1e-4 for a, b in pairwise(found))
    more = certify(step("hidden-record", noise, min(1.0, rate * 1.1), count), 1e-5).epsilon
    assert found[1] <= more * 1.002 + 1e-4
