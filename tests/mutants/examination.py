"""What the lines of defence say of a mutant, and of the sources as they are."""

from __future__ import annotations

from dataclasses import dataclass

from laboratory import Laboratory
from mutant import Defence, Mutant
from scenes import AUDITS
from source_lines import RECEIPTS_OFF


def audit_of(mutant: Mutant) -> str | None:
    """The audit that looks at what the mutant changes; None where there is nothing to audit."""
    return mutant.audit or (mutant.scene if mutant.scene in AUDITS else None)


@dataclass(frozen=True)
class Seen:
    """How a line of defence came out. `says` is what it said."""

    caught: bool
    says: str = ""


def by_receipts(laboratory: Laboratory, mutant: Mutant) -> Seen:
    """A run that is stopped."""
    stopped = laboratory.asked(mutant.patches, "run", mutant.scene)
    return Seen(stopped is not None, stopped or "")


def by_audit(laboratory: Laboratory, mutant: Mutant) -> Seen:
    """An audit that contradicts, with nobody comparing receipts: it must see by itself."""
    scene = audit_of(mutant)
    if scene is None:
        return Seen(False)
    result = laboratory.asked((*mutant.patches, *RECEIPTS_OFF), "audit", scene)
    return Seen(result["verdict"] == "contradicted", ", ".join(result["by"]))


def by_test(laboratory: Laboratory, mutant: Mutant) -> Seen:
    """A test that fails."""
    if mutant.test is None:
        return Seen(False)
    return Seen(laboratory.failing_test(mutant.patches, mutant.test), mutant.test)


EXAMINE = {Defence.RECEIPTS: by_receipts, Defence.AUDIT: by_audit, Defence.TESTS: by_test}
