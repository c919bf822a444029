"""Under `strict`, a use of private records that no noise covers leaves nothing promised, wherever it is asked."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fedveil.accounting.budget import check_promised
from fedveil.accounting.calibrate import calibrate
from fedveil.accounting.claims import claims
from fedveil.accounting.context import Budget, Context
from fedveil.accounting.plan import plan, replay
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Caveat, CaveatKind
from fedveil.core.types import Population, Unit, View
from fedveil.parts.batches import PoissonBatch
from fedveil.zoo import FED_CDP

UNCOVERED = [kind for kind in CaveatKind if kind.uncovered]
BUDGET = Budget(2.0, 1e-5)
METHOD = replace(FED_CDP, batch=PoissonBatch(5))
SERVER = (Unit.RECORD, View.SERVER)


def context(kind: CaveatKind, strict: bool, budget: Budget | None = None) -> Context:
    caveats = (Caveat(kind, "private records were looked at"),)
    return Context(METHOD, Population((500,) * 200), 3, 1e-5, strict=strict, budget=budget, caveats=caveats)


@pytest.mark.parametrize("kind", CaveatKind)
def test_only_what_no_noise_covers_is_refused_and_only_under_strict(kind: CaveatKind) -> None:
    assert context(kind, strict=False).refusal is None
    refusal = context(kind, strict=True).refusal
    assert (refusal is not None) == kind.uncovered
    assert refusal is None or refusal == "strict is asked for, and private records were looked at"


@pytest.mark.parametrize("kind", UNCOVERED)
def test_every_cell_is_infinite_and_says_why(kind: CaveatKind) -> None:
    strict = context(kind, strict=True)
    for table in (plan(strict), replay(strict, [], 0)):
        for cell in table.guarantees:
            assert math.isinf(cell.epsilon)
            assert cell.reason == strict.refusal
            assert cell.caveat(kind) is not None
        assert set(table.per_client(*SERVER)) == {math.inf}
        assert math.isinf(table.client(3, *SERVER).epsilon)
    loose = plan(context(kind, strict=False)).of(*SERVER)
    assert loose.finite
    assert "private records were looked at" in str(loose)


@pytest.mark.parametrize("kind", UNCOVERED)
def test_no_budget_can_be_kept(kind: CaveatKind) -> None:
    with pytest.raises(FedveilError, match=r"^budget: record × server cannot be kept: strict is asked for"):
        check_promised(context(kind, strict=True, budget=BUDGET))
    check_promised(context(kind, strict=True))
    check_promised(context(kind, strict=False, budget=BUDGET))


@pytest.mark.parametrize("solve", ["noise", "rounds"])
def test_nothing_can_be_calibrated(solve: str) -> None:
    with pytest.raises(FedveilError, match=r"calibration: .*strict is asked for, and private records"):
        calibrate(context(CaveatKind.PRIVATE_STATISTICS, strict=True), BUDGET, solve=solve)
    assert calibrate(context(CaveatKind.PRIVATE_STATISTICS, strict=False), BUDGET, solve=solve).guarantee.finite


def test_a_claim_says_that_nothing_is_verified() -> None:
    strict, loose = (claims(context(CaveatKind.UNDECLARED, strict)) for strict in (True, False))
    assert [claim.epsilon for claim in strict] == [claim.epsilon for claim in loose]
    assert all(claim.difference.endswith("private records were looked at.") for claim in strict)
    assert not any("strict" in claim.difference for claim in loose)


def test_every_cell_says_that_other_trainings_are_not_counted() -> None:
    for table in (
        plan(context(CaveatKind.COPIES, strict=False)),
        replay(context(CaveatKind.COPIES, strict=True), [], 0),
    ):
        assert all(cell.caveat(CaveatKind.TUNING) is not None for cell in table.guarantees)
