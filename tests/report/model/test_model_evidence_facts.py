"""What attacks and audits leave on the disk: read into facts, or refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from page_facts import audit_table

from fedveil.core.guarantee import Caveat, CaveatKind
from fedveil.core.types import Unit, View
from fedveil.report.model.audit_sentences import audit_sentences
from fedveil.report.model.evidence_facts import AttackFacts, AuditFacts, Refutation


def attack_table(**changes: Any) -> dict[str, Any]:
    means = {"success_rate": 1.0, "rmse": 0.01, "blind_rmse": 0.3, "label_accuracy": None}
    return {"view": "server", "attack": "balanced", "victims": 3, "threshold": 0.1, **means, **changes}


def test_an_audit_is_read_with_its_kinds() -> None:
    leak = {"kind": "leaked-bound", "text": "other words"}
    refuted = {"delta": 1e-6, "epsilon_lower": 3, "epsilon_verified": 1.5}
    facts = AuditFacts.from_dict(audit_table(holds=False, refuted=refuted, details={"reason": "", "caveats": [leak]}))
    assert (facts.unit, facts.view, facts.name) == (Unit.RECORD, View.SERVER, "record × server")
    assert facts.caveats == (Caveat(CaveatKind.LEAKED_BOUND, "other words"),)
    assert facts.refuted == Refutation(1e-6, 3.0, 1.5)
    assert math.isinf(AuditFacts.from_dict(audit_table(promised=False, epsilon_verified="inf")).epsilon_verified)


@pytest.mark.parametrize("key", audit_table())
def test_an_audit_that_lacks_something_is_refused(key: str) -> None:
    table = audit_table()
    del table[key]
    with pytest.raises(KeyError, match=key):
        AuditFacts.from_dict(table)


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": "records"},
        {"view": None},
        {"rounds": "1"},
        {"canaries": True},
        {"holds": None},
        {"holds": "false"},
        {"promised": 1},
        {"epsilon_lower": "0.1"},
        {"epsilon_verified": None},
        {"delta": math.nan},
        {"refuted": {"delta": 1e-5}},
        {"refuted": {"delta": 1e-5, "epsilon_lower": 3.0, "epsilon_verified": 1.5}},
        {"details": {"reason": ""}},
        {"details": {"reason": "", "caveats": ["NOT private as it stands"]}},
        {"details": {"reason": "", "caveats": [{"kind": "unheard-of", "text": ""}]}},
    ],
)
def test_an_audit_of_another_version_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        AuditFacts.from_dict(audit_table(**changes))


def test_an_attack_is_read_as_far_as_it_is_shown() -> None:
    facts = AttackFacts.from_dict(attack_table(tried={}, seconds=1.0))
    assert (facts.view, facts.victims, facts.label_accuracy) == (View.SERVER, 3, None)


@pytest.mark.parametrize("changes", [{"view": "nobody"}, {"victims": "?"}, {"threshold": None}, {"rmse": "low"}])
def test_an_attack_of_another_version_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        AttackFacts.from_dict(attack_table(**changes))


@pytest.mark.parametrize("key", attack_table())
def test_an_attack_that_lacks_something_is_refused(key: str) -> None:
    table = attack_table()
    del table[key]
    with pytest.raises(KeyError, match=key):
        AttackFacts.from_dict(table)


@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("unit", Unit)
def test_an_audit_of_every_view_and_unit_has_its_sentences(unit: Unit, view: View) -> None:
    first, second = audit_sentences(AuditFacts.from_dict(audit_table(unit=str(unit), view=str(view))))
    assert view.adversary.watches in first
    assert "the audit found nothing that contradicts the promise" in second
