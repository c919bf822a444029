"""Private statistics and private evaluation, from a data set and a spec to the table, the budget and the page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from older_runs import as_format
from torch import nn

from fedveil.accounting.context import Budget
from fedveil.config.spec import resolve
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import CaveatKind, Guarantee
from fedveil.core.openness import Openness
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset, Examples, from_tensors
from fedveil.runs.account import account, calibrate_spec
from fedveil.runs.prepare import prepare
from fedveil.runs.run import resume, run
from fedveil.studies.report import report

Settings = dict[str, Any]
SERVER = (Unit.RECORD, View.SERVER)
STRICT = {"privacy.strict": True}


def network(input_shape: Sequence[int], classes: int, hidden: Sequence[int]) -> nn.Module:
    return nn.Sequential(nn.Linear(input_shape[0], *hidden), nn.Tanh(), nn.Linear(*hidden, classes))


@pytest.fixture
def scaled(blobs: Dataset) -> Dataset:
    """Somebody's own records, standardised by their own means and deviations, as they say."""
    mean, deviation = blobs.train.inputs.mean(dim=0), blobs.train.inputs.std(dim=0)
    parts = [Examples((part.inputs - mean) / deviation, part.labels) for part in (blobs.train, blobs.validation)]
    return from_tensors("mine", *parts, 3, features="private", validation_records="public")


def kinds(cells: Sequence[Guarantee]) -> set[CaveatKind]:
    """Those kinds of which every cell has a caveat."""
    return set.intersection(*({caveat.kind for caveat in cell.caveats if caveat.kind.uncovered} for cell in cells))


def test_scaling_by_private_records_voids_every_number_and_strict_promises_nothing(
    tiny: Settings, scaled: Dataset
) -> None:
    loose = account("fed-cdp", tiny, dataset=scaled).promised
    assert kinds(loose.guarantees) == {CaveatKind.PRIVATE_STATISTICS}
    assert loose.of(*SERVER).finite
    assert loose.of(*SERVER).void is not None
    strict = account("fed-cdp", tiny | STRICT, dataset=scaled)
    assert {cell.epsilon for cell in strict.promised.guarantees} == {math.inf}
    assert all("statistics of private records" in cell.reason for cell in strict.promised.guarantees)
    assert all("statistics of private records" in claim.difference for claim in strict.claims)


@pytest.mark.parametrize("part", ["features", "validation_records"])
@pytest.mark.parametrize("openness", [Openness.PRIVATE, Openness.UNDECLARED])
def test_whatever_is_not_declared_public_is_said_and_refused_under_strict(
    tiny: Settings, blobs: Dataset, part: str, openness: Openness
) -> None:
    mine = replace(blobs, **{part: openness})  # type: ignore[arg-type]
    loose = account("fed-cdp", tiny, dataset=mine).promised
    assert len(kinds(loose.guarantees)) == 1
    assert loose.of(*SERVER).spoiling[-1].kind.uncovered
    assert not account("fed-cdp", tiny | STRICT, dataset=mine).promised.of(*SERVER).finite


def test_public_records_are_promised_under_strict_what_they_are_promised_without(
    tiny: Settings, blobs: Dataset
) -> None:
    strict, loose = (account("fed-cdp", tiny | more, dataset=blobs).promised for more in (STRICT, {}))
    assert strict.guarantees == loose.guarantees
    assert loose.of(*SERVER).finite


@pytest.mark.parametrize("name", ["adult", "cancer"])
def test_named_tables_of_numbers_hold_under_strict(name: str) -> None:
    cell = account("fed-cdp", {"data.name": name, "data.clients": 10, "cohort.size": 5} | STRICT).promised.of(*SERVER)
    assert cell.finite
    assert not any(caveat.kind.uncovered for caveat in cell.caveats)


def test_the_name_of_a_known_set_says_nothing_of_records_of_one_s_own(tiny: Settings, blobs: Dataset) -> None:
    mine = replace(blobs, name="cancer", features=Openness.PRIVATE)
    settings = tiny | {"data.name": "cancer"} | STRICT
    assert not account("fed-cdp", settings, dataset=mine).promised.of(*SERVER).finite


def test_a_budget_under_strict_is_refused_before_there_is_a_run(
    tiny: Settings, scaled: Dataset, tmp_path: Path
) -> None:
    settings = tiny | STRICT | {"privacy.epsilon": 50.0}
    with pytest.raises(FedveilError, match=r"^budget: record × server cannot be kept: .*statistics of private records"):
        run("fed-cdp", settings, dataset=scaled, out=tmp_path / "run", workers=1)
    assert not (tmp_path / "run").exists()


def test_calibration_under_strict_is_refused(tiny: Settings, scaled: Dataset) -> None:
    settings = tiny | STRICT | {"privacy.epsilon": 2.0, "privacy.calibrate": True}
    with pytest.raises(FedveilError, match=r"^calibration: no noise can help .*statistics of private records"):
        prepare(resolve("fed-cdp", settings), scaled)
    own_tests = {"data.name": "cancer", "data.test": 5} | STRICT
    with pytest.raises(FedveilError, match=r"^calibration: no noise can help .*own test set"):
        calibrate_spec("fed-cdp", own_tests, Budget(2.0, 1e-5), "noise")


def test_a_run_under_strict_ends_without_a_promise_and_is_accounted_so_without_its_records(
    tiny: Settings, scaled: Dataset, tmp_path: Path
) -> None:
    result = run("fed-cdp", tiny | STRICT, dataset=scaled, out=tmp_path / "run", workers=1)
    assert {cell.epsilon for cell in result.guarantees} == {math.inf}
    found = account(tmp_path / "run")
    assert found.spent is not None
    for table in (found.promised, found.spent):
        assert {cell.epsilon for cell in table.guarantees} == {math.inf}
        assert kinds(table.guarantees) == {CaveatKind.PRIVATE_STATISTICS}


def test_a_page_says_that_a_number_does_not_hold_and_why(tiny: Settings, scaled: Dataset, tmp_path: Path) -> None:
    run("fed-cdp", tiny | {"seed": "none"}, dataset=scaled, out=tmp_path / "run", workers=1)
    report([tmp_path / "run"], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "not private as it stands" in page
    assert "Features are scaled, imputed, selected or encoded with statistics of private records" in page


@pytest.mark.parametrize(("openness", "shown"), [(Openness.PUBLIC, True), (Openness.PRIVATE, False)])
def test_a_page_for_release_holds_no_accuracy_on_private_records(
    tiny: Settings, blobs: Dataset, tmp_path: Path, openness: Openness, shown: bool
) -> None:
    mine = replace(blobs, validation_records=openness)
    run("fed-cdp", tiny | {"seed": "none", "data.test": 6}, dataset=mine, out=tmp_path / "run", workers=1)
    (facts,) = report([tmp_path / "run"], tmp_path / "page.html", release=True).runs
    assert len(facts.rounds) == 4
    assert {"accuracy" in event for event in facts.rounds} == {shown}
    assert not any("own_accuracy" in event for event in facts.rounds)
    assert ("accuracy" in facts.figures) == (facts.scores is not None) == shown


def test_test_sets_of_the_clients_own_are_private_evaluation(tiny: Settings, blobs: Dataset) -> None:
    with_tests = tiny | {"data.test": 6}
    assert kinds(account("fed-cdp", with_tests, dataset=blobs).promised.guarantees) == {CaveatKind.PRIVATE_EVALUATION}
    assert not account("fed-cdp", with_tests | STRICT, dataset=blobs).promised.of(*SERVER).finite


@pytest.mark.parametrize(
    ("made_from", "kind"),
    [("undeclared", CaveatKind.UNDECLARED), ("private", CaveatKind.PRIVATE_STATISTICS), ("public", None)],
)
def test_a_network_of_one_s_own_says_what_it_is_made_from(
    tiny: Settings, blobs: Dataset, made_from: str, kind: CaveatKind | None
) -> None:
    settings = tiny | {"model.name": f"{__name__}:network", "model.made_from": made_from}
    cells = account("fed-cdp", settings, dataset=blobs).promised.guarantees
    assert kinds(cells) == (set() if kind is None else {kind})
    assert account("fed-cdp", settings | STRICT, dataset=blobs).promised.of(*SERVER).finite == (kind is None)


def test_networks_with_a_name_are_public_whatever_is_declared(tiny: Settings, blobs: Dataset) -> None:
    assert kinds(account("fed-cdp", tiny, dataset=blobs).promised.guarantees) == set()


def test_caveats_cannot_be_taken_out_of_a_run(tiny: Settings, scaled: Dataset, tmp_path: Path) -> None:
    run("fed-cdp", tiny, dataset=scaled, out=tmp_path / "run", workers=1)
    path = tmp_path / "run/run.json"
    stored = json.loads(path.read_text())
    for caveats in ({"caveats": []}, {}):
        others = {key: value for key, value in stored["terms"].items() if key != "caveats"}
        path.write_text(json.dumps(stored | {"terms": others | caveats}))
        with pytest.raises(FedveilError, match="changed after the run began"):
            account(tmp_path / "run")


def test_a_run_goes_on_only_with_what_was_declared_of_its_records(
    tiny: Settings, scaled: Dataset, tmp_path: Path
) -> None:
    run("fed-cdp", tiny, dataset=scaled, out=tmp_path / "run", workers=1)
    (tmp_path / "run/result.json").unlink()
    with pytest.raises(FedveilError, match="changed after the run began"):
        resume(tmp_path / "run", workers=1, dataset=replace(scaled, features=Openness.PUBLIC))
    resume(tmp_path / "run", workers=1, dataset=scaled)


def test_an_older_run_that_did_not_write_down_its_caveats_is_not_taken_for_public(
    tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    run("fed-cdp", tiny, dataset=blobs, out=tmp_path / "run", workers=1)
    assert kinds(account(tmp_path / "run").promised.guarantees) == set()
    as_format(tmp_path / "run", 2, blobs)
    assert kinds(account(tmp_path / "run").promised.guarantees) == {CaveatKind.UNDECLARED}
