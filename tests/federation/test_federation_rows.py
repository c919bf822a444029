"""Where a plan promises `on_device`, rows are really noised at the sites, one by one, before they are added up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from federation_scene import make_scene, policy
from torch import Tensor

from fedveil.core.types import View
from fedveil.engine.sanitiser import Sanitiser
from fedveil.federation.coordinating import run_federation
from fedveil.ledger.store import Ledger
from fedveil.site.approval import examine
from fedveil.site.refusals import RefusalKind, Refused

SIZES = {"north": 60, "south": 40}
ROWS = {"sigma": 40.0, "clip": {"bound": 1.0, "by": "flat"}, "noise": "row"}
BATCHES = {"kind": "partition", "size": 10}
ON_DEVICE = policy(epsilon=30.0, view=View.ON_DEVICE)


def settings(each_row: bool) -> dict[str, Any]:
    return {"batch": BATCHES, "example": {**ROWS, "each_row": each_row}, "stop": {"rounds": 2}}


def test_sites_that_ask_for_it_train_with_rows_that_carry_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noises: list[Tensor] = []
    honest = Sanitiser.noised_rows

    def watched(self: Sanitiser, rows: Tensor, *others: Any) -> Tensor:
        clean = rows.clone()
        total = honest(self, rows, *others)
        noises.append((rows - clean).flatten(0, 1))
        torch.testing.assert_close(total.float(), rows.double().sum(dim=1).float(), rtol=1e-3, atol=1e-2)
        return total

    monkeypatch.setattr(Sanitiser, "noised_rows", watched)
    scene = make_scene(tmp_path, settings(each_row=True), sizes=SIZES, allowed=ON_DEVICE)
    with scene.serving() as transport:
        result = run_federation(scene.coordinator, transport)
    assert result.rounds == 2
    rows = torch.cat(noises)
    assert len(rows) == 2 * 2 * 2 * 10  # rounds, sites, steps, rows of a batch: every single one
    assert float(rows.std()) == pytest.approx(40.0, rel=0.1)
    assert float(rows.std(dim=1).min()) > 20.0  # none was left out
    assert len({tuple(row.tolist()) for row in rows}) == len(rows)  # and none shares its noise
    for home in scene.sites.values():
        with home.opened_ledger() as ledger:
            assert {one.row_std for paid in ledger.paid for one in paid.declared} == {40.0}
    with Ledger(scene.coordinator.run.ledger) as run_ledger:
        assert {receipt.did.row_std for receipt in run_ledger.receipts()} == {40.0}
        assert all(receipt.confirmed for receipt in run_ledger.receipts())


def test_noise_on_the_sum_alone_is_not_agreed_to(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, settings(each_row=False), sizes=SIZES, allowed=ON_DEVICE, agreed=False)
    with pytest.raises(Refused, match="asks for noise that protects record × on_device") as error:
        examine(scene.sites["north"], scene.plan)
    assert error.value.kind is RefusalKind.UNPROTECTED
