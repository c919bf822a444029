"""The front doors choose from public facts, say why, and give way to what the user states."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedveil.accounting.context import Budget
from fedveil.accounting.tradeoff import mean_of_epsilon
from fedveil.config.front_doors import (
    DOORS,
    FASTEST,
    LEAST_CLIP,
    LONGEST_STRETCH,
    MOMENTUM,
    MOST_CLIP,
    OTHER_CLIENT_RATE,
    OUTPUT_NOISE,
    RECORD_ROUNDS,
    as_settings,
    choices_for,
    is_stated,
)
from fedveil.config.public_facts import PublicFacts, facts_of, load_for
from fedveil.config.spec import DataSpec, resolve
from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset, Examples, from_tensors
from fedveil.data.partitions import Random, Shards
from fedveil.parts.batches import FullBatch
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort
from fedveil.parts.optimisers import Momentum
from fedveil.runs.outlook import resolve_for
from fedveil.runs.prepare import prepare

RECORDS = Budget(1.0, 1e-5, Unit.RECORD, View.SERVER)
CLIENTS = Budget(1.0, 1e-5, Unit.CLIENT, View.RELEASED)
TABLE = PublicFacts((13,), 2, (200, 170, 30, 85), tokens=False, budget=RECORDS)
FOUR = {"data.clients": 4, "data.records": 15, "data.partition": "random"}
PICTURES = PublicFacts((1, 28, 28), 10, (500,) * 1000, tokens=False, budget=RECORDS)


def chosen(door: str, facts: PublicFacts, stated: dict[str, Any] | None = None) -> dict[str, Any]:
    return {choice.key: choice.value for choice in choices_for(door, facts, stated or {})}


def own_records(name: str = "mine", shape: tuple[int, ...] = (5,), records: int = 60) -> Dataset:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(records, *shape, generator=generator)
    labels = (inputs.flatten(1)[:, 0] > 0).long()
    part = Examples(inputs, labels)
    return from_tensors(name, part, part, 2, features="public", validation_records="public")


def test_facts_hold_no_name_and_no_record() -> None:
    assert [field.name for field in fields(PublicFacts)] == ["input_shape", "outputs", "records", "tokens", "budget"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("facts", [TABLE, PICTURES])
def test_every_choice_has_a_reason_and_no_key_is_chosen_twice(door: str, facts: PublicFacts) -> None:
    choices = choices_for(door, facts, {})
    assert all(choice.reason for choice in choices)
    assert len({choice.key for choice in choices}) == len(choices)
    assert f"{choices[0].key} = {choices[0].value}: " in str(choices[0])


@pytest.mark.parametrize(
    ("shape", "model"),
    [
        ((13,), "linear"),
        ((1, 28, 28), "scattering"),
        ((3, 32, 32), "scattering"),
        ((1, 8, 8), "linear"),  # waves are longer than that
        ((4, 32, 32), "linear"),
        ((20, 6), "linear"),
    ],
)
def test_pictures_get_wavelets_and_everything_else_rows_of_length_1(shape: tuple[int, ...], model: str) -> None:
    assert chosen("private-records", replace(TABLE, input_shape=shape))["model.name"] == model


@pytest.mark.parametrize(
    ("numbers", "records", "epsilon", "options"),
    [
        (13, 100, 1.0, {}),  # noise only lets single numbers speak
        (13, 2000, 1.0, {"low_ends": True, "products": True}),
        (13, 2000, 0.02, {}),
        (64, 2000, 1.0, {"products": True}),
        (105, 2000, 1.0, {}),
        (13, 2_000_000, 1.0, {}),  # more than memory should hold
    ],
)
def test_rows_have_more_features_where_noise_and_memory_allow(
    numbers: int, records: int, epsilon: float, options: dict[str, bool]
) -> None:
    budget = replace(RECORDS, epsilon=epsilon)
    facts = replace(TABLE, input_shape=(numbers,), records=(records,) * 4, budget=budget)
    table = as_settings(choices_for("private-records", facts, {}))
    assert table["model"].get("options", {}) == options
    many = choices_for("private-records", replace(facts, outputs=2000), {})  # each with noise of its own
    assert "options" not in as_settings(many)["model"]
    number = choices_for("private-records", replace(facts, outputs=1), {})  # is predicted, and errors count
    assert as_settings(number)["model"]["options"] == {"constant": 1.0}


@pytest.mark.parametrize(("clients", "more"), [(100, False), (400, True)])
def test_rows_of_many_clients_have_more_features(clients: int, more: bool) -> None:
    facts = replace(TABLE, records=(30,) * clients, budget=CLIENTS)
    assert ("model.options.products" in chosen("private-clients", facts)) == more


def test_predicted_numbers_get_less_noise_than_outputs_that_tell_classes_apart() -> None:
    classes, number = (as_settings(choices_for("private-records", replace(TABLE, outputs=n), {})) for n in (2, 1))
    ways = [table["local"]["rate"] * table["example"]["clip"]["bound"] for table in (classes, number)]
    assert ways[1] == pytest.approx(ways[0] / 4, rel=0.05)


def test_a_linear_model_that_the_user_names_keeps_its_numbers() -> None:
    many = replace(TABLE, records=(2000,) * 4)
    assert "model.options.products" not in chosen("private-records", many, {"model": {"name": "linear"}})


def test_few_sites_all_take_part_and_many_are_limited_to_what_they_pay_for() -> None:
    assert chosen("private-records", TABLE)["cohort"] == {"kind": "everyone"}
    many = chosen("private-records", PICTURES)["cohort"]
    assert many == {"kind": "fixed", "size": 100, "most": 10}
    assert many["most"] * 1000 >= RECORD_ROUNDS * many["size"]  # nobody is missing in the last round


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("facts", [TABLE, PICTURES])
def test_the_noise_of_a_training_stays_near_one_in_the_outputs(facts: PublicFacts, epsilon: float) -> None:
    facts = replace(facts, budget=replace(RECORDS, epsilon=epsilon))
    table = as_settings(choices_for("private-records", facts, {}))
    rate, clip = table["local"]["rate"], table["example"]["clip"]["bound"]
    assert LEAST_CLIP <= clip <= MOST_CLIP
    assert 0 < rate <= FASTEST
    together, uses = (4, RECORD_ROUNDS) if facts.clients == 4 else (100, 10)
    sigma = math.sqrt(uses) / mean_of_epsilon(epsilon, 1e-5)
    per_round = rate * clip * sigma / (math.sqrt(together) * facts.mean_records)
    whole = per_round * math.sqrt(RECORD_ROUNDS) / (1 - MOMENTUM)
    assert whole <= 1.05 * OUTPUT_NOISE  # rates are rounded to two digits
    if rate < FASTEST:
        assert whole >= 0.95 * OUTPUT_NOISE


def test_less_privacy_or_more_records_never_slow_training_down() -> None:
    rates = [
        chosen("private-records", replace(TABLE, budget=replace(RECORDS, epsilon=epsilon)))["local.rate"]
        for epsilon in (0.1, 0.5, 1.0, 4.0)
    ]
    assert rates == sorted(rates)
    more = replace(TABLE, records=tuple(10 * size for size in TABLE.records))
    assert chosen("private-records", more)["local.rate"] > chosen("private-records", TABLE)["local.rate"]


def test_rounds_that_are_stated_change_what_follows_from_them() -> None:
    fewer = chosen("private-records", TABLE, {"stop": {"rounds": 25}})
    assert fewer["stop.rounds"] == 25
    assert fewer["local.rate"] == pytest.approx(4 * chosen("private-records", TABLE)["local.rate"], rel=0.06)


def test_a_network_of_ones_own_gets_careful_steps() -> None:
    table = chosen("private-records", PICTURES, {"model": {"name": "cnn"}})
    assert table["model.name"] == "cnn"
    assert table["local.rate"] <= 1.0
    assert "model.options.basis" not in table


def test_tokens_need_a_network_of_ones_own() -> None:
    tokens = replace(TABLE, tokens=True)
    with pytest.raises(FedveilError, match=r"^model.name: the records are tokens"):
        choices_for("private-records", tokens, {})
    assert chosen("private-records", tokens, {"model": {"name": "my:net"}})["model.name"] == "my:net"


def test_clients_join_by_coins_as_far_as_that_is_free() -> None:
    facts = replace(PICTURES, budget=CLIENTS)
    assert chosen("private-clients", facts)["cohort"] == {"kind": "poisson", "rate": 0.4}  # at least 400 of them
    many = replace(facts, records=(500,) * 3_000, budget=replace(CLIENTS, epsilon=8.0))
    assert 0.2 < chosen("private-clients", many)["cohort"]["rate"] < 0.35
    few = chosen("private-clients", replace(facts, records=(500,) * 80))["cohort"]
    assert few == {"kind": "poisson", "rate": 1.0}
    crowd = replace(facts, records=(500,) * 50_000, budget=replace(CLIENTS, epsilon=8.0))
    assert chosen("private-clients", crowd)["cohort"]["rate"] == pytest.approx(0.02)


def test_clients_make_longer_steps_where_noise_is_small() -> None:
    strict, loose, freest = (
        chosen("private-clients", replace(PICTURES, budget=replace(CLIENTS, epsilon=epsilon)))
        for epsilon in (0.3, 4.0, 100.0)
    )
    classes = float(PICTURES.outputs)
    assert strict["local.rate"] == classes
    assert classes < loose["local.rate"] < freest["local.rate"]
    assert loose["local.rate"] == pytest.approx(classes * loose["server.clip.bound"]["start"], rel=0.05)
    assert freest["local.rate"] == classes * LONGEST_STRETCH


def test_clients_that_predict_a_number_or_train_a_named_network_keep_their_rate() -> None:
    free = replace(CLIENTS, epsilon=100.0)
    assert chosen("private-clients", replace(PICTURES, outputs=1, budget=free))["local.rate"] == 0.5
    own = chosen("private-clients", replace(PICTURES, budget=free), {"model": {"name": "my:net"}})
    assert own["local.rate"] == OTHER_CLIENT_RATE


def test_the_bound_of_updates_is_private_and_starts_where_the_noise_allows() -> None:
    strict, loose = (
        chosen("private-clients", replace(PICTURES, budget=replace(CLIENTS, epsilon=epsilon)))["server.clip.bound"]
        for epsilon in (0.5, 4.0)
    )
    assert strict["kind"] == loose["kind"] == "quantile"
    assert 0 < strict["start"] < loose["start"]


def test_resolving_fills_in_the_choices_and_keeps_what_is_stated() -> None:
    spec = resolve_for("private-records", {**FOUR, "local.rate": 0.7}, own_records())
    method = spec.method
    assert spec.model.name == "linear"
    assert (method.cohort, method.batch, method.rounds) == (Everyone(), FullBatch(), RECORD_ROUNDS)
    assert method.local.rate.at(0, 1) == 0.7
    assert method.aggregate.optimiser == Momentum(MOMENTUM)
    assert (method.aggregate.weights, method.aggregate.average) == ("records", 0.25)
    assert (spec.privacy.unit, spec.privacy.view, spec.privacy.calibrate) == (Unit.RECORD, View.SERVER, True)
    keys = [choice.key for choice in spec.choices]
    assert "model.name" in keys
    assert "local.rate" not in keys  # that was not chosen


def test_a_spec_that_is_spelt_out_chooses_nothing_again() -> None:
    first = resolve_for("private-records", FOUR, own_records())
    again = resolve(first.to_dict())  # no data set is known by that name, so choosing would fail
    assert again == first
    assert again.choices == ()


def test_the_name_of_the_data_set_changes_nothing() -> None:
    mine = resolve_for("private-records", FOUR, own_records("mine"))
    mnist = resolve_for("private-records", FOUR, own_records("mnist"))
    assert mine.method == mnist.method
    assert mine.model == mnist.model


def test_a_cohort_size_that_is_stated_makes_a_cohort_of_that_size() -> None:
    spec = resolve_for("private-records", {"data.clients": 6, "data.records": 10, "cohort.size": 3}, own_records())
    assert spec.method.cohort == FixedSize(3, most=50)
    door = {"data.clients": 6, "data.records": 10, "cohort.rate": 0.5}
    assert resolve_for("private-clients", door, own_records()).method.cohort == PoissonCohort(0.5)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("value", [-1, 0, "x", [3], math.nan, math.inf, True])
@pytest.mark.parametrize("key", ["stop.rounds", "cohort.size", "cohort.rate"])
def test_a_number_that_can_not_be_is_refused_by_its_key_and_not_reckoned_with(door: str, key: str, value: Any) -> None:
    assert choices_for(door, TABLE, {key.partition(".")[0]: {key.partition(".")[2]: value}})
    fits = (door, key) not in {("private-records", "cohort.rate"), ("private-clients", "cohort.size")}
    if fits:
        with pytest.raises(FedveilError, match=f"^{key}: "):
            resolve_for(door, {**FOUR, key: value}, own_records())


def test_a_clip_that_is_raised_by_rounding_alone_still_cuts() -> None:
    facts = replace(TABLE, records=(90, 300, 600, 975, 1500))
    clip = next(choice for choice in choices_for("private-records", facts, {}) if choice.key == "example.clip.bound")
    assert LEAST_CLIP < clip.value < 1.1 * LEAST_CLIP
    assert clip.reason == "a smaller clip would cut what is learned from"


def test_without_an_epsilon_the_doors_still_choose() -> None:
    overrides = {**FOUR, "privacy.calibrate": False, "privacy.epsilon": "none"}
    spec = resolve_for("private-records", {**overrides, "example.sigma": 2.0}, own_records())
    assert spec.method.local.rate.at(0, 1) == FASTEST
    assert spec.method.example is not None
    assert spec.method.example.sigma == 2.0


def test_facts_are_those_of_the_records_and_of_who_holds_them() -> None:
    facts = facts_of(DataSpec(name="mine", clients=5, records=12, partition=Random()), RECORDS, own_records().outline)
    assert facts == PublicFacts((5,), 2, (12,) * 5, False, RECORDS)
    assert (facts.clients, facts.mean_records, facts.numbers, facts.picture) == (5, 12.0, 5, False)


def test_what_is_stated_is_found_at_any_depth() -> None:
    settings = {"example": {"clip": {"bound": 0.3}}, "cohort": "everyone"}
    assert is_stated(settings, "example.clip.bound")
    assert is_stated(settings, "example.clip")
    assert not is_stated(settings, "example.sigma")
    assert is_stated(settings, "cohort")
    assert not is_stated(settings, "cohort.size")


def test_facts_of_a_named_set_are_known_without_reading_it_and_are_those_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [
        DataSpec(name="cancer", clients=5, records=80, partition=Random()),
        DataSpec(name="cancer", clients=200, records=40, partition=Shards(2)),
    ]
    read = [facts_of(spec, RECORDS, load_for(spec).outline) for spec in specs]
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path))
    assert [facts_of(spec, RECORDS) for spec in specs] == read
    adult = facts_of(DataSpec(name="adult", clients=3, records=7, partition=Random()), RECORDS)  # no file is here
    assert (adult.input_shape, adult.outputs, adult.records) == ((105,), 2, (7, 7, 7))


@pytest.mark.parametrize(("low", "high", "refused"), [(0.0, 1.0, False), (0.0, 255.0, True), (-1.0, 1.0, True)])
def test_pictures_of_other_numbers_than_bytes_or_0_to_1_are_refused(low: float, high: float, refused: bool) -> None:
    pictures = torch.rand(40, 1, 16, 16) * (high - low) + low
    labels = torch.arange(40) % 2
    own = from_tensors("own", (pictures, labels), (pictures, labels), 2)
    spec = resolve_for("private-records", {"data.clients": 4, "data.records": 10}, own)
    if not refused:
        assert prepare(spec, own).spec.model.name == "scattering"
        return
    with pytest.raises(FedveilError, match="pictures must be bytes"):
        prepare(spec, own)
