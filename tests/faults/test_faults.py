"""Write, sync, rename, unlink, truncate, mkdir or open fails, tears or kills at the n-th call, or the power is lost.

Real processes, on all families of methods, below Python and SQLite. After each fault the ledger says at least what was
sent, whoever reads the run can, and a seeded run that goes on ends in the same files.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from driver import struck
from families import FAMILIES
from planted_bugs import PLANTED
from shim_control import why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

SAMPLE = {
    "fed-cdp": 3,
    "fed-cdp, budget, unseeded": 3,
    "fed-sdp, noise at the server": 3,
    "geyer, private bound": 3,
    "ldp-sgd, quantile": 3,
    "prifedsync": 5,
}
"""The families that write different things."""


def check(scratch: Path, most: dict[str, int]) -> None:
    results = list(struck(scratch, most))
    assert [(result["case"], result["complaints"]) for result in results if result["complaints"]] == []
    assert len(results) == sum(most.values())


def test_a_fault_loses_no_charge_leaves_nothing_unreadable_and_changes_no_result(tmp_path: Path) -> None:
    check(tmp_path, SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FAMILIES))
def test_many_faults_lose_no_charge_leave_nothing_unreadable_and_change_no_result(name: str, tmp_path: Path) -> None:
    check(tmp_path, {name: FAMILIES[name].cases})


def test_there_are_a_thousand_faults() -> None:
    assert sum(family.cases for family in FAMILIES.values()) >= 1000


@pytest.mark.slow
@pytest.mark.parametrize("bug", list(PLANTED))
def test_a_planted_bug_is_noticed(bug: str, tmp_path: Path) -> None:
    """Or the tests above would prove nothing."""
    assert any(result["complaints"] for result in struck(tmp_path, {"prifedsync": 60}, bug))
