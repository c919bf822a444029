"""Where some of a cohort may not answer, no more is counted on than surely comes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from fedveil.accounting.context import Context
from fedveil.accounting.gaussian_privacy import gaussian_epsilon
from fedveil.accounting.plan import plan
from fedveil.core.guarantee import CaveatKind, Relation
from fedveil.core.types import Population, Unit, View
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant
from fedveil.method import Method
from fedveil.parts.batches import FullBatch
from fedveil.parts.cohorts import Cohort, Everyone, FixedSize, PoissonCohort
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.stopping import Stop

NOISE = Gaussian(clip=Clip(Constant(1.0)), sigma=3.0, unit=Unit.CLIENT)
DELTA = 1e-5
CLIENTS = 20


def context(cohort: Cohort, *, server: bool = False, rounds: int = 1) -> Context:
    place = {"server": NOISE} if server else {"upload": NOISE}
    method = Method(
        cohort=cohort, batch=FullBatch(), local=LocalTraining(steps=1), stop=Stop(rounds=rounds), **place
    )  # fmt: skip
    return Context(method, Population((5,) * CLIENTS), layers=1, delta=DELTA)


def epsilon(cohort: Cohort, view: View = View.RELEASED, unit: Unit = Unit.CLIENT, **more: bool) -> float:
    return plan(context(cohort, **more)).of(unit, view).epsilon


@pytest.mark.parametrize("quorum", [6, 9, 12, 19])
def test_the_noises_of_the_quorum_are_counted_and_not_those_of_the_cohort(quorum: int) -> None:
    cell = plan(context(Everyone(quorum=quorum))).of(Unit.CLIENT, View.RELEASED)
    z = NOISE.at(0, 1).multiplier(1, 1)
    assert cell.epsilon == pytest.approx(gaussian_epsilon(z * math.sqrt(quorum) / 2, DELTA), rel=1e-6)
    assert cell.relation is Relation.REPLACE_ONE
    peer = epsilon(Everyone(quorum=quorum), View.PEER)
    assert peer == pytest.approx(gaussian_epsilon(z * math.sqrt(quorum - 1) / 2, DELTA), rel=1e-6)


def test_a_small_quorum_leaves_each_client_to_its_own_noise() -> None:
    alone = epsilon(Everyone(quorum=1))
    assert alone == epsilon(Everyone(quorum=4)) == epsilon(Everyone(), View.SERVER)
    assert alone > epsilon(Everyone(quorum=10)) > epsilon(Everyone())


def test_a_quorum_of_all_is_no_quorum() -> None:
    assert epsilon(Everyone(quorum=CLIENTS)) == epsilon(Everyone())
    assert epsilon(FixedSize(10, quorum=10)) == epsilon(FixedSize(10))


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("view", [View.PEER, View.RELEASED])
@pytest.mark.parametrize(
    "cohort", [Everyone(), FixedSize(10), FixedSize(CLIENTS), PoissonCohort(0.4), PoissonCohort(1.0)]
)
def test_that_some_may_be_missing_never_lowers_an_epsilon(cohort: Cohort, view: View, unit: Unit, server: bool) -> None:
    """Under the relation of each: numbers under different relations are not compared."""
    complete = plan(context(cohort, server=server))
    for quorum in (1, 5, 6, 9):
        partial = plan(context(replace(cohort, quorum=quorum), server=server)).of(unit, view)
        like = complete.under(partial.relation, unit, view)
        if like.finite:
            assert partial.epsilon >= like.epsilon * (1 - 1e-9)


def test_a_hidden_draw_of_fixed_size_is_not_counted_on_where_somebody_may_be_missing() -> None:
    """An absent client takes its noise along, so cohorts with and without it have different variances."""
    sampled, partial = epsilon(FixedSize(10)), epsilon(FixedSize(10, quorum=9))
    z = NOISE.at(0, 1).multiplier(1, 1)
    assert sampled < partial == pytest.approx(gaussian_epsilon(z * math.sqrt(9) / 2, DELTA), rel=1e-6)
    server = epsilon(FixedSize(10, quorum=9), server=True)
    assert server == pytest.approx(gaussian_epsilon(z_server(), DELTA), rel=1e-6)


def z_server() -> float:
    (declared,) = context(FixedSize(10), server=True).round(0, 5).declarations
    return declared.sum_std / declared.sensitivity


def test_every_cell_says_that_answers_must_not_depend_on_records() -> None:
    kinds = {caveat.kind for caveat in plan(context(Everyone(quorum=9))).of(Unit.CLIENT, View.RELEASED).caveats}
    assert CaveatKind.ANSWERS in kinds
    assert CaveatKind.OTHERS_NOISE in kinds
    plain = {caveat.kind for caveat in plan(context(Everyone())).of(Unit.CLIENT, View.RELEASED).caveats}
    assert CaveatKind.ANSWERS not in plain


def test_the_bound_holds_against_simulated_rounds_with_missing_clients() -> None:
    """The hockey stick of sums over those who answered, from above by exact integration over the number of answers.

    Twenty clients, each of which answers by a coin of its own; rounds below the quorum show nothing. The client that is
    replaced moves the sum by 2 where it answered. What the accountant certifies must cover the mixture, the number of
    answers seen.
    """
    quorum, answers, z = 12, 0.7, NOISE.at(0, 1).multiplier(1, 1)
    certified = epsilon(Everyone(quorum=quorum))
    delta = 0.0
    for others in range(CLIENTS):
        chance = math.comb(CLIENTS - 1, others) * answers**others * (1 - answers) ** (CLIENTS - 1 - others)
        arrived = others + 1
        if arrived >= quorum:
            mean = 2 / (z * math.sqrt(arrived))
            stick = norm.cdf(mean / 2 - certified / mean) - math.exp(certified) * norm.cdf(-mean / 2 - certified / mean)
            delta += chance * answers * max(stick, 0.0)
    assert delta <= DELTA
    wrong = epsilon(Everyone())  # the noises of all twenty, as if nobody were ever missing
    worst = 2 / (z * math.sqrt(quorum))
    assert norm.cdf(worst / 2 - wrong / worst) - np.exp(wrong) * norm.cdf(-worst / 2 - wrong / worst) > DELTA
