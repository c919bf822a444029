"""A run leaves a complete directory, and an interrupted one ends as if nothing had happened."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from own_runtime import Noted, one_by_one
from safetensors.torch import load_file
from scaled_noise import scale_noise

from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.core.streams import Purpose
from fedveil.data.dataset import Dataset, Examples, from_tensors, to_float
from fedveil.engine import client as client_module
from fedveil.engine import personal_models as personal_module
from fedveil.engine.personal_models import PersonalModels
from fedveil.engine.receipts import ReceiptMismatch
from fedveil.ledger.store import Ledger
from fedveil.mechanisms.gaussian import GaussianRound
from fedveil.models.registry import build
from fedveil.report.terminal.run_progress import SilentReporter
from fedveil.runs import run as run_module
from fedveil.runs.files import RunFiles
from fedveil.runs.outlook import resolve_for
from fedveil.runs.prepare import prepare
from fedveil.runs.run import resume, run
from fedveil.studies.attack import opened
from fedveil.zoo import ZOO

Settings = dict[str, Any]


@pytest.mark.parametrize("method", list(ZOO))
def test_every_method_runs_and_leaves_a_complete_directory(
    method: str, tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    tiny = tiny_of(method, tiny)
    result = run(method, tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    files = RunFiles(tmp_path / "run")
    assert result.rounds == 4
    assert 0 <= result.accuracy <= 1
    wanted = resolve_for(method, tiny, blobs)
    if not wanted.privacy.calibrate:  # else the noise is solved for when the records are known
        assert resolve(files.spec) == wanted
    assert [e["round"] for e in files.read_events() if e["event"] == "round"] == [0, 1, 2, 3]
    assert json.loads(files.result.read_text())["accuracy"] == result.accuracy
    assert set(load_file(files.model)) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    with Ledger(files.ledger) as ledger:
        assert [len(entry.cohort) for entry in ledger.rounds()] == [4, 4, 4, 4]
        assert len(ledger.receipts()) == 16 * len(wanted.method.mechanisms)


def test_fedavg_learns(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    assert run("fedavg", {**tiny, "stop.rounds": 8}, out=tmp_path / "run", workers=1, dataset=blobs).accuracy > 0.9


class Interrupting(SilentReporter):
    """Ctrl-C after the first round."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def round(self, done: int, rounds: int, measured: str) -> None:
        raise KeyboardInterrupt


def test_an_interrupted_run_says_how_it_goes_on(tmp_path: Path) -> None:
    reporter = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        run("fedavg", {"data.name": "cancer"}, rounds=2, out=tmp_path / "run", workers=1, reporter=reporter)
    assert reporter.notes[-1] == f"what was published is safe; go on with: fedveil resume {tmp_path / 'run'}"


def test_an_interrupted_run_on_ones_own_records_goes_on_in_python_as_it_says(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    reporter = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        run("fedavg", tiny, out=tmp_path / "run", workers=1, dataset=blobs, reporter=reporter)
    assert reporter.notes[-1].endswith(f"go on with: fedveil.resume('{tmp_path / 'run'}', dataset=…)")
    with pytest.raises(FedveilError, match="or dataset=… in Python"):
        resume(tmp_path / "run", workers=1)
    assert resume(tmp_path / "run", workers=1, dataset=blobs).rounds == 4


def test_a_run_goes_on_with_its_own_records_only(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    """As many others under the same name are told apart."""
    run("fedavg", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    (tmp_path / "run/result.json").unlink()
    others = replace(blobs, train=Examples(blobs.train.inputs + 1, blobs.train.labels))
    with pytest.raises(FedveilError, match="the records are not those that the run began with"):
        resume(tmp_path / "run", workers=1, dataset=others)
    assert resume(tmp_path / "run", workers=1, dataset=replace(blobs)).rounds == 4


def tiny_of(method: str, tiny: Settings) -> Settings:
    """Settings of a method's own that make it small: no budget that ends it, tests for personal models."""
    return {**tiny, "data.test": 20, "privacy.epsilon": "none"} if method in ("prifedsync", "geyer-private") else tiny


def everything_made(method: str, tiny: Settings, blobs: Dataset, out: Path, **division: Any) -> list[bytes]:
    """The model, the clients' own models and the clipping bounds of a run."""
    run(method, {**tiny_of(method, tiny), "stop.rounds": 3, "local.steps": 3}, out=out, dataset=blobs, **division)
    files = RunFiles(out)
    bounds = [event["bound"] for event in files.read_events() if event["event"] == "round"]
    return [
        files.model.read_bytes(),
        repr(bounds).encode(),
        *(p.read_bytes() for p in sorted(files.personal.glob("*"))),
    ]


@pytest.mark.parametrize("method", list(ZOO))
def test_the_same_seed_gives_the_same_model_for_every_chunk(
    method: str, tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    chunks = (None, 1, 3)
    made = [everything_made(method, tiny, blobs, tmp_path / str(c), workers=1, chunk=c) for c in chunks]
    assert made[0] == made[1] == made[2]
    assert len(made[0]) > 2 or method != "prifedsync"


DIVISIONS = [pytest.param(name, *how, marks=pytest.mark.slow) for name in ZOO for how in ((2, None), (3, 2))]


@pytest.mark.parametrize(("method", "workers", "chunk"), DIVISIONS)
def test_the_same_seed_gives_the_same_model_for_every_number_of_workers(
    method: str, workers: int, chunk: int | None, tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    alone = everything_made(method, tiny, blobs, tmp_path / "alone", workers=1)
    assert everything_made(method, tiny, blobs, tmp_path / "divided", workers=workers, chunk=chunk) == alone


def test_another_seed_and_no_seed_give_other_models(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 2), ("c", "none"), ("d", "none")):
        run("fed-cdp", {**tiny, "seed": seed}, out=tmp_path / name, workers=1, dataset=blobs)
    assert len({(tmp_path / name / "model.safetensors").read_bytes() for name in "abcd"}) == 4


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


STAGES: dict[str, Callable[[pytest.MonkeyPatch, int], None]] = {}


def stage(function: Callable[[pytest.MonkeyPatch, int], None]) -> Callable[[pytest.MonkeyPatch, int], None]:
    STAGES[function.__name__] = function
    return function


def _die_at(patch: pytest.MonkeyPatch, owner: Any, name: str, at: int, after: bool) -> None:
    original, calls = getattr(owner, name), [0]

    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        calls[0] += 1
        if calls[0] == at and not after:
            raise Killed
        outcome = original(*arguments, **keywords)
        if calls[0] == at:
            raise Killed
        return outcome

    patch.setattr(owner, name, wrapped)


@stage
def before_the_ledger(patch: pytest.MonkeyPatch, at: int) -> None:
    _die_at(patch, Ledger, "charge", at, after=False)


@stage
def between_ledger_and_event(patch: pytest.MonkeyPatch, at: int) -> None:
    _die_at(patch, Ledger, "charge", at, after=True)


@stage
def between_event_and_checkpoint(patch: pytest.MonkeyPatch, at: int) -> None:
    _die_at(patch, RunFiles, "save_checkpoint", at + 1, after=False)  # the first call saves the initial model


@stage
def after_the_checkpoint(patch: pytest.MonkeyPatch, at: int) -> None:
    _die_at(patch, RunFiles, "save_checkpoint", at + 1, after=True)


@stage
def before_anything_was_published(patch: pytest.MonkeyPatch, at: int) -> None:
    _die_at(patch, RunFiles, "save_checkpoint", 1, after=False)


@pytest.mark.parametrize("name", list(STAGES))
@pytest.mark.parametrize("at", [1, 3, 4])
def test_a_run_killed_anywhere_resumes_to_the_same_model(
    name: str, at: int, tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    tiny = {**tiny, "aggregate.optimiser": "adam", "aggregate.rate": 0.1}  # the server has state to lose
    check_resumed("fed-cdp", tiny, name, at, blobs, tmp_path)


@pytest.mark.parametrize("at", [2, 4])
@pytest.mark.parametrize("method", ["private-records", "private-clients"])
def test_a_front_door_killed_anywhere_resumes_to_the_same_mean_of_models(
    method: str, at: int, blobs: Dataset, tmp_path: Path
) -> None:
    settings = {"data.clients": 6, "data.records": 20, "data.partition": "random", "stop.rounds": 4, "seed": 1}
    settings["aggregate.average"] = 0.75
    check_resumed(method, settings, "after_the_checkpoint" if at == 2 else next(iter(STAGES)), at, blobs, tmp_path)


MOVING = [(method, name) for method in ("prifedsync", "ldp-sgd-quantile", "geyer-private") for name in STAGES]
MOVING += [("prifedsync", "in the middle of a round's models"), ("prifedsync", "while old models are forgotten")]


@pytest.mark.parametrize(("method", "name"), MOVING)
def test_personal_models_and_moving_bounds_survive_a_kill_anywhere(
    method: str, name: str, tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    check_resumed(method, tiny_of(method, tiny), name, 3, blobs, tmp_path)


def kill(patch: pytest.MonkeyPatch, name: str, at: int) -> None:
    if name == "in the middle of a round's models":
        _die_at(patch, personal_module, "digested", 4 * (at - 1) + 3, after=True)  # four clients a round, one file each
    elif name == "while old models are forgotten":
        _die_at(patch, PersonalModels, "forget", at, after=False)
    else:
        STAGES[name](patch, at)


def check_resumed(method: str, settings: Settings, name: str, at: int, blobs: Dataset, tmp_path: Path) -> None:
    whole = run(method, settings, out=tmp_path / "whole", workers=1, dataset=blobs)
    with pytest.MonkeyPatch.context() as patch:
        kill(patch, name, at)
        with pytest.raises(Killed):
            run(method, settings, out=tmp_path / "cut", workers=1, dataset=blobs)
    resumed = resume(tmp_path / "cut", workers=1, dataset=blobs)
    assert (tmp_path / "cut/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    assert (resumed.accuracy, resumed.loss, resumed.rounds) == (whole.accuracy, whole.loss, whole.rounds)
    assert (resumed.own_accuracy, resumed.personal_accuracy) == (whole.own_accuracy, whole.personal_accuracy)
    events = [
        [e for e in RunFiles(tmp_path / which).read_events() if e["event"] == "round"] for which in ("cut", "whole")
    ]
    assert [e["round"] for e in events[0]] == [0, 1, 2, 3]
    assert [e["bound"] for e in events[0]] == [e["bound"] for e in events[1]]
    kept = [
        {path.name: path.read_bytes() for path in RunFiles(tmp_path / which).personal.glob("*.safetensors")}
        for which in ("cut", "whole")
    ]
    assert kept[0] == kept[1]
    assert bool(kept[0]) == (method == "prifedsync")
    with Ledger(tmp_path / "cut/ledger.sqlite") as ledger:
        assert {entry.round for entry in ledger.rounds()} == {0, 1, 2, 3}
        assert len(ledger.charges()) >= whole.receipts  # a repeated round is paid for again, never forgotten


def test_resuming_a_finished_run_returns_its_result(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    result = run("fedavg", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    assert resume(tmp_path / "run", dataset=blobs) == result


def test_a_finished_run_can_be_moved(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    result = run("fedavg", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    assert str(tmp_path) not in (moved / "result.json").read_text()
    assert resume(moved) == replace(result, run=moved)


@pytest.mark.parametrize("method", [name for name, entry in ZOO.items() if entry.method.mechanisms])
def test_noise_multiplied_by_zero_stops_the_run_before_anything_is_published(
    method: str, tiny: Settings, blobs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale_noise(monkeypatch, 0)
    with pytest.raises(ReceiptMismatch, match="what was measured on the"):
        run(method, tiny_of(method, tiny), out=tmp_path / "run", workers=1, dataset=blobs)
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == ["round-000000.safetensors"]


@pytest.mark.parametrize("noisy", [lambda step: step < 5, lambda step: step != 29], ids=["first steps", "all but one"])
def test_noise_that_is_not_in_every_step_stops_the_run(
    noisy: Callable[[int], bool], tiny: Settings, blobs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = GaussianRound.add_to_sums

    def some(self: GaussianRound, sums: torch.Tensor, **told: Any) -> None:
        if noisy(told["addresses"][0].step):
            original(self, sums, **told)

    monkeypatch.setattr(GaussianRound, "add_to_sums", some)
    with pytest.raises(ReceiptMismatch, match="what was measured on the"):
        run("fed-cdp", {**tiny, "local.steps": 30}, out=tmp_path / "run", workers=1, dataset=blobs)


@pytest.mark.parametrize("wrong", ["half the noise", "another clip", "a step without noise"])
def test_executing_something_else_than_declared_stops_the_run(
    wrong: str, tiny: Settings, blobs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wrong == "half the noise":
        monkeypatch.setattr(
            GaussianRound, "add_to_sums",
            lambda self, sums, *, rows, source, addresses: source.add(
                Purpose.EXAMPLE_NOISE, addresses, sums, self.sum_std(rows) / 2
            ),
        )  # fmt: skip
    elif wrong == "another clip":
        sanitiser = client_module.Sanitiser.__init__

        def doubled(self: Any, *arguments: Any) -> None:
            sanitiser(self, *arguments)
            self._mechanism = replace(self._mechanism, bound=2 * self._mechanism.bound)

        monkeypatch.setattr(client_module.Sanitiser, "__init__", doubled)
    else:
        noised, calls = client_module.Sanitiser.noised_sums, [0]

        def skipping(self: Any, sums: torch.Tensor, *arguments: Any) -> torch.Tensor:
            calls[0] += 1
            return sums if calls[0] == 3 else noised(self, sums, *arguments)

        monkeypatch.setattr(client_module.Sanitiser, "noised_sums", skipping)
    with pytest.raises(ReceiptMismatch):
        run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)


def test_gradients_that_are_not_finite_count_as_zero_and_are_reported(
    tiny: Settings, tmp_path: Path, blobs: Dataset
) -> None:
    inputs = blobs.train.inputs.clone()
    inputs[::10] = 3e38  # finite, but the first layer overflows
    wild = from_tensors("wild", Examples(inputs, blobs.train.labels), blobs.validation)
    for method in ("fedavg", "fed-cdp"):
        result = run(method, tiny, out=tmp_path / method, workers=1, dataset=wild)
        assert result.rejected > 0
        model = load_file(tmp_path / method / "model.safetensors")
        assert all(torch.isfinite(tensor).all() for tensor in model.values())


def test_a_worker_that_dies_is_an_error_in_one_line(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    settings = {**tiny, "model.name": "suicide:factory"}
    (tmp_path / "suicide.py").write_text(
        "import os\nfrom fedveil.models.networks import mlp\n"
        "class Dying(type(mlp((6,), 3))):\n"
        "    def __setstate__(self, state):\n        os._exit(7)\n"
        "def factory(shape, classes, hidden):\n    return Dying(*mlp(shape, classes, hidden=hidden))\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with pytest.raises(FedveilError, match="a worker process ended unexpectedly"):
            run("fedavg", settings, out=tmp_path / "run", workers=2, dataset=blobs)


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match="not a run directory"):
        resume(tmp_path)


def test_a_finished_run_whose_spec_was_changed_tells_no_result(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    spec = tmp_path / "run/spec.toml"
    spec.write_text(spec.read_text() + "# less noise\n")
    for dataset in (None, blobs):
        with pytest.raises(FedveilError, match="the spec was changed after the run began"):
            resume(tmp_path / "run", dataset=dataset)


def test_a_budget_that_pays_for_no_round_leaves_no_directory(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    with pytest.raises(FedveilError, match="not even one round fits"):
        run("fed-cdp", tiny | {"privacy.epsilon": 1e-6}, out=tmp_path / "run", workers=1, dataset=blobs)
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_taken_for_a_spec(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    run("fedavg", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    with pytest.raises(FedveilError, match=r"run: a run; give its spec \(.*spec\.toml\), or go on: fedveil resume "):
        run(tmp_path / "run", out=tmp_path / "again", dataset=blobs)


def test_a_damaged_ledger_stops_the_run(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    run("fed-cdp", tiny, out=tmp_path / "run", workers=1, dataset=blobs)
    (tmp_path / "run/result.json").unlink()
    (tmp_path / "run/ledger.sqlite").write_bytes(b"not a ledger at all" * 100)
    with pytest.raises(FedveilError, match="ledger"):
        resume(tmp_path / "run", dataset=blobs)


def test_the_key_of_an_unseeded_run_is_nowhere_in_its_directory(
    tiny: Settings, blobs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[bytes] = []
    original = run_module.prepared_for

    def spying(*arguments: Any, **keywords: Any) -> Any:
        prepared = original(*arguments, **keywords)
        keys.append(prepared.streams.key)
        return prepared

    monkeypatch.setattr(run_module, "prepared_for", spying)
    run("fed-cdp", {**tiny, "seed": "none"}, out=tmp_path / "run", workers=1, dataset=blobs)
    content = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert keys[0] not in content
    assert keys[0].hex().encode() not in content
    shutil.rmtree(tmp_path / "run")


def test_no_client_takes_part_more_often_than_its_limit_also_after_a_resume(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    settings = {**tiny, "cohort": {"kind": "fixed", "size": 4, "most": 2}, "stop.rounds": 7}
    run("fed-cdp", settings, out=tmp_path / "whole", workers=1, dataset=blobs)
    with pytest.MonkeyPatch.context() as patch:
        _die_at(patch, Ledger, "charge", 3, after=True)
        with pytest.raises(Killed):
            run("fed-cdp", settings, out=tmp_path / "cut", workers=1, dataset=blobs)
    resume(tmp_path / "cut", workers=1, dataset=blobs)
    assert (tmp_path / "cut/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    with Ledger(tmp_path / "whole/ledger.sqlite") as ledger:
        cohorts = [entry.cohort for entry in ledger.rounds()]
    assert [len(cohort) for cohort in cohorts] == [4, 4, 4, 4, 4]  # then nobody may take part, and the run ends
    assert Counter(client for cohort in cohorts for client in cohort) == dict.fromkeys(range(10), 2)


def test_an_unseeded_run_counts_the_cohort_of_a_lost_round_against_the_limit(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    settings = {**tiny, "cohort": {"kind": "fixed", "size": 4, "most": 2}, "stop.rounds": 7, "seed": "none"}
    with pytest.MonkeyPatch.context() as patch:
        _die_at(patch, Ledger, "charge", 3, after=True)
        with pytest.raises(Killed):
            run("fed-cdp", settings, out=tmp_path / "cut", workers=1, dataset=blobs)
    resume(tmp_path / "cut", workers=1, dataset=blobs)
    with Ledger(tmp_path / "cut/ledger.sqlite") as ledger:
        taken = Counter(client for entry in ledger.rounds() for client in entry.cohort)
    assert max(taken.values()) == 2


FEATURED = {
    "batch": {"kind": "all"},
    "data.clients": 6,
    "data.records": 20,
    "data.partition": "random",
    "model.name": "scattering",
    "model.options.outputs": 20,
    "cohort": {"kind": "fixed", "size": 3},
    "local.rate": 5.0,
    "stop.rounds": 4,
    "seed": 1,
}


def test_a_model_with_fixed_features_is_published_whole_and_takes_the_records_as_they_are(
    pictures: Dataset, tmp_path: Path
) -> None:
    result = run("fedsgd", FEATURED, out=tmp_path / "run", workers=1, dataset=pictures)
    model = build("scattering", pictures.input_shape, pictures.classes, {"outputs": 20}, seed=5)
    model.load_state_dict(load_file(RunFiles(tmp_path / "run").model))
    answers = model(to_float(pictures.validation.inputs)).argmax(dim=1)
    assert result.accuracy > 0.4  # chance is 0.25
    assert float((answers == pictures.validation.labels).double().mean()) == pytest.approx(result.accuracy)


def test_a_run_on_fixed_features_resumes_to_the_same_model(pictures: Dataset, tmp_path: Path) -> None:
    check_resumed("fed-cdp-calibrated", FEATURED, "after_the_checkpoint", 2, pictures, tmp_path)


PARTLY_FROZEN = """
from torch import nn
from scaled_noise import scale_noise

def partly_frozen(shape, classes):
    return nn.Sequential(nn.Linear(shape[0], 16).requires_grad_(False), nn.Tanh(), nn.Linear(16, classes))
"""


@pytest.fixture
def partly_frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "run_factories.py").write_text(PARTLY_FROZEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "run_factories:partly_frozen"
    sys.modules.pop("run_factories", None)


def test_what_is_never_trained_stays_what_it_was_when_an_unseeded_run_is_resumed_or_attacked(
    tiny: Settings, blobs: Dataset, tmp_path: Path, partly_frozen: str
) -> None:
    settings = {key: value for key, value in tiny.items() if not key.startswith("model")}
    settings |= {"model.name": partly_frozen, "seed": "none"}
    made: list[torch.Tensor] = []
    with pytest.MonkeyPatch.context() as patch:
        original = run_module.prepared_for

        def spying(*arguments: Any, **keywords: Any) -> Any:
            prepared = original(*arguments, **keywords)
            made.append(prepared.model[0].weight.clone())
            return prepared

        patch.setattr(run_module, "prepared_for", spying)
        _die_at(patch, Ledger, "charge", 2, after=True)
        with pytest.raises(Killed):
            run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    resume(tmp_path / "run", workers=1, dataset=blobs)
    published = load_file(RunFiles(tmp_path / "run").model)
    assert torch.equal(published["0.weight"], made[0])
    attacked, _ = opened(tmp_path / "run", dataset=blobs)
    assert torch.equal(attacked.model[0].weight, made[0])


def test_receipts_of_two_places_belong_to_their_clients_also_where_a_tile_is_padded(
    tiny: Settings, blobs: Dataset, tmp_path: Path, partly_frozen: str
) -> None:
    settings = {key: value for key, value in tiny.items() if not key.startswith("model")}
    upload = {"clip": {"bound": 1.0}, "unit": "client", "sigma": 2.0}
    settings |= {"model.name": partly_frozen, "cohort": {"kind": "poisson", "rate": 0.5}, "upload": upload}
    run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    with Ledger(tmp_path / "run/ledger.sqlite") as ledger:
        cohorts = {entry.round: entry.cohort for entry in ledger.rounds()}
        found = [(receipt.round, receipt.client, receipt.did.place) for receipt in ledger.receipts()]
    wanted = [
        (round, client, place) for round in cohorts for client in cohorts[round] for place in ("example", "upload")
    ]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize(
    ("method", "workers"), [("fed-cdp", 1), pytest.param("fed-sdp", 2, marks=pytest.mark.slow), ("prifedsync", 1)]
)
def test_a_runtime_of_ones_own_ends_with_the_bits_of_the_local_one(
    method: str, workers: int, tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    settings = tiny_of(method, tiny)
    local = run(method, settings, out=tmp_path / "local", workers=workers, chunk=3, dataset=blobs)
    notes = Noted(one_by_one)
    own = run(method, settings, out=tmp_path / "own", runtime=notes, dataset=blobs)
    assert (len(notes.jobs), notes.open) == (1, 0)
    assert (len(notes.models), len(notes.clients)) == (4, 16)
    assert own.accuracy == local.accuracy
    assert RunFiles(tmp_path / "own").model.read_bytes() == RunFiles(tmp_path / "local").model.read_bytes()


def test_an_interrupted_run_goes_on_with_a_runtime_of_ones_own(tiny: Settings, blobs: Dataset, tmp_path: Path) -> None:
    run("fed-cdp", tiny, out=tmp_path / "whole", workers=1, dataset=blobs)
    notes = Noted(one_by_one)

    class Interrupted(SilentReporter):
        def round(self, *told: Any) -> None:
            if len(notes.models) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("fed-cdp", tiny, out=tmp_path / "run", runtime=notes, dataset=blobs, reporter=Interrupted())
    assert notes.open == 0
    resume(tmp_path / "run", runtime=notes, dataset=blobs)
    assert (len(notes.jobs), len(notes.models)) == (2, 4)
    assert RunFiles(tmp_path / "run").model.read_bytes() == RunFiles(tmp_path / "whole").model.read_bytes()


def test_the_job_that_is_trained_is_what_the_spec_says_after_calibration(tiny: Settings, blobs: Dataset) -> None:
    prepared = prepare(resolve("fed-cdp-calibrated", tiny), blobs)
    assert prepared.calibrated
    assert prepared.job.method is prepared.spec.method
    other = replace(prepared.spec, method=ZOO["fedavg"].method)
    assert prepared.with_spec(other).job.method is other.method
