"""A spec is filled in by precedence and survives its own file."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch

from fedveil.config.data_spec import DataSpec
from fedveil.config.front_doors import DOORS
from fedveil.config.spec import EvaluationSpec, ModelSpec, Spec, resolve
from fedveil.core.errors import FedveilError
from fedveil.core.objectives import CrossEntropy, Huber, SquaredError
from fedveil.core.parameters import Layout
from fedveil.data.dataset import Dataset
from fedveil.data.known_sets import SETS, task_of
from fedveil.data.partitions import FullCopy, Random, Shards
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.schedules import Constant, Linear
from fedveil.method import Method
from fedveil.parts.batches import FullBatch, PartitionBatch, PoissonBatch
from fedveil.parts.cohorts import Everyone, FixedSize, PoissonCohort
from fedveil.parts.personal import Interpolated
from fedveil.parts.stopping import Stop
from fedveil.runs.prepare import prepare
from fedveil.zoo import FED_AVG, FED_CDP, ZOO, named


@pytest.mark.parametrize("task", SETS)
@pytest.mark.parametrize("method", ZOO)
def test_every_method_on_every_task_survives_its_toml_file(method: str, task: str, tmp_path: Path) -> None:
    spec = resolve({"method": method, "data": {"name": task}, "seed": 3})
    file = tmp_path / "spec.toml"
    file.write_text(spec.to_toml(), encoding="utf-8")
    assert resolve(file) == spec
    assert resolve(str(file)).to_toml() == spec.to_toml()


def test_a_spec_with_everything_changed_survives_its_toml_file(tmp_path: Path) -> None:
    spec = resolve(
        "fed-cdp-decay",
        {
            "data": {"name": "adult", "clients": 7, "records": "none", "partition": "random", "test": 5, "seed": 9},
            "model": {"name": "my.package:factory", "options": {"hidden": [3, 4], "σ": "é\n", "deep": {"a": [1.5]}}},
            "evaluation.every": 4,
            "cohort": {"kind": "poisson", "rate": 1 / 3},
            "batch": {"kind": "poisson", "size": 4, "cap": 11},
            "local": {"epochs": 2, "optimiser": {"kind": "momentum", "beta": 0.3}, "rate": 0.1 + 0.2, "decay": 1e-17},
            "example.noise": "sum",
            "aggregate": {"optimiser": "adam", "rate": {"kind": "staircase", "start": 1, "factor": 0.5, "every": 3}},
            "stop.rounds": 11,
        },
    )
    (tmp_path / "spec.toml").write_text(spec.to_toml(), encoding="utf-8")
    assert resolve(tmp_path / "spec.toml") == spec


@pytest.mark.parametrize(
    "method", [name for name, entry in ZOO.items() if "mnist" not in entry.tasks and name not in DOORS]
)
def test_on_the_papers_first_task_a_name_alone_gives_the_method_of_the_zoo(method: str) -> None:
    spec = resolve(method)
    assert spec.base == method
    assert spec.method == named(method)
    assert spec.data == (replace(DataSpec(), clients=100, test=50) if method == "prifedsync" else DataSpec())
    assert (spec.model, spec.evaluation, spec.seed) == (ModelSpec(name="cnn"), EvaluationSpec(), None)


def test_a_preset_may_bring_a_network_and_settings_of_its_own_to_one_data_set() -> None:
    digits, census = resolve("fed-cdp-calibrated"), resolve("fed-cdp-calibrated", {"data.name": "adult"})
    assert (digits.model.name, digits.method.batch) == ("scattering", FullBatch())
    assert (census.model.name, census.method) == ("mlp", replace(named("fed-cdp-calibrated"), stop=Stop(10)))
    assert digits.method.cohort == census.method.cohort == named("fed-cdp-calibrated").cohort


def test_what_is_told_beats_what_a_preset_brings_to_one_data_set() -> None:
    told = resolve("fed-cdp-calibrated", {"model.name": "mlp", "example.clip": 2.0})
    assert (told.model.name, dict(told.model.options)) == ("mlp", {})
    assert told.method.example is not None
    assert told.method.example.clip.bound == Constant(2.0)
    assert resolve(told.to_dict()) == told


def test_what_a_preset_brings_for_its_network_is_not_for_another_network_or_ones_own_records() -> None:
    brought = resolve("fed-cdp-calibrated").method
    for told in ({"model.name": "cnn"}, {"data.name": "my own"}):
        assert resolve("fed-cdp-calibrated", told).method == named("fed-cdp-calibrated")
        assert resolve("fed-cdp-calibrated", told).model.name == "cnn"
    assert resolve("fed-cdp-calibrated", {"model.name": "scattering"}).method == brought
    assert resolve("fed-cdp-calibrated", {"model.options.outputs": 64}).method == brought


def test_the_spec_for_a_hundred_clients_keeps_the_budget_of_the_preset() -> None:
    spec = resolve(Path(__file__).parents[2] / "specs" / "fed-cdp-calibrated-100.toml")
    assert (spec.data.clients, spec.privacy) == (100, resolve("fed-cdp-calibrated").privacy)
    assert spec.method.cohort == FixedSize(50, most=50)


def test_nothing_at_all_is_fed_cdp_on_mnist() -> None:
    assert resolve() == resolve("fed-cdp") == resolve({})
    assert (resolve().base, resolve().data.name) == ("fed-cdp", "mnist")


# The papers' Table I
@pytest.mark.parametrize(
    ("task", "records", "batch", "rounds", "partition"),
    [
        ("mnist", 500, 5, 100, Shards),
        ("cifar10", 400, 4, 100, Shards),
        ("lfw", 300, 3, 60, Shards),
        ("adult", 300, 3, 10, Random),
        ("cancer", 400, 4, 3, FullCopy),
    ],
)
def test_a_task_brings_the_settings_of_the_paper(
    task: str, records: int, batch: int, rounds: int, partition: type
) -> None:
    spec = resolve("fed-cdp", {"data.name": task})
    assert (spec.data.records, type(spec.data.partition)) == (records, partition)
    assert (spec.method.batch, spec.method.rounds, spec.method.local.steps) == (PartitionBatch(batch), rounds, 100)
    assert spec.method.example == FED_CDP.example


def test_the_task_beats_fedavg() -> None:
    assert task_of("adult")["batch"]["size"] != FED_AVG.batch.declared(1)
    spec = resolve("fedavg", {"data.name": "adult"})
    assert (spec.method.batch, spec.method.rounds) == (PartitionBatch(3), 10)
    assert spec.method.local.rate == Constant(task_of("adult")["local"]["rate"])
    assert spec.method.aggregate == FED_AVG.aggregate


def test_the_method_beats_the_task() -> None:
    spec = resolve("fedsgd", {"data.name": "adult"})
    assert (spec.method.batch, spec.method.local.steps, spec.method.local.rate) == (FullBatch(), 1, Constant(0.5))
    assert (spec.method.rounds, spec.method.cohort) == (10, FixedSize(100))  # on which the method is silent


def test_the_file_beats_the_method_and_the_task(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'method = "fed-cdp"\nseed = 4\n[data]\nname = "adult"\nclients = 50\n[batch]\nsize = 7\n[stop]\nrounds = 2\n'
        "[example]\nsigma = 1.5\nclip = 0.5\n"
    )
    spec = resolve(file)
    assert (spec.data.clients, spec.data.records, spec.seed) == (50, 300, 4)
    assert (spec.method.batch, spec.method.rounds) == (PartitionBatch(7), 2)
    assert spec.method.example is not None
    assert (spec.method.example.sigma, spec.method.example.noise) == (1.5, "row")
    assert spec.method.example.clip == Clip(0.5, by="layer")


def test_overrides_beat_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[stop]\nrounds = 2\n[local]\nsteps = 9\n")
    spec = resolve(
        file, {"method": "fed-cdp", "stop.rounds": 5, "local.rate": {"kind": "linear", "start": 1, "end": 0.5}}
    )
    assert (spec.method.rounds, spec.method.local.steps, spec.method.local.rate) == (5, 9, Linear(1.0, 0.5))


def test_an_override_may_choose_the_task_and_the_method() -> None:
    assert resolve("fed-cdp", {"data.name": "cancer"}).method.rounds == 3
    assert resolve("fed-cdp", {"method": "fedavg"}) == resolve("fedavg")


def test_a_mechanism_can_be_taken_away_and_given() -> None:
    assert resolve("fed-cdp", {"example": "none", "local.rate": 0.1}).method == FED_AVG
    mechanism = {"clip": {"bound": 4.0, "by": "layer"}, "sigma": 6.0, "noise": "row"}
    assert resolve("fedavg", {"example": mechanism, "local.rate": 0.002}).method == FED_CDP


@pytest.mark.parametrize(
    ("overrides", "part", "value"),
    [
        ({"cohort": "everyone"}, "cohort", Everyone()),
        ({"cohort": {"kind": "poisson", "rate": 0.1}}, "cohort", PoissonCohort(0.1)),
        ({"cohort.kind": "poisson", "cohort.rate": 0.1}, "cohort", PoissonCohort(0.1)),
        ({"batch": {"kind": "poisson", "size": 5}}, "batch", PoissonBatch(5)),
        ({"batch": "all"}, "batch", FullBatch()),
        ({"cohort.size": 3}, "cohort", FixedSize(3)),
    ],
)
def test_parts_are_changed_by_word_table_or_field(overrides: dict[str, Any], part: str, value: object) -> None:
    assert getattr(resolve("fed-cdp", overrides).method, part) == value


@pytest.mark.parametrize(
    ("told", "part", "value"),
    [
        ({"batch": "poisson", "batch.size": 20}, "batch", PoissonBatch(20)),
        ({"example.clip": 2, "example.clip.by": "flat"}, "example.clip", Clip(Constant(2.0), by="flat")),
        ({"personal": "interpolated", "personal.alpha": 0.3}, "personal", Interpolated(0.3)),
        ({"cohort": "poisson", "cohort.rate": 0.1, "cohort.most": 5}, "cohort", PoissonCohort(0.1, most=5)),
        ({"batch": {"kind": "poisson"}, "batch.size": 20}, "batch", PoissonBatch(20)),
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_a_kind_and_its_fields_may_be_told_apart_in_any_order(
    told: dict[str, Any], part: str, value: object, backwards: bool, tmp_path: Path
) -> None:
    ordered = dict(reversed(told.items())) if backwards else told
    assert attrgetter(part)(resolve("fed-cdp", ordered).method) == value
    (first, word), *rest = ordered.items()
    if "." not in first:  # the kind in a file, its fields on the command line
        path = tmp_path / "spec.toml"
        path.write_text(tomli_w.dumps({"method": "fed-cdp", first: word}))
        assert attrgetter(part)(resolve(path, dict(rest)).method) == value


def test_a_field_that_the_told_kind_does_not_have_is_refused() -> None:
    for told in ({"batch": "all", "batch.size": 5}, {"batch.size": 5, "batch": "all"}):
        with pytest.raises(FedveilError, match="batch: unknown key size"):
            resolve("fed-cdp", told)


def test_local_steps_count_where_a_preset_has_epochs(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(resolve("geyer").to_toml())
    for spec in (resolve("geyer", {"local.steps": 10}), resolve({"method": "geyer", "local": {"steps": 10}})):
        assert spec.method.local_steps(600) == 10
    assert resolve(path, {"local.steps": 10}).method.local_steps(600) == 10
    assert resolve(path).method.local.epochs == 4
    assert resolve("geyer", {"local.steps": 10, "local.epochs": 2}).method.local.epochs == 2


def test_naming_another_network_drops_the_options_of_the_tasks_network() -> None:
    assert resolve("fedavg", {"data.name": "adult"}).model.options == {"hidden": [64, 32]}
    assert resolve("fedavg", {"data.name": "adult", "model.name": "geyer-mlp"}).model == ModelSpec(name="geyer-mlp")
    assert resolve("fedavg", {"data.name": "adult", "model.options.hidden": [4]}).model.options == {"hidden": [4]}


def test_an_unknown_data_set_gets_the_plain_settings() -> None:
    spec = resolve("fedavg", {"data.name": "my own"})
    assert spec.data == DataSpec(name="my own")
    assert spec.method == FED_AVG


def test_resolving_changes_neither_the_table_nor_the_tasks() -> None:
    table = {"method": "fed-cdp", "data": {"name": "adult"}, "model": {"options": {"hidden": [1]}}}
    before, tasks = repr(table), repr(SETS)
    resolve(table, {"data.clients": 3, "model.options.bias": False})
    assert (repr(table), repr(SETS)) == (before, tasks)


@pytest.mark.parametrize("value", [None, "none"])
def test_no_seed_is_none(value: str | None) -> None:
    assert resolve({"seed": value}).seed is None
    assert resolve({"seed": 0}).seed == 0


def test_the_file_says_everything() -> None:
    table = resolve("fed-cdp").to_dict()
    assert set(table) == {"method", "seed", "data", "model", "evaluation", "privacy", *Method.__dataclass_fields__}
    assert table["example"] == {
        "clip": {"bound": 4.0, "by": "layer"},
        "sigma": 6.0,
        "noise": "row",
        "unit": "record",
        "course": 1.0,
        "each_row": False,
    }


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.toml", None, "can't be read (No such file or directory)"),
        ("broken.toml", b"a = [", "not a TOML file"),
        ("latin.toml", b'method = "\xe9"', "not a TOML file"),
        ("directory.toml", "", "a directory, and not a run"),
        ("empty.toml", b"", 'names no method; say which, as in method = "fed-cdp"'),
    ],
)
def test_a_file_that_is_no_spec_is_refused_in_one_line(
    name: str, content: bytes | str | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        path.mkdir()
    with pytest.raises(FedveilError) as caught:
        resolve(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_path_to_nothing_is_said_to_be_one() -> None:
    with pytest.raises(FedveilError, match=r"^runs/mine: there is no such file or directory$"):
        resolve("runs/mine")


def test_a_word_that_is_neither_method_nor_file_lists_the_methods() -> None:
    with pytest.raises(
        FedveilError,
        match=rf"^fedfoo: neither a method nor a spec file or a run; methods are {', '.join(ZOO)}$",
    ):
        resolve("fedfoo")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[dat]\nname = 'mnist'", r"^dat\.name: unknown key; did you mean data\.name\?$"),
        ("[zzzz]\nqqqq = 1", r"^zzzz\.qqqq: unknown key; there are method, data, model, evaluation, "),
    ],
)
def test_an_unknown_key_in_a_file_is_refused_with_the_one_meant_or_those_that_exist(
    tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "mine.toml").write_text(f"method = 'fedavg'\n{text}\n")
    with pytest.raises(FedveilError, match=problem):
        resolve(tmp_path / "mine.toml")


# From a spec to a run that could start

SMALL = {"data.name": "pictures", "data.clients": 6, "data.records": 20, "cohort.size": 3, "data.partition": "random"}


def prepared_weights(spec: Spec, dataset: Dataset) -> torch.Tensor:
    ready = prepare(spec, dataset)
    return Layout.of(ready.model).vector(ready.model)


def test_preparing_deals_the_records_and_builds_the_network(pictures: Dataset) -> None:
    ready = prepare(resolve("fed-cdp", {**SMALL, "seed": 1}), pictures)
    assert ready.sites.population.records == (20,) * 6
    assert ready.layout.size == 25 * 12 + 12 + 12 * 25 * 12 + 12 + 2 * 2 * 12 * 4 + 4
    assert ready.initial_state().round == 0
    assert ready.streams.seeded


def test_records_none_deals_everything_out(pictures: Dataset) -> None:
    ready = prepare(resolve("fed-cdp", {**SMALL, "data.records": "none"}), pictures)
    assert ready.sites.population.records == (20,) * 6
    assert not ready.streams.seeded


def test_the_seed_decides_the_weights_and_the_data_seed_the_division(pictures: Dataset) -> None:
    specs = [resolve("fed-cdp", {**SMALL, **more}) for more in ({"seed": 1}, {"seed": 1, "data.seed": 5}, {"seed": 2})]
    one, again, other = (prepared_weights(spec, pictures) for spec in specs)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    divided = [prepare(spec, pictures).partition.clients for spec in specs]
    assert divided[0].rows.tolist() != divided[1].rows.tolist()
    assert divided[0].rows.tolist() == divided[2].rows.tolist()


def test_a_method_that_the_population_cannot_give_is_refused_before_anything_starts(pictures: Dataset) -> None:
    with pytest.raises(FedveilError, match=r"^cohort\.size: 7 clients a round, but there are only 6$"):
        prepare(resolve("fed-cdp", {**SMALL, "cohort.size": 7}), pictures)
    with pytest.raises(FedveilError, match=r"^batch\.size: a batch of 21 is larger than client 0"):
        prepare(resolve("fed-cdp", {**SMALL, "batch.size": 21}), pictures)


# Noise that is solved for


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("fed-cdp-calibrated", {"example.sigma": 2.0}),
        ("fed-cdp", {"privacy.calibrate": True, "privacy.epsilon": 1.0, "example": {"sigma": 2.0}}),
        ("geyer-private", {"privacy.calibrate": True, "server.sigma": 2.0}),
    ],
)
def test_noise_that_is_both_stated_and_solved_for_is_refused(source: str, told: dict[str, Any]) -> None:
    with pytest.raises(
        FedveilError, match=r"^(example|server)\.sigma: is set to 2\.0, and privacy\.calibrate solves it"
    ):
        resolve(source, told)
    kept = resolve(source, told | {"privacy.calibrate": False})
    assert [mechanism.sigma for mechanism in kept.method.mechanisms.values()] == [2.0]


def test_a_mechanism_whose_noise_is_solved_for_needs_no_noise_of_its_own() -> None:
    told = {"example": {"clip": {"bound": 1.0}}, "privacy.calibrate": True, "privacy.epsilon": 1.0}
    assert resolve("fedavg", told).method.example is not None
    with pytest.raises(FedveilError, match=r"example\.sigma must be given too"):
        resolve("fedavg", told | {"privacy.calibrate": False})


def test_a_spec_with_noise_to_be_solved_for_comes_back_from_its_own_table() -> None:
    spec = resolve("fed-cdp-calibrated")
    assert "sigma" not in spec.to_dict()["example"]
    assert resolve(spec.to_dict()) == resolve(spec) == spec
    assert resolve(spec, {"stop.rounds": 7}).method == replace(spec.method, stop=Stop(7))


@pytest.mark.parametrize(
    "name", ["../../x", "a/b", "", ".hidden", "a\\b", "a\0b", "\x1b[31mred", "x" * 300, "two\nlines"]
)
def test_a_data_set_whose_name_is_no_plain_name_is_refused(name: str) -> None:
    with pytest.raises(FedveilError, match=r"data\.name: must be a plain name"):
        resolve("fedavg", {"data.name": name})


# The objective


def test_an_objective_survives_its_toml_file(tmp_path: Path) -> None:
    for table, objective in (
        ({"kind": "cross-entropy", "weights": [1, 2.5]}, CrossEntropy((1.0, 2.5))),
        ({"kind": "huber", "width": 0.25}, Huber(0.25)),
        ("squared", SquaredError()),
    ):
        spec = resolve("fedavg", {"objective": table})
        assert spec.objective == objective
        (tmp_path / "spec.toml").write_text(spec.to_toml(), encoding="utf-8")
        assert resolve(tmp_path / "spec.toml") == spec
    assert resolve("fedavg", {"objective.kind": "huber", "objective.width": 0.5}).objective == Huber(0.5)


def test_a_spec_without_an_objective_is_written_as_before_there_were_any() -> None:
    """Digests of specs hold runs and reproductions together."""
    spec = resolve("fedavg")
    assert spec.objective is None
    assert "objective" not in spec.to_dict()
    assert resolve("fedavg", {"objective": "none"}) == spec


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("hinge", "objective: kind must be one of cross-entropy, squared, huber, not 'hinge'"),
        ({"kind": "cross-entropy", "weights": [1.0, -2.0]}, "objective.weights: must be a positive number"),
        ({"kind": "cross-entropy", "weights": 3}, "objective.weights: expected a list of numbers, not 3"),
        ({"kind": "cross-entropy", "weights": ["a"]}, "objective.weights: expected a number, not 'a'"),
        ({"kind": "huber", "width": 0}, "objective.width: must be a positive number"),
        ({"kind": "squared", "width": 1}, "objective: unknown key width"),
    ],
)
def test_a_wrong_objective_is_refused_by_its_key(table: object, message: str) -> None:
    with pytest.raises(FedveilError, match=message):
        resolve("fedavg", {"objective": table})
