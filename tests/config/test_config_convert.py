"""Tables become dataclasses and back; what does not fit is refused by its key."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest
import tomli_w

from fedveil.config.convert import structure, unstructure
from fedveil.config.data_spec import DataSpec
from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.gaussian import Gaussian
from fedveil.mechanisms.schedules import Constant, Exponential, Linear, Polynomial, Schedule, Staircase
from fedveil.method import Method
from fedveil.parts.aggregation import Aggregation
from fedveil.parts.batches import BatchSampler, FullBatch, PartitionBatch, PoissonBatch, WithoutReplacement
from fedveil.parts.cohorts import Cohort, Everyone, FixedSize, PoissonCohort
from fedveil.parts.local_training import LocalTraining
from fedveil.parts.optimisers import AdaGrad, Adam, Momentum, Optimiser, Sgd
from fedveil.parts.stopping import Stop

COHORTS: list[Cohort] = [PoissonCohort(0.1), FixedSize(7), Everyone()]
BATCHES: list[BatchSampler] = [PoissonBatch(5, 9), WithoutReplacement(3), PartitionBatch(4), FullBatch()]
OPTIMISERS: list[Optimiser] = [Sgd(), Momentum(0.5), Adam(0.8, 0.9, 1e-6), AdaGrad(1e-8)]
SCHEDULES: list[Schedule] = [
    Constant(0.1 + 0.2),
    Linear(6.0, 2.0),
    Exponential(1.0, 1e-3),
    Staircase(0.1, 0.5, 10),
    Polynomial(3.0, 0.5),
]


def through_toml(method: Method) -> Method:
    return structure(tomllib.loads(tomli_w.dumps(unstructure(method))), Method, "")


@pytest.mark.parametrize("cohort", COHORTS, ids=str)
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_every_cohort_and_batch_survives_the_round_trip(cohort: Cohort, batch: BatchSampler) -> None:
    method = Method(cohort=cohort, batch=batch)
    assert through_toml(method) == method


def test_a_poisson_batch_without_a_cap_survives_the_round_trip() -> None:
    method = Method(batch=PoissonBatch(5))
    assert through_toml(method) == method


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_every_optimiser_and_schedule_survives_the_round_trip_in_every_place(
    optimiser: Optimiser, schedule: Schedule
) -> None:
    method = Method(
        local=LocalTraining(optimiser=optimiser, rate=schedule, epochs=3, decay=5e-4),
        aggregate=Aggregation(optimiser=optimiser, rate=schedule),
        example=Gaussian(clip=Clip(schedule, by="layer"), sigma=0.7, noise="row"),
        stop=Stop(12),
    )
    assert through_toml(method) == method


def test_absent_parts_are_the_word_none_and_constants_are_numbers() -> None:
    table = unstructure(Method())
    assert table["example"] == "none"
    assert table["local"] == {"steps": 100, "epochs": "none", "optimiser": {"kind": "sgd"}, "rate": 0.1, "decay": 0.0}


def test_a_bare_word_is_a_kind_and_a_bare_number_a_constant() -> None:
    method = structure({"cohort": "everyone", "batch": "all", "local": {"rate": 1, "optimiser": "adam"}}, Method, "")
    assert (method.cohort, method.batch) == (Everyone(), FullBatch())
    assert (method.local.rate, method.local.optimiser) == (Constant(1.0), Adam())


def test_a_whole_number_is_a_number_but_not_the_other_way_round() -> None:
    sigma = structure({"example": {"clip": {"bound": 4}, "sigma": 6}}, Method, "").example.sigma  # type: ignore[union-attr]
    assert sigma == 6.0
    assert type(sigma) is float
    with pytest.raises(FedveilError, match=r"^stop\.rounds: expected a whole number, not 3\.0$"):
        structure({"stop": {"rounds": 3.0}}, Method, "")


@pytest.mark.parametrize("table", [3, "word", [1], None, True, 0.5])
def test_something_that_is_no_table_is_refused(table: Any) -> None:
    with pytest.raises(FedveilError, match=r"^data: expected a table, not"):
        structure(table, DataSpec, "data")


# Every kind of bad input as an override of Fed-CDP: key, value, and what the one line begins with and contains
NAN, INF = math.nan, math.inf
BAD: list[tuple[str, Any, str, str]] = [
    # unknown keys
    ("cohort.sice", 3, "cohort", "unknown key sice; did you mean size?"),
    ("local.momentum", 3, "local", "unknown key momentum; there are steps, epochs"),
    ("local.optimiser", {"kind": "adam", "gamma": 1}, "local.optimiser", "unknown key gamma"),
    ("example.delta", 1e-5, "example", "unknown key delta"),
    ("example.clip.norm", 2, "example.clip", "unknown key norm"),
    ("data.nam", "x", "data", "unknown key nam; did you mean name?"),
    ("data.partition.shards", 2, "data.partition", "unknown key shards"),
    ("model.option", {}, "model", "unknown key option; did you mean options?"),
    ("evaluation.ever", 1, "evaluation", "unknown key ever; did you mean every?"),
    ("stop.epsilon", 1, "stop", "unknown key epsilon"),
    ("moon", 1, "moon", "unknown key"),
    ("server", 1, "server", "expected a table, not 1"),
    # wrong types
    ("example.sigma", "big", "example.sigma", "expected a number, not 'big'"),
    ("example.sigma", True, "example.sigma", "expected a number, not True"),
    ("example.sigma", [6], "example.sigma", "expected a number"),
    ("example.sigma", {"a": 1}, "example.sigma", "expected a number"),
    ("example.clip.by", 3, "example.clip.by", "expected a word, not 3"),
    ("example.unit", "people", "example.unit", "must be record or client"),
    ("example.unit", 3, "example.unit", "must be record or client"),
    ("cohort.size", 2.5, "cohort.size", "expected a whole number, not 2.5"),
    ("batch.size", "5", "batch.size", "expected a whole number"),
    ("batch", {"kind": "poisson", "size": 5, "cap": "x"}, "batch.cap", "expected a whole number"),
    ("local.steps", 1.5, "local.steps", "expected a whole number"),
    ("local.epochs", "some", "local.epochs", "expected a whole number"),
    ("local.rate", True, "local.rate", "expected a table with a kind"),
    ("local.rate", [0.1], "local.rate", "expected a table with a kind"),
    ("local.rate", {"kind": "linear", "start": 1, "end": "x"}, "local.rate.end", "expected a number"),
    ("stop.rounds", "many", "stop.rounds", "expected a whole number"),
    ("data.clients", 1.0, "data.clients", "expected a whole number"),
    ("data.records", "all", "data.records", "expected a whole number"),
    ("data.name", 3, "data.name", "expected a word"),
    ("model.name", 3, "model.name", "expected a word"),
    ("evaluation.every", True, "evaluation.every", "expected a whole number"),
    ("seed", 1.5, "seed", "expected a whole number"),
    ("seed", True, "seed", "expected a whole number"),
    ("seed", "lucky", "seed", "expected a whole number"),
    ("method", 3, "method", "expected the name of a method"),
    # values out of range
    ("example.sigma", -1, "example.sigma", "must not be negative"),
    ("example.sigma", NAN, "example.sigma", "must not be negative, infinite or NaN"),
    ("example.sigma", INF, "example.sigma", "must not be negative, infinite or NaN"),
    ("example.clip", 0, "example.clip.bound", "must be a positive"),
    ("example.clip", -4.0, "example.clip.bound", "must be a positive"),
    ("example.clip.bound", NAN, "example.clip.bound", "must be a positive"),
    ("example.clip.bound", INF, "example.clip.bound", "must be a positive"),
    ("example.clip.bound", {"kind": "linear", "start": 6, "end": 0}, "example.clip.bound.end", "must be a positive"),
    ("example.clip.by", "rows", "example.clip.by", "must be 'flat' or 'layer'"),
    ("example.noise", "rows", "example.noise", "must be 'row' or 'sum'"),
    ("example.unit", "client", "example.unit", "must be 'record'"),
    ("cohort.size", 0, "cohort.size", "must be a positive"),
    ("cohort", {"kind": "poisson", "rate": 0}, "cohort.rate", "must be above 0 and at most 1"),
    ("cohort", {"kind": "poisson", "rate": NAN}, "cohort.rate", "must be above 0 and at most 1"),
    ("cohort", {"kind": "poisson", "rate": 1.5}, "cohort.rate", "must be above 0 and at most 1"),
    ("batch.size", -5, "batch.size", "must be a positive"),
    ("batch", {"kind": "poisson", "size": 5, "cap": 3}, "batch.cap", "must be at least"),
    ("local.steps", 0, "local.steps", "must be a positive"),
    ("local.epochs", 0, "local.epochs", "must be a positive"),
    ("local.rate", 0, "local.rate", "must be a positive"),
    ("local.rate", NAN, "local.rate", "must be a positive"),
    ("local.decay", -1, "local.decay", "must not be negative"),
    ("local.decay", INF, "local.decay", "must not be negative"),
    ("local.optimiser", {"kind": "momentum", "beta": 1.0}, "local.optimiser.beta", "must be at least 0 and below 1"),
    ("local.optimiser", {"kind": "momentum", "beta": NAN}, "local.optimiser.beta", "must be at least 0 and below 1"),
    ("aggregate.rate", -1, "aggregate.rate", "must be a positive"),
    (
        "aggregate.rate",
        {"kind": "staircase", "start": 1, "factor": 2, "every": 0},
        "aggregate.rate.every",
        "must be a positive",
    ),
    ("stop.rounds", 0, "stop.rounds", "must be a positive"),
    ("stop.rounds", 10**400, "stop.rounds", ""),
    ("example.sigma", 10**400, "example.sigma", ""),
    ("data.clients", 0, "data.clients", "must be a positive"),
    ("data.records", -1, "data.records", "must be a positive"),
    ("data.test", -1, "data.test", "must not be negative"),
    ("data.partition", {"kind": "shards", "per_client": 0}, "data.partition", "per_client must be at least 1"),
    ("data.partition", {"kind": "dirichlet", "beta": NAN}, "data.partition", "beta must be a number"),
    ("evaluation.every", 0, "evaluation.every", "must be a positive"),
    # missing fields of a kind
    ("cohort", "poisson", "cohort.rate", "the key rate is missing"),
    ("cohort", {"kind": "poisson"}, "cohort.rate", "the key rate is missing"),
    ("batch", "without-replacement", "batch.size", "the key size is missing"),
    ("local.rate", {"kind": "linear", "start": 1}, "local.rate.end", "the key end is missing"),
    # unknown and missing kinds
    ("cohort", "nobody", "cohort", "kind must be one of poisson, fixed, everyone, not 'nobody'"),
    ("cohort", {"kind": 3}, "cohort", "kind must be one of"),
    ("cohort", {"kind": ["fixed"]}, "cohort", "kind must be one of"),
    ("batch", "bootstrap", "batch", "kind must be one of poisson, without-replacement, partition, all"),
    ("local.optimiser", "adma", "local.optimiser", "kind must be one of sgd, momentum, adam, adagrad"),
    ("local.rate", {"start": 1.0}, "local.rate", "kind must be one of constant, linear"),
    ("data.partition", "fair", "data.partition", "kind must be one of shards, random, dirichlet, copy"),
    ("method", "fedfoo", "method", "there is no method 'fedfoo'"),
    # not a table
    ("cohort", 3, "cohort", "expected a table with a kind"),
    ("data", 3, "data", "expected a table, not 3"),
    ("data", [], "data", "expected a table, not []"),
    ("model", "cnn", "model", "expected a table, not 'cnn'"),
    ("evaluation", 1, "evaluation", "expected a table, not 1"),
]


@pytest.mark.parametrize(("key", "value", "where", "words"), BAD, ids=lambda part: str(part)[:40])
def test_bad_input_is_refused_in_one_line_that_names_the_key(key: str, value: Any, where: str, words: str) -> None:
    with pytest.raises(FedveilError) as caught:
        resolve("fed-cdp", {key: value})
    message = str(caught.value)
    assert message.startswith(f"{where}: ")
    assert words in message
    assert "\n" not in message


def test_several_problems_are_told_at_once() -> None:
    with pytest.raises(FedveilError) as caught:
        resolve("fed-cdp", {"local.rate": -1, "cohort": "nobody", "stop.rounds": "x"})
    message = str(caught.value)
    assert all(f"{key}: " in message for key in ("local.rate", "cohort", "stop.rounds"))
    assert "\n" not in message


def test_a_mechanism_for_a_method_without_one_must_be_complete() -> None:
    with pytest.raises(FedveilError, match=r"^example\.clip: fedavg adds no noise .* example\.sigma must be given too"):
        resolve("fedavg", {"example": {"clip": {"bound": 4.0}}})
    with pytest.raises(FedveilError, match=r"^example\.sigma: fedavg adds no noise .* example\.clip must be given too"):
        resolve("fedavg", {"example": {"sigma": 4.0}})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("example", 3),
        ("example", [1]),
        ("example.clip", "flat"),
        ("local", 3),
        ("aggregate", 3),
        ("stop", 5),
        ("stop", "none"),
        ("model.options", 3),
    ],
)
def test_a_part_that_is_no_table_is_refused_in_words(key: str, value: Any) -> None:
    with pytest.raises(FedveilError, match=rf"^{key}: expected a table"):
        resolve("fed-cdp", {key: value})


@pytest.mark.parametrize("key", ["example.sigma", "cohort.size", "local.steps", "stop.rounds", "data.clients"])
def test_a_value_out_of_range_is_refused_by_its_whole_dotted_key(key: str) -> None:
    with pytest.raises(FedveilError, match=rf"^{key}\b"):
        resolve("fed-cdp", {key: -1})
