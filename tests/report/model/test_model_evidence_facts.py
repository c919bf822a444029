"""What attacks and audits leave on the disk: read into facts, or refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from page_facts import audit_check, audit_power, audit_table

from fedveil.core.guarantee import Caveat, CaveatKind
from fedveil.core.types import Unit, View
from fedveil.core.verdicts import CheckKind
from fedveil.report.model.audit_sentences import audit_sentences
from fedveil.report.model.evidence_facts import AttackFacts, AuditFacts, PowerFacts, Refutation


def attack_table(**changes: Any) -> dict[str, Any]:
    means = {"success_rate": 1.0, "rmse": 0.01, "blind_rmse": 0.3, "label_accuracy": None}
    return {"view": "server", "attack": "balanced", "victims": 3, "threshold": 0.1, **means, **changes}


def test_an_audit_is_read_with_its_kinds() -> None:
    leak = {"kind": "leaked-bound", "text": "other words"}
    refuted = {"delta": 1e-6, "epsilon_lower": 3, "epsilon_verified": 1.5}
    details = {"reason": "", "caveats": [leak]}
    facts = AuditFacts.from_dict(audit_table(verdict="contradicted", refuted=refuted, details=details))
    assert (facts.unit, facts.view, facts.name) == (Unit.RECORD, View.SERVER, "record × server")
    assert facts.caveats == (Caveat(CaveatKind.LEAKED_BOUND, "other words"),)
    assert facts.refuted == Refutation(1e-6, 3.0, 1.5)
    nothing = AuditFacts.from_dict(audit_table(verdict="nothing-promised", epsilon_verified="inf", power=None))
    assert math.isinf(nothing.epsilon_verified)
    assert facts.power == PowerFacts(75, 2.76, 0.62, 80, 0.95)


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
        {"verdict": None},
        {"verdict": "fine"},
        {"verdict": "contradicted"},
        {"power": None},
        {"power": {"answers": 75}},
        {"power": audit_power(canaries_needed=0.5)},
        {"verdict": "inconclusive", "power": None},
        {"checks": None},
        {"checks": [audit_check(kind="mood")]},
        {"checks": [audit_check(chance=1e-4)]},
        {"checks": [audit_check(measured=math.nan)]},
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
    assert second.startswith("CONSISTENT with what is proved, ε ≤ 1.5 (δ = 1e-05): ")


def sentences(**changes: Any) -> list[str]:
    return audit_sentences(AuditFacts.from_dict(audit_table(**changes)))


def test_an_audit_says_what_it_would_have_noticed_and_rounds_it_down() -> None:
    _, second = sentences(power=audit_power(noise=0.6299, possible=2.769))
    assert second.endswith(
        "had the noise been less than 0.62 of what is declared, the guesses would have shown it with 95 % probability"
        " (all of them right: ε ≥ 2.76)."
    )


def test_an_inconclusive_audit_is_not_said_to_be_good_and_says_what_it_would_take() -> None:
    _, second = sentences(verdict="inconclusive", power=audit_power(noise=0.31, canaries_needed=1900))
    assert second.startswith(
        "INCONCLUSIVE: nothing contradicts what is proved, ε ≤ 1.5 (δ = 1e-05), but only noise of less than 0.31 of"
        " what is declared would the guesses have shown with 95 % probability"
    )
    assert second.endswith("About 1,900 canaries would show noise of half its size.")
    _, blind = sentences(verdict="inconclusive", power=audit_power(noise=0.0, canaries_needed=None))
    assert "would not have shown with 95 % probability even that there is no noise at all" in blind
    assert blind.endswith("To let guesses test the same code, audit it with less noise (a smaller sigma).")


@pytest.mark.parametrize("kind", CheckKind)
def test_every_check_has_its_words_whether_it_contradicts_or_not(kind: CheckKind) -> None:
    first, second, third = sentences(checks=[audit_check(kind=str(kind), measured=0.97)])
    assert "BROKEN" not in second
    assert third.startswith("Compared with what is declared: ")
    broken = sentences(verdict="contradicted", checks=[audit_check(kind=str(kind), measured="inf", chance=1e-9)])
    assert broken[0] == first
    assert broken[1].startswith("BROKEN: ")
    assert "do not rely on this promise. Chance alone says this of a sound one in at most 5 % of audits" in broken[1]
    assert len(broken) == 2


def test_a_promise_that_is_broken_twice_says_both() -> None:
    refuted = {"delta": 1e-5, "epsilon_lower": 3.0, "epsilon_verified": 1.5}
    half = audit_check(measured=0.5, chance=0.0)
    _, second, third = sentences(
        verdict="contradicted", refuted=refuted, checks=[half, audit_check(kind="sensitivity")]
    )
    assert "ε ≤ 1.5 was promised at δ = 1e-05, and ε ≥ 3 was shown there; the noise is not what is declared" in second
    assert "its size is 0.500 of it" in second
    assert "what one unit moves is within its bound" in third
