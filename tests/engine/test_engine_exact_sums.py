"""Updates of one local step are added as integers, so that the noises of a whole cohort stand before their sum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fedveil.core.guarantee import CaveatKind
from fedveil.core.types import Unit, View
from fedveil.data.dataset import Dataset
from fedveil.engine import loop
from fedveil.engine.admission import Limited
from fedveil.engine.receipts import ReceiptMismatch
from fedveil.engine.server import Tally
from fedveil.method import Method
from fedveil.parts.cohorts import FixedSize
from fedveil.runs.account import account
from fedveil.runs.run import run

ONE_STEP = {"batch": {"kind": "poisson", "size": 10}, "local.steps": 1, "example.noise": "sum", "stop.rounds": 3}


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Tally]:
    """Every tally of the rounds that come."""
    tallies: list[Tally] = []
    close = loop.close_round

    def closing(method: Method, state: Any, tally: Tally, population: Any) -> Any:
        tallies.append(tally)
        return close(method, state, tally, population)

    monkeypatch.setattr(loop, "close_round", closing)
    return tallies


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_one_local_step_is_summed_exactly_and_its_noises_are_counted_together(
    tiny: dict[str, Any], blobs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    tallies = watched(monkeypatch)
    settings = {**tiny, **ONE_STEP, "cohort": {"kind": "fixed", "size": 4}}
    run("fed-cdp", settings, out=tmp_path / "run", workers=workers, dataset=blobs)
    assert len(tallies) == 3
    for tally in tallies:
        assert tally.grid is not None
        assert torch.equal(tally.sum, tally.sum.round()), "whole cells"
        assert float(tally.sum.abs().max()) > 1e6, "of noise that is 2^24 cells wide"
    spent = account(tmp_path / "run").spent
    assert spent is not None
    cell = spent.of(Unit.RECORD, View.RELEASED)
    assert cell.caveat(CaveatKind.PLAIN_SUM) is not None
    assert cell.epsilon < spent.of(Unit.RECORD, View.SERVER).epsilon


@pytest.mark.parametrize("change", [{"local.steps": 2}, {"local.decay": 0.1}, {"local.optimiser": "adam"}])
def test_anything_but_one_plain_step_is_summed_as_it_is(
    tiny: dict[str, Any], blobs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    tallies = watched(monkeypatch)
    run("fed-cdp", {**tiny, **ONE_STEP, **change}, out=tmp_path / "run", workers=1, dataset=blobs)
    assert all(tally.grid is None for tally in tallies)


def test_an_exact_sum_moves_the_model_as_the_updates_say(
    tiny: dict[str, Any], blobs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same training with the integers ignored ends at the same model, but for rounding."""
    settings = {**tiny, **ONE_STEP}
    exact = run("fed-cdp", settings, out=tmp_path / "exact", workers=1, dataset=blobs)
    monkeypatch.setattr(Method, "examples_add_up", lambda self, records: False)
    plain = run("fed-cdp", settings, out=tmp_path / "plain", workers=1, dataset=blobs)
    assert exact.accuracy == pytest.approx(plain.accuracy, abs=0.02)


def test_an_upload_without_its_integers_stops_a_round_that_counts_on_them() -> None:
    from fedveil.core.parameters import Layout
    from fedveil.engine.client import Statistics, Upload

    tally = Tally(Layout(("w",), ((3,),), (0,)), grid=0.5)
    with pytest.raises(ReceiptMismatch, match="without the integers"):
        tally.add(Upload(0, torch.ones(3), (), Statistics(0.0, (0.0,), 0)))


def test_a_round_that_needs_a_full_cohort_does_not_run_with_fewer(
    tiny: dict[str, Any], blobs: Dataset, tmp_path: Path
) -> None:
    """Ten clients, four a round, once each: after two rounds only two are left."""
    settings = {**tiny, **ONE_STEP, "cohort": {"kind": "fixed", "size": 4, "most": 1}, "stop.rounds": 4}
    result = run("fed-cdp", settings, out=tmp_path / "run", workers=1, dataset=blobs)
    assert result.rounds == 2
    spent = account(tmp_path / "run").spent
    assert spent is not None
    assert spent.of(Unit.RECORD, View.RELEASED).caveat(CaveatKind.FULL_COHORTS) is not None
    longer = run("fed-cdp", {**settings, "local.steps": 2}, out=tmp_path / "other", workers=1, dataset=blobs)
    assert longer.rounds == 3, "nothing is counted together, so a smaller cohort may run"


def test_admission_knows_how_many_a_round_needs() -> None:
    from fedveil.zoo import FED_CDP, FED_CDP_CALIBRATED

    admission = Limited.of(FED_CDP_CALIBRATED, [10] * 950 + [0] * 150)
    assert len(admission.candidates(0)) == 150
    admission.took_part(0, range(950, 1010))
    assert Limited.of(FED_CDP_CALIBRATED, [10] * 950 + [0] * 50).candidates(0) == []
    assert len(Limited.of(FED_CDP, [10] * 1000).candidates(0)) == 1000
    assert not Method(cohort=FixedSize(5, most=2)).counts_on_full_cohorts
