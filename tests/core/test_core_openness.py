"""What is not declared public is said with every guarantee."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedveil.core.guarantee import Caveat, CaveatKind
from fedveil.core.openness import (
    OWN_TESTS,
    UNRECORDED,
    Openness,
    features_caveats,
    network_caveats,
    validation_caveats,
)

STATISTICS, EVALUATION = CaveatKind.PRIVATE_STATISTICS, CaveatKind.PRIVATE_EVALUATION


@pytest.mark.parametrize(
    ("caveats_of", "kind"),
    [(features_caveats, STATISTICS), (network_caveats, STATISTICS), (validation_caveats, EVALUATION)],
)
def test_public_needs_no_caveat_private_has_its_kind_and_silence_is_not_public(
    caveats_of: Callable[[Openness], tuple[Caveat, ...]], kind: CaveatKind
) -> None:
    assert caveats_of(Openness.PUBLIC) == ()
    assert [caveat.kind for caveat in caveats_of(Openness.PRIVATE)] == [kind]
    assert [caveat.kind for caveat in caveats_of(Openness.UNDECLARED)] == [CaveatKind.UNDECLARED]


def test_what_no_noise_covers_is_printed_with_every_number() -> None:
    uncovered = {kind for kind in CaveatKind if kind.uncovered}
    assert uncovered == {STATISTICS, EVALUATION, CaveatKind.UNDECLARED}
    assert all(kind.spoils for kind in uncovered)
    assert OWN_TESTS.kind.uncovered
    assert UNRECORDED.kind.uncovered


def test_statistics_of_private_records_void_an_epsilon_and_silence_does_not() -> None:
    assert STATISTICS.voids
    assert not EVALUATION.voids
    assert not CaveatKind.UNDECLARED.voids
