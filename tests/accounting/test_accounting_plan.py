"""Promised and spent tables: what each view is owed, and that both computations agree."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace

import pytest
from accounts import calibrate, plan, replay, texts

from fedveil import zoo
from fedveil.accounting import compose
from fedveil.accounting.budget import check_kept
from fedveil.accounting.context import Budget
from fedveil.accounting.exposure import Route, routes
from fedveil.accounting.gaussian_privacy import gaussian_epsilon
from fedveil.accounting.participation import Crowd, Exposure, Round
from fedveil.accounting.round_rules import Unprotected
from fedveil.accounting.table import exceeded
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import SEEDED, CaveatKind, Guarantee, Relation
from fedveil.core.types import Charge, Declaration, Population, Sampling, Unit, View
from fedveil.mechanisms.adaptive import Histogram, Quantile
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant, Linear
from fedveil.method import Method
from fedveil.parts.batches import FullBatch, PoissonBatch, WithoutReplacement
from fedveil.parts.cohorts import Cohort, Everyone, FixedSize, PoissonCohort
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.personal import Attention, Identity, Interpolated, Shared
from fedveil.parts.stopping import Stop
from fedveil.zoo import FED_AVG, FED_CDP, FED_CDP_DECAY

POPULATION = Population((500,) * 40)
SMALL = replace(FED_CDP, cohort=FixedSize(10))
ON_ROWS = replace(SMALL, example=replace(FED_CDP.example, each_row=True))  # type: ignore[type-var]
POISSON = replace(SMALL, batch=PoissonBatch(5))
SERVER = (Unit.RECORD, View.SERVER)


def charges(method: Method, population: Population, cohorts: Iterable[Iterable[int]]) -> list[Charge]:
    return [
        Charge(round, client, declared)
        for round, cohort in enumerate(cohorts)
        for client in cohort
        for declared in method.declare(round, population.records[client], 3, population.clients)
    ]


def test_fed_cdp_as_published() -> None:
    table = plan(SMALL, POPULATION, 3, delta=1e-5)
    server = table.of(*SERVER)
    assert server.composition == "100 × Gaussian(z = 7.746)"
    assert server.epsilon == pytest.approx(5.8998, abs=1e-4)
    assert server.relation is Relation.ADD_OR_REMOVE
    assert any("every one of the 100 rounds" in text for text in texts(server))
    client = table.of(Unit.CLIENT, View.SERVER)
    assert client.epsilon == math.inf
    assert client.reason.startswith("vacuous (group of 500)")
    assert "ε = 2.3" in client.reason


def test_rows_that_carry_their_own_noise_protect_on_the_device_and_change_no_other_cell() -> None:
    drawn_once, on_rows = (plan(each, POPULATION, 3, delta=1e-5) for each in (SMALL, ON_ROWS))
    device = on_rows.of(Unit.RECORD, View.ON_DEVICE)
    assert device.composition == "100 × Gaussian(z = 3.464)"
    assert device.epsilon == pytest.approx(15.87, abs=0.01)
    for cell in on_rows.guarantees:
        if cell.view is not View.ON_DEVICE:
            assert cell == drawn_once.of(cell.unit, cell.view)


def test_noise_drawn_on_the_sum_leaves_the_device_bare_and_says_what_to_do() -> None:
    assert SMALL.example is not None
    once = replace(SMALL, example=replace(SMALL.example, noise="sum"))
    for method in (SMALL, once, replace(SMALL, batch=WithoutReplacement(5)), replace(SMALL, batch=FullBatch())):
        done = charges(method, POPULATION, [[0, 7], [7]])
        promised = plan(method, POPULATION, 3, delta=1e-5)
        spent = replay(done, POPULATION, method, 3, delta=1e-5, rounds=2)
        for table in (promised, spent):
            for unit in Unit:
                device = table.of(unit, View.ON_DEVICE)
                assert device.epsilon == math.inf
                assert device.reason.startswith("the noise is drawn on a batch's sum, so the rows in memory are clean;")
                assert "example.each_row every row carries its own" in device.reason
            assert table.of(*SERVER).finite


def test_one_round_whose_rows_were_clean_leaves_nothing_against_whoever_sees_rows() -> None:
    bare = [replace(charge, round=1) for charge in charges(SMALL, POPULATION, [[7]])]
    mixed = replay([*charges(ON_ROWS, POPULATION, [[7]]), *bare], POPULATION, ON_ROWS, 3, delta=1e-5, rounds=2)
    assert mixed.of(Unit.RECORD, View.ON_DEVICE).epsilon == math.inf


def test_the_worst_client_is_found_wherever_it_stands() -> None:
    done = charges(POISSON, POPULATION, [[0, 7], [7], [7]])
    spent = replay(done, POPULATION, POISSON, 3, delta=1e-5, rounds=3)
    assert spent.of(*SERVER).epsilon == max(spent.per_client(*SERVER)) == spent.client(7, *SERVER).epsilon
    assert spent.of(*SERVER).epsilon > spent.client(0, *SERVER).epsilon > 0


def test_a_budget_that_leaves_clients_out_claims_no_amplification_by_the_draw() -> None:
    method = replace(POISSON, cohort=PoissonCohort(0.1))
    done = charges(method, POPULATION, [[0, 7], [7], [7]])
    for told in (
        lambda excluding: plan(method, POPULATION, 3, delta=1e-5, rounds=3, excluding=excluding),
        lambda excluding: replay(done, POPULATION, method, 3, delta=1e-5, rounds=3, excluding=excluding),
    ):
        released = {excluding: told(excluding).of(Unit.RECORD, View.RELEASED).epsilon for excluding in (True, False)}
        assert released[True] == told(True).of(*SERVER).epsilon > released[False]


def test_a_place_that_was_missing_in_some_rounds_protects_in_none() -> None:
    example = SMALL.declare(0, 500, 3, 40)
    both, one = Round((*example, UPLOAD), Everyone()), Round(example, Everyone())
    exposure = Exposure(500, ((both, 1), (one, 1)), ((both, 1), (one, 1)))
    found = routes(exposure, Crowd(40), Unit.CLIENT, View.SERVER, 1)
    assert [route.reason for route in found if isinstance(route, Unprotected)] == [
        "upload: there are rounds in which this mechanism did not run"
    ]


def test_fed_cdp_with_poisson_batches_is_amplified() -> None:
    table = plan(POISSON, POPULATION, 3, delta=1e-5)
    server = table.of(*SERVER)
    assert server.epsilon == pytest.approx(0.4531, abs=5e-4)
    assert server.accountant == "PLD"
    assert server.composition == "10,000 × Poisson(0.01) Gaussian(z = 7.746)"
    device = table.of(Unit.RECORD, View.ON_DEVICE)
    assert device.epsilon == math.inf
    assert device.reason.endswith("is for batches of fixed size and not for Poisson batches")


def test_a_changing_clip_changes_nothing() -> None:
    decay = replace(FED_CDP_DECAY, cohort=FixedSize(10))
    for method, other in [(SMALL, decay), (POISSON, replace(decay, batch=PoissonBatch(5)))]:
        first, second = (plan(each, POPULATION, 3, delta=1e-5) for each in (method, other))
        for cell in first.guarantees:
            assert second.of(cell.unit, cell.view).epsilon == pytest.approx(cell.epsilon, rel=1e-6)
            assert second.of(cell.unit, cell.view).composition == cell.composition


def test_fixed_size_batches_are_replace_one_with_halved_noise() -> None:
    found = plan(replace(SMALL, batch=WithoutReplacement(5)), POPULATION, 3, delta=1e-5).of(*SERVER)
    assert found.relation is Relation.REPLACE_ONE
    assert found.accountant == "PLD"
    assert found.composition == "10,000 × WithoutReplacement(0.01) Gaussian(z = 3.873)"


def test_all_records_in_every_step() -> None:
    method = replace(SMALL, batch=FullBatch(), local=LocalTraining(steps=2))
    found = plan(method, POPULATION, 3, delta=1e-5, rounds=3).of(*SERVER)
    assert found.composition == f"6 × Gaussian(z = {6 * math.sqrt(500 / 3):.4g})"


def test_noise_once_on_the_sum_has_the_multiplier_of_one_row() -> None:
    assert SMALL.example is not None
    method = replace(SMALL, example=replace(SMALL.example, noise="sum"))
    assert plan(method, POPULATION, 3, delta=1e-5).of(*SERVER).composition == "100 × Gaussian(z = 3.464)"


@pytest.mark.parametrize("silent", [True, False])
def test_without_noise_every_cell_is_infinite_and_says_why(silent: bool) -> None:
    assert SMALL.example is not None
    method = (
        replace(FED_AVG, cohort=FixedSize(10)) if silent else replace(SMALL, example=replace(SMALL.example, sigma=0.0))
    )
    table = plan(method, POPULATION, 3, delta=1e-5)
    assert len(table.guarantees) == len(Unit) * len(View)
    assert all(cell.epsilon == math.inf and cell.reason for cell in table.guarantees)
    spent = replay(charges(method, POPULATION, [[0]] * 4), POPULATION, method, 3, delta=1e-5, rounds=4)
    assert not spent.of(*SERVER).finite


def test_a_delta_that_is_not_small_for_so_many_units_is_said_so() -> None:
    large = plan(SMALL, POPULATION, 3, delta=1e-4)
    said = "δ is not below one in 20,000, the number of records"
    for cell in large.guarantees:
        assert (said in texts(cell)) == (cell.unit is Unit.RECORD)
    assert not any(said in texts(cell) for cell in plan(SMALL, POPULATION, 3, delta=1e-5).guarantees)
    everybody = plan(SMALL, POPULATION, 3, delta=0.025).of(Unit.CLIENT, View.SERVER)
    assert "δ is not below one in 40, the number of clients" in texts(everybody)


def test_a_limit_counts_the_rounds_with_the_least_noise() -> None:
    """The noise falls from twice to half of σ over the rounds: a client may be drawn for the last five only."""
    assert SMALL.example is not None
    falling = replace(SMALL, example=replace(SMALL.example, course=Linear(2.0, 0.5)))
    limited = replace(falling, cohort=FixedSize(10, most=5))
    found = plan(limited, POPULATION, 3, delta=1e-5).of(*SERVER).epsilon
    last = [[]] * 95 + [[0]] * 5
    worst = replay(charges(limited, POPULATION, last), POPULATION, limited, 3, delta=1e-5, rounds=100)
    first = replay(charges(limited, POPULATION, last[::-1]), POPULATION, limited, 3, delta=1e-5, rounds=100)
    assert found == pytest.approx(worst.of(*SERVER).epsilon, rel=1e-6)
    assert found > 3 * first.of(*SERVER).epsilon
    whole = plan(falling, POPULATION, 3, delta=1e-5).of(*SERVER).epsilon
    assert found < whole


def test_a_limit_counts_every_round_where_rounds_have_no_order() -> None:
    """One noise falls while the other grows: which rounds reveal most can't be said."""
    assert SMALL.example is not None
    upload = Gaussian(clip=Clip(Constant(1.0)), sigma=4.0, unit=Unit.CLIENT, course=Linear(0.5, 2.0))
    example = replace(SMALL.example, course=Linear(2.0, 0.5))
    several = replace(SMALL, example=example, upload=upload)
    limited = replace(several, cohort=FixedSize(10, most=5))
    for cell in (SERVER, (Unit.CLIENT, View.SERVER)):
        found, whole = (plan(each, POPULATION, 3, delta=1e-5).of(*cell) for each in (limited, several))
        assert found.epsilon == whole.epsilon


def test_a_growing_cohort_is_accounted_at_the_size_of_each_round() -> None:
    noise = Gaussian(clip=Clip(1.0), sigma=2.0, unit=Unit.CLIENT)
    method = Method(server=noise, cohort=FixedSize(4, growth=Linear(1.0, 5.0)), stop=Stop(2))
    promised = plan(method, POPULATION, 1, delta=1e-5)
    done = [
        Charge(round, client, declared)
        for round, size in enumerate((4, 20))
        for client in range(size)
        for declared in method.declare(round, 500, 1, 40)
    ]
    spent = replay(done, POPULATION, method, 1, delta=1e-5, rounds=2)
    for table in (promised, spent):
        found = table.of(Unit.CLIENT, View.RELEASED)
        assert "WithoutReplacement(0.1)" in found.composition
        assert "WithoutReplacement(0.5)" in found.composition
    small = plan(replace(method, cohort=FixedSize(4)), POPULATION, 1, delta=1e-5).of(Unit.CLIENT, View.RELEASED)
    assert promised.of(Unit.CLIENT, View.RELEASED).epsilon > 1.3 * small.epsilon


def test_hidden_coins_help_against_whoever_sees_only_models() -> None:
    method = replace(POISSON, cohort=PoissonCohort(0.1))
    table = plan(method, POPULATION, 3, delta=1e-5)
    released, server = table.of(Unit.RECORD, View.RELEASED), table.of(*SERVER)
    assert released.epsilon == table.of(Unit.RECORD, View.PEER).epsilon == pytest.approx(0.1414, abs=1e-3)
    assert released.epsilon < server.epsilon
    assert "drawn with probability 0.1" in released.composition
    assert any("not for a client known to have been drawn" in text for text in texts(released))
    limited = plan(method, POPULATION, 3, delta=1e-5, participation=20)
    assert limited.of(Unit.RECORD, View.RELEASED).epsilon <= released.epsilon < limited.of(*SERVER).epsilon


def test_a_draw_of_fixed_size_helps_too_because_it_may_be_seen() -> None:
    table = plan(POISSON, POPULATION, 3, delta=1e-5)
    released, peer, coins = (
        table.of(Unit.RECORD, View.RELEASED),
        table.of(Unit.RECORD, View.PEER),
        plan(replace(POISSON, cohort=PoissonCohort(0.25)), POPULATION, 3, delta=1e-5).of(Unit.RECORD, View.RELEASED),
    )
    assert released.epsilon == coins.epsilon < peer.epsilon < table.of(*SERVER).epsilon
    assert released.caveat(CaveatKind.MEAN_OF_DRAWS) is not None
    assert table.of(*SERVER).caveat(CaveatKind.MEAN_OF_DRAWS) is None
    excluding = plan(POISSON, POPULATION, 3, delta=1e-5, excluding=True)
    assert excluding.of(Unit.RECORD, View.RELEASED).epsilon == table.of(*SERVER).epsilon


def test_one_record_a_client_makes_a_client_a_record() -> None:
    method = replace(ON_ROWS, batch=FullBatch(), cohort=Everyone(), local=LocalTraining(steps=1))
    table = plan(method, Population((1, 1)), 3, delta=1e-5)
    for view in View:
        assert table.of(Unit.CLIENT, view).epsilon == table.of(Unit.RECORD, view).epsilon < math.inf


@pytest.mark.parametrize(
    ("batch", "rows"), [(SMALL.batch, 5), (PoissonBatch(5, cap=9), 9), (WithoutReplacement(5), 5), (FullBatch(), 80)]
)
def test_a_client_is_hidden_as_a_group_of_as_many_records_as_a_batch_can_hold(batch: PoissonBatch, rows: int) -> None:
    assert SMALL.example is not None
    example = replace(SMALL.example, sigma=60.0, each_row=batch.kind != "poisson")
    method = replace(SMALL, batch=batch, local=LocalTraining(steps=3), example=example)
    table = plan(method, Population((80,) * 20), 3, delta=1e-5, rounds=4)
    found = table.of(Unit.CLIENT, View.SERVER)
    noise = 60 * math.sqrt(batch.declared(80) / 3)
    assert found.relation is Relation.ADD_OR_REMOVE
    assert found.composition == f"12 × Gaussian(z = {noise / rows:.4g})"
    assert found.epsilon == pytest.approx(gaussian_epsilon(noise / rows / math.sqrt(12), 1e-5), rel=1e-9)
    assert found.epsilon >= table.of(*SERVER).epsilon
    assert any("group privacy" in text for text in texts(found))
    device = table.of(Unit.CLIENT, View.ON_DEVICE)
    if batch.kind == "poisson":
        assert not device.finite
    else:
        assert device.composition == f"12 × Gaussian(z = {60 / math.sqrt(3 * rows):.4g})"


def test_a_group_is_never_understated_by_hand() -> None:
    """One step over all of two records that both pull the same way: the sum moves by 2S, exactly."""
    assert SMALL.example is not None
    method = replace(SMALL, batch=FullBatch(), cohort=Everyone(), local=LocalTraining(steps=1))
    found = plan(method, Population((2, 2)), 3, delta=1e-5, rounds=1).of(Unit.CLIENT, View.RELEASED)
    deviation, moved = 6 * math.sqrt(2), 2 * math.sqrt(3)  # in units of C
    assert found.epsilon == pytest.approx(gaussian_epsilon(deviation / moved, 1e-5), rel=1e-9)


def test_the_worst_client_makes_the_table_and_each_has_its_own() -> None:
    population = Population((100, 200, 400) * 4)
    table = plan(POISSON, population, 3, delta=1e-5, rounds=10)
    mine = table.per_client(*SERVER)
    assert mine[0] > mine[1] > mine[2]
    assert table.of(*SERVER).epsilon == mine[0] == table.client(3, *SERVER).epsilon
    assert len(mine) == 12
    with pytest.raises(FedveilError, match="no client 12"):
        table.client(12, *SERVER)


def test_epochs_make_small_clients_cheaper_or_dearer_and_the_worst_is_found() -> None:
    method = replace(POISSON, local=LocalTraining(epochs=2), cohort=FixedSize(2))
    table = plan(method, Population((50, 60, 400, 1000, 20)), 3, delta=1e-5, rounds=10)
    assert table.of(*SERVER).epsilon == max(table.per_client(*SERVER))


def test_a_limit_of_the_sampler_is_used_without_being_told() -> None:
    limited = plan(replace(POISSON, cohort=FixedSize(10, most=7)), POPULATION, 3, delta=1e-5)
    assert limited.of(*SERVER).epsilon == plan(POISSON, POPULATION, 3, delta=1e-5, participation=7).of(*SERVER).epsilon
    coins = plan(replace(POISSON, cohort=PoissonCohort(0.9, most=7)), POPULATION, 3, delta=1e-5)
    assert coins.of(*SERVER).composition == "700 × Poisson(0.01) Gaussian(z = 7.746)"
    released = coins.of(Unit.RECORD, View.RELEASED)
    assert released.composition == coins.of(*SERVER).composition  # in a hundred rounds everybody surely reaches it
    assert released.epsilon <= coins.of(*SERVER).epsilon * (1 + 1e-6)


def test_copies_of_a_record_count_once_each() -> None:
    once, twice = (plan(SMALL, POPULATION, 3, delta=1e-5, rounds=10, copies=copies) for copies in (1, 2))
    cell = twice.of(*SERVER)
    assert cell.epsilon == once.of(*SERVER).epsilon  # it speaks of one client's copy
    assert cell.together == pytest.approx(plan(SMALL, POPULATION, 3, delta=1e-5, rounds=20).of(*SERVER).epsilon)
    assert cell.caveat(CaveatKind.ONE_COPY) is not None
    assert cell.caveat(CaveatKind.NO_COPIES) is None
    assert any("up to 2 clients hold the same one" in text for text in texts(cell))
    assert once.of(*SERVER).together is None
    assert any("no record is held by more than one" in text for text in texts(once.of(*SERVER)))


def test_a_seeded_run_is_marked_in_every_cell() -> None:
    table = plan(SMALL, POPULATION, 3, delta=1e-5, seeded=True)
    assert all(cell.caveats[0] == SEEDED and cell.void == SEEDED for cell in table.guarantees)


def test_secondary_accountants_are_marked() -> None:
    found = plan(POISSON, POPULATION, 3, delta=1e-5, secondary=True).of(*SERVER)
    values = {other.accountant: other for other in found.secondary}
    assert values["RDP"].epsilon >= found.epsilon
    assert "not a guarantee" in values["GDP"].note
    assert values["GDP"].epsilon == pytest.approx(found.epsilon, rel=0.02)


@pytest.mark.parametrize("batch", [SMALL.batch, PoissonBatch(5), WithoutReplacement(5)])
@pytest.mark.parametrize("cohort", [FixedSize(10), PoissonCohort(0.25), Everyone()])
def test_replay_is_the_plan_of_what_ran(batch: PoissonBatch, cohort: FixedSize) -> None:
    method = replace(FED_CDP_DECAY, batch=batch, cohort=cohort)
    population = Population((500,) * 12)
    rounds = 6
    cohorts = [[0, *range(1 + round, 5 + round)] for round in range(rounds)]
    if isinstance(cohort, Everyone):
        cohorts = [list(range(12))] * rounds
    spent = replay(charges(method, population, cohorts), population, method, 3, delta=1e-5, rounds=rounds)
    promised = plan(method, population, 3, delta=1e-5, rounds=rounds)
    for cell in promised.guarantees:
        mine = spent.of(cell.unit, cell.view)
        assert (mine.epsilon, mine.relation, mine.composition) == (cell.epsilon, cell.relation, cell.composition)
    assert exceeded(promised, spent) == ()


def test_each_client_is_charged_for_its_own_rounds() -> None:
    cohorts = [[0, 1], [0], [0, 2], []]
    spent = replay(charges(POISSON, POPULATION, cohorts), POPULATION, POISSON, 3, delta=1e-5, rounds=4)
    for client, rounds in [(0, 3), (1, 1), (2, 1)]:
        promised = plan(POISSON, POPULATION, 3, delta=1e-5, rounds=4, participation=rounds).of(*SERVER)
        assert spent.client(client, *SERVER).epsilon == promised.epsilon
    assert spent.client(3, *SERVER).epsilon == 0
    assert spent.of(*SERVER).epsilon == spent.client(0, *SERVER).epsilon
    assert exceeded(plan(POISSON, POPULATION, 3, delta=1e-5, rounds=2), spent)


def test_the_client_with_the_least_noise_makes_the_table_of_what_was_spent() -> None:
    """Row noise adds up over a batch, so of two clients that give all their records the smaller one reveals more."""
    method = replace(SMALL, batch=FullBatch(), cohort=Everyone(), local=LocalTraining(steps=1))
    for sizes in ((400, 100), (100, 400)):
        population = Population(sizes)
        spent = replay(charges(method, population, [(0, 1)]), population, method, 3, delta=1e-5, rounds=1)
        apart = [spent.client(client, *SERVER).epsilon for client in (0, 1)]
        assert spent.of(*SERVER).epsilon == max(apart) > 1.5 * min(apart)


def test_a_round_of_which_only_a_part_was_repeated_is_not_as_declared() -> None:
    upload = Gaussian(clip=Clip(1.0), sigma=4.0, unit=Unit.CLIENT)
    method = replace(POISSON, upload=upload, cohort=PoissonCohort(0.25))
    once = charges(method, POPULATION, [[0]])
    assert len(once) == 2  # on examples and on the upload
    released = (Unit.RECORD, View.RELEASED)
    whole, part = (
        replay([*once, *again], POPULATION, method, 3, delta=1e-5, rounds=1, attempts=[0, 0])
        for again in (once, once[:1])
    )
    assert "drawn with probability 0.25" in whole.of(*released).composition
    assert "drawn" not in part.of(*released).composition


def test_a_run_that_did_less_noise_than_declared_is_charged_for_what_it_did() -> None:
    method = replace(POISSON, cohort=PoissonCohort(0.25))
    ran = [
        replace(charge, declared=replace(charge.declared, sum_std=charge.declared.sum_std / 2))
        for charge in charges(method, POPULATION, [[0, 1], [0]])
    ]
    promised = plan(method, POPULATION, 3, delta=1e-5, rounds=2)
    spent = replay(ran, POPULATION, method, 3, delta=1e-5, rounds=2)
    assert spent.of(*SERVER).epsilon > promised.of(*SERVER).epsilon
    assert spent.of(Unit.RECORD, View.RELEASED).epsilon == spent.of(*SERVER).epsilon
    assert len(exceeded(promised, spent)) >= 2


def test_charges_that_cannot_be_are_refused() -> None:
    good = charges(POISSON, POPULATION, [[0]])
    for bad in (replace(good[0], client=99), replace(good[0], round=5)):
        with pytest.raises(FedveilError):
            replay([bad], POPULATION, POISSON, 3, delta=1e-5, rounds=1)


def test_a_private_method_has_spent_nothing_before_its_first_round() -> None:
    spent = replay([], POPULATION, POISSON, 3, delta=1e-5, rounds=0)
    assert spent.of(*SERVER).epsilon == 0


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 2.0, math.nan, math.inf])
def test_delta_must_be_a_probability(delta: float) -> None:
    with pytest.raises(FedveilError, match="delta"):
        plan(SMALL, POPULATION, 3, delta=delta)


def test_other_bad_input() -> None:
    for change in ({"rounds": -1}, {"rounds": 10**9}, {"participation": 0}, {"copies": 0}):
        with pytest.raises(FedveilError):
            plan(SMALL, POPULATION, 3, delta=1e-5, **change)
    with pytest.raises(FedveilError):
        plan(SMALL, Population(()), 3, delta=1e-5)
    with pytest.raises(FedveilError):
        plan(SMALL, POPULATION, 0, delta=1e-5)
    with pytest.raises(FedveilError):
        plan(replace(SMALL, batch=PoissonBatch(600)), POPULATION, 3, delta=1e-5)


def test_tables_are_json_with_infinity_as_a_word() -> None:
    table = plan(SMALL, POPULATION, 3, delta=1e-5, secondary=True)
    text = json.dumps([cell.to_dict() for cell in table.guarantees], allow_nan=False)
    cells = json.loads(text)
    assert tuple(Guarantee.from_dict(cell) for cell in cells) == table.guarantees
    assert {"unit", "view", "relation", "epsilon", "delta", "accountant", "composition", "caveats"} <= cells[0].keys()
    assert [cell["epsilon"] for cell in cells if cell["unit"] == "client"] == ["inf"] * 5
    assert "record × server" in str(table)


def test_no_infinity_without_a_reason_and_no_nonsense() -> None:
    for epsilon in (math.inf, math.nan, -1.0):
        with pytest.raises(FedveilError):
            Guarantee(Unit.RECORD, View.SERVER, Relation.ADD_OR_REMOVE, epsilon, 1e-5, "PLD", "x")


# Noise on a client's upload, and at the server.

EVERYONE = Sampling("all", 40, 40, 40, 1)
UPLOAD = Declaration("upload", Unit.CLIENT, 1, 1.0, 2.0, 8.0, 0.0, EVERYONE)
AT_SERVER = replace(UPLOAD, place="server")
CROWD = Crowd(200)
FIXED, COINS = FixedSize(20), PoissonCohort(0.1)


def route(
    declaration: Declaration,
    unit: Unit,
    view: View,
    cohort: Cohort = FIXED,
    *,
    rounds: int = 10,
    took_part: int | None = None,
    crowd: Crowd = CROWD,
    copies: int = 1,
    strict: bool = False,
) -> Route | Unprotected:
    made = Round((declaration,), cohort)
    exposure = Exposure(500, ((made, rounds if took_part is None else took_part),), ((made, rounds),))
    return routes(exposure, crowd, unit, view, copies, strict)[0]


def words(found: Route | Unprotected) -> str:
    assert isinstance(found, Route)
    return compose.describe(found.parts)


def test_noise_on_the_upload_protects_clients_from_the_device_outward() -> None:
    assert isinstance(route(UPLOAD, Unit.CLIENT, View.ON_DEVICE), Unprotected)
    for view in (View.CLIENT, View.SERVER):
        assert words(route(UPLOAD, Unit.CLIENT, view)) == "10 × Gaussian(z = 4)"
    for view, chance in ((View.PEER, "0.1005"), (View.RELEASED, "0.1")):  # a peer knows when it was not drawn itself
        drawn = f"10 rounds × [drawn with probability {chance}: 1 × Gaussian(z = 4)]"
        assert words(route(UPLOAD, Unit.CLIENT, view)) == drawn
        assert words(route(UPLOAD, Unit.CLIENT, view, crowd=Crowd(200, limited=True))) == "10 × Gaussian(z = 4)"
    assert words(route(UPLOAD, Unit.RECORD, View.SERVER)) == "10 × Gaussian(z = 2)"


def test_noise_at_the_server_protects_only_from_those_behind_it() -> None:
    for view in (View.ON_DEVICE, View.CLIENT, View.SERVER):
        assert isinstance(route(AT_SERVER, Unit.CLIENT, view, COINS), Unprotected)
    assert words(route(AT_SERVER, Unit.CLIENT, View.RELEASED, COINS)) == "10 × Poisson(0.1) Gaussian(z = 4)"
    assert words(route(AT_SERVER, Unit.CLIENT, View.RELEASED, FIXED)) == "10 × WithoutReplacement(0.1) Gaussian(z = 2)"
    assert words(route(AT_SERVER, Unit.CLIENT, View.RELEASED, Everyone())) == "10 × Gaussian(z = 4)"
    record = words(route(AT_SERVER, Unit.RECORD, View.RELEASED, COINS))
    assert record == "10 × HiddenRecord(0.1) Gaussian(z = 4)"


def test_no_chance_is_counted_on_where_clients_may_be_left_out() -> None:
    limited = Crowd(200, limited=True)
    for cohort in (FIXED, COINS, Everyone()):
        found = words(route(AT_SERVER, Unit.CLIENT, View.RELEASED, cohort, took_part=3, crowd=limited))
        assert found == "3 × Gaussian(z = 4)"


def test_uploads_that_are_only_summed_are_hidden_by_the_noise_of_the_whole_cohort() -> None:
    summed = replace(UPLOAD, adds_up=True)
    released = route(summed, Unit.CLIENT, View.RELEASED, FixedSize(16), took_part=1)
    assert words(released) == "10 × WithoutReplacement(0.08) Gaussian(z = 8)"  # 4 · sqrt(16) / 2, every round
    assert isinstance(released, Route)
    assert released.relation is Relation.REPLACE_ONE
    assert any("noise of the other clients" in text for text in texts(released))
    assert words(route(summed, Unit.RECORD, View.RELEASED, FixedSize(16))) == words(released)
    peer = words(route(summed, Unit.CLIENT, View.PEER, FixedSize(17)))  # a peer knows its own noise and draw
    assert peer == "10 × WithoutReplacement(0.08543) Gaussian(z = 8)"
    assert words(route(summed, Unit.CLIENT, View.RELEASED, Everyone(), crowd=Crowd(16))) == "10 × Gaussian(z = 8)"


@pytest.mark.parametrize(("view", "alone"), [(View.RELEASED, 4), (View.PEER, 5)])
def test_noises_are_summed_from_five_on_that_the_view_does_not_know(view: View, alone: int) -> None:
    summed = replace(UPLOAD, adds_up=True)
    assert "WithoutReplacement" not in words(route(summed, Unit.CLIENT, view, FixedSize(alone)))
    assert "WithoutReplacement" in words(route(summed, Unit.CLIENT, view, FixedSize(alone + 1)))


@pytest.mark.parametrize("unit", Unit)
def test_a_peer_that_was_not_drawn_knows_that_the_cohort_was_drawn_from_the_others(unit: Unit) -> None:
    assert words(route(AT_SERVER, unit, View.RELEASED, FixedSize(1), crowd=Crowd(2))) == (
        "10 × WithoutReplacement(0.5) Gaussian(z = 2)"
    )
    alone = route(AT_SERVER, unit, View.PEER, FixedSize(1), crowd=Crowd(2))
    assert words(alone) == "10 × Gaussian(z = 2)"
    assert isinstance(alone, Route)
    assert any("drawn from the others" in text for text in texts(alone))


def test_clients_that_train_their_own_noise_on_are_not_hidden_by_the_noise_of_the_others() -> None:
    method = Method(upload=Gaussian(clip=Clip(Constant(1.0)), sigma=4.0, unit=Unit.CLIENT), cohort=FixedSize(16))
    for personal, alone in ((Shared(), False), (Identity(), False), (Interpolated(), True), (Attention(), True)):
        table = plan(replace(method, personal=personal), POPULATION, 3, delta=1e-5)
        released = table.of(Unit.CLIENT, View.RELEASED)
        assert (released.caveat(CaveatKind.OTHERS_NOISE) is None) == alone
        assert ("1 × Gaussian(z = 4)" in released.composition) == alone


def test_summed_noise_is_not_counted_on_where_it_is_not_there() -> None:
    summed = replace(UPLOAD, adds_up=True)
    assert words(route(summed, Unit.CLIENT, View.SERVER)) == "10 × Gaussian(z = 4)"
    alone = "10 rounds × [drawn with probability {}: 1 × Gaussian(z = 4)]"
    assert words(route(UPLOAD, Unit.CLIENT, View.RELEASED)) == alone.format(0.1)  # compressed one by one
    assert words(route(summed, Unit.CLIENT, View.RELEASED, FixedSize(4))) == alone.format(0.02)  # would be worse
    few = words(route(summed, Unit.CLIENT, View.RELEASED, took_part=2, crowd=Crowd(200, limited=True)))
    assert few == "2 × Gaussian(z = 4)"
    hidden = words(route(summed, Unit.CLIENT, View.RELEASED, COINS))  # how many noises there are is left to coins
    assert hidden == "10 rounds × [drawn with probability 0.1: 1 × Gaussian(z = 4)]"


def test_copies_of_a_record_under_one_noise_move_the_sum_together() -> None:
    assert words(route(AT_SERVER, Unit.RECORD, View.RELEASED, copies=5)) == "10 × Gaussian(z = 0.4)"
    assert words(route(AT_SERVER, Unit.RECORD, View.RELEASED, COINS, copies=5)) == "10 × Gaussian(z = 0.4)"
    summed = replace(UPLOAD, adds_up=True)
    assert words(route(summed, Unit.RECORD, View.RELEASED, FixedSize(16), copies=4)) == "10 × Gaussian(z = 2)"
    own = words(route(UPLOAD, Unit.RECORD, View.SERVER, copies=5))  # every client has its own noise
    assert own == "50 × Gaussian(z = 2)"
    assert words(route(AT_SERVER, Unit.CLIENT, View.RELEASED, COINS, copies=5)) == words(
        route(AT_SERVER, Unit.CLIENT, View.RELEASED, COINS)
    )


@pytest.mark.parametrize("rule", [Quantile(1.0, sigma=0.001), Histogram(1.0, sigma=0.001)], ids=lambda rule: rule.kind)
@pytest.mark.parametrize("sigma", [0.0, 0.0011])
def test_reports_of_the_clients_are_not_hidden_by_noise_at_the_server(rule: Quantile | Histogram, sigma: float) -> None:
    """They choose the next bound, which every client gets and which moves the next sum."""
    upload = Gaussian(clip=Clip(rule), sigma=sigma, unit=Unit.CLIENT)
    server = Gaussian(clip=Clip(Constant(1.0)), sigma=2.0, unit=Unit.CLIENT)
    fixed = replace(upload, clip=Clip(Constant(1.0)))
    for cohort in (Everyone(), PoissonCohort(0.1), FixedSize(10)):
        method = replace(FED_AVG, upload=upload, server=server, cohort=cohort)
        table = plan(method, POPULATION, 3, delta=1e-5, rounds=5)
        safe = plan(replace(method, upload=fixed), POPULATION, 3, delta=1e-5, rounds=5)
        for view in (View.PEER, View.RELEASED):
            cell = table.of(Unit.CLIENT, view)
            assert safe.of(Unit.CLIENT, view).epsilon < 100
            assert cell.epsilon > 1000  # what the upload's own noise gives, if any
            assert sigma or "do not pass through the server's noise" in cell.reason
    with pytest.raises(FedveilError, match="do not pass through the server's noise"):
        check_kept(
            Round(
                replace(FED_AVG, upload=replace(upload, sigma=0.0), server=server).declare(0, 500, 3, 40), Everyone()
            ),
            500,
            Budget(8.0, 1e-5, Unit.CLIENT, View.RELEASED),
            Crowd(40),
        )


def test_a_bound_at_the_server_that_follows_noisy_uploads_takes_nothing_from_them() -> None:
    upload = Gaussian(clip=Clip(Constant(1.0)), sigma=2.0, unit=Unit.CLIENT)
    server = Gaussian(clip=Clip(Quantile(1.0)), sigma=1.0, unit=Unit.CLIENT)
    both = replace(FED_AVG, upload=upload, server=server, cohort=Everyone())
    alone = plan(replace(both, server=None), POPULATION, 3, delta=1e-5, rounds=5).of(Unit.CLIENT, View.SERVER)
    assert plan(both, POPULATION, 3, delta=1e-5, rounds=5).of(Unit.CLIENT, View.SERVER).epsilon == alone.epsilon


def test_a_report_of_the_norms_is_composed_with_what_it_goes_with() -> None:
    found = words(route(replace(UPLOAD, report=3.0), Unit.CLIENT, View.SERVER))
    assert found == "10 × Gaussian(z = 2.4)"  # (4^−2 + 3^−2)^(−1/2)


def test_a_bound_read_without_noise_is_a_caveat_and_nothing_at_all_under_strict() -> None:
    leaking = replace(AT_SERVER, leaks_bound=True)
    found = route(leaking, Unit.CLIENT, View.RELEASED)
    assert isinstance(found, Route)
    assert found.caveats[0].kind is CaveatKind.LEAKED_BOUND
    assert found.caveats[0].text.startswith("NOT private as it stands")
    refused = route(leaking, Unit.CLIENT, View.RELEASED, strict=True)
    assert isinstance(refused, Unprotected)
    assert "without noise" in refused.reason
    geyer = replace(zoo.GEYER, cohort=FixedSize(10))
    cell = (Unit.CLIENT, View.RELEASED)
    promised = plan(geyer, POPULATION, 3, delta=1e-5, rounds=2, strict=True)
    spent = replay([], POPULATION, geyer, 3, delta=1e-5, rounds=2, strict=True)
    for table in (promised, spent):
        assert not table.of(*cell).finite
        assert "without noise" in table.of(*cell).reason
    assert plan(geyer, POPULATION, 3, delta=1e-5, rounds=2).of(*cell).finite


def test_a_peer_that_is_sent_mixtures_of_models_is_accounted_like_the_server() -> None:
    mixing = Crowd(200, mixing=True)
    summed = replace(UPLOAD, adds_up=True)
    assert words(route(summed, Unit.CLIENT, View.PEER, crowd=mixing)) == "10 × Gaussian(z = 4)"
    assert words(route(UPLOAD, Unit.CLIENT, View.PEER, COINS, crowd=mixing)) == "10 × Gaussian(z = 4)"
    method = replace(POISSON, cohort=PoissonCohort(0.1), personal=Attention())
    table, shared = (plan(m, POPULATION, 3, delta=1e-5) for m in (method, replace(method, personal=Shared())))
    assert table.of(Unit.RECORD, View.PEER).epsilon == table.of(*SERVER).epsilon
    assert shared.of(Unit.RECORD, View.PEER).epsilon < shared.of(*SERVER).epsilon


def test_an_unknown_place_is_never_guessed() -> None:
    found = route(replace(UPLOAD, place="moon"), Unit.CLIENT, View.RELEASED)
    assert isinstance(found, Unprotected)
    assert "moon" in found.reason


def test_repeated_attempts_of_a_hidden_round_are_counted() -> None:
    hidden = replace(FED_CDP, cohort=PoissonCohort(0.1))
    released = (Unit.RECORD, View.RELEASED)
    once = replay([], POPULATION, hidden, 3, delta=1e-5, rounds=3).of(*released).epsilon
    attempts = [0] * 51 + [1, 2]
    repeated = replay([], POPULATION, hidden, 3, delta=1e-5, rounds=3, attempts=attempts).of(*released).epsilon
    assert repeated == plan(hidden, POPULATION, 3, delta=1e-5, rounds=53).of(*released).epsilon > once
    for wrong in ([0, 1], [0, 1, 2, 3]):
        with pytest.raises(FedveilError, match="attempts"):
            replay([], POPULATION, hidden, 3, delta=1e-5, rounds=3, attempts=wrong)


def test_calibrating_the_cohort_keeps_its_limit() -> None:
    limited = replace(FED_CDP, cohort=FixedSize(10, most=5))
    found = calibrate(limited, POPULATION, 3, Budget(2.0, 1e-5), solve="cohort")
    assert found.method.cohort.most == 5
    assert plan(found.method, POPULATION, 3, delta=1e-5).of(*SERVER).epsilon == found.guarantee.epsilon


def test_renyi_certificates_are_named_only_where_precision_leaves_no_other() -> None:
    for delta, accountant in ((1e-5, "PLD"), (1e-14, "PLD"), (1e-30, "RDP")):
        found = plan(POISSON, POPULATION, 3, delta=delta).of(*SERVER)
        named = found.caveat(CaveatKind.RENYI) is not None
        assert (found.accountant, named) == (accountant, accountant == "RDP")


def test_a_hidden_draw_is_said_for_cohorts_of_fixed_size_too() -> None:
    words, cell = "not for a client known to have been drawn", (Unit.CLIENT, View.RELEASED)
    noisy = Gaussian(clip=Clip(1.0), sigma=1.0, unit=Unit.CLIENT)
    for cohort, said in ((FixedSize(10), True), (PoissonCohort(0.1), True), (Everyone(), False)):
        found = plan(replace(zoo.FED_AVG, server=noisy, cohort=cohort), POPULATION, 3, delta=1e-5).of(*cell)
        assert found.finite
        assert any(words in text for text in texts(found)) is said


def test_one_round_of_a_drawn_cohort_is_not_said_to_be_everyones() -> None:
    for cohort, said in ((FixedSize(10), False), (Everyone(), True)):
        found = plan(replace(FED_CDP, cohort=cohort), POPULATION, 3, delta=1e-5, rounds=1).of(*SERVER)
        assert any("in all of which every client takes part" in text for text in texts(found)) is said


def test_a_guarantee_is_never_printed_without_what_spoils_it() -> None:
    cell = (Unit.CLIENT, View.RELEASED)
    printed = str(plan(zoo.GEYER, Population((600,) * 400), 3, delta=1e-5, seeded=True).of(*cell))
    assert printed.startswith("client × released: ε = ")
    assert "; NOT private as it stands: " in printed
    assert "; not private: seeded" in printed
    assert str(plan(SMALL, POPULATION, 3, delta=1e-5).of(*SERVER)).endswith("100 × Gaussian(z = 7.746))")
