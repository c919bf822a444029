"""Whether what a training rests on besides its clients' records is public, and what must be said where it is not.

Noise covers what clients compute from their records while they train. It does not cover what was done with private
records before (features scaled by their mean, a network fitted to them) or beside it (an accuracy that is published).
"""

from __future__ import annotations

from enum import StrEnum

from fedveil.core.guarantee import Caveat, CaveatKind


class Openness(StrEnum):
    """What is known of something that no noise covers. What nobody declared is not taken for public."""

    PUBLIC = "public"
    PRIVATE = "private"
    UNDECLARED = "undeclared"


def features_caveats(features: Openness) -> tuple[Caveat, ...]:
    """What records are scaled, imputed, selected and encoded with, besides themselves."""
    return _caveats(
        features,
        Caveat(
            CaveatKind.PRIVATE_STATISTICS,
            "features are scaled, imputed, selected or encoded with statistics of private records, which no ε covers",
        ),
        "nobody declared that features are made with public constants alone; statistics of private records would be"
        " covered by no ε",
    )


def validation_caveats(validation_records: Openness) -> tuple[Caveat, ...]:
    """Whose records the model is measured on."""
    return _caveats(
        validation_records,
        Caveat(
            CaveatKind.PRIVATE_EVALUATION,
            "the model is measured on private records, and no ε covers what is published or chosen by that",
        ),
        "nobody declared that the validation records are public; what is measured on private ones is covered by no ε",
    )


def network_caveats(made_from: Openness) -> tuple[Caveat, ...]:
    """What a network holds before its first training step: constants, fixed features, first weights."""
    return _caveats(
        made_from,
        Caveat(
            CaveatKind.PRIVATE_STATISTICS,
            "the network was made with statistics of private records, which no ε covers",
        ),
        "nobody declared that the network is made from code and public data alone; what it took from private records"
        " would be covered by no ε",
    )


OWN_TESTS = Caveat(
    CaveatKind.PRIVATE_EVALUATION,
    "each client's own test set follows its records, and no ε covers the accuracy that is measured on it and sent",
)
"""For trainings in which clients have test sets of their own."""

UNRECORDED = Caveat(
    CaveatKind.UNDECLARED,
    "an older version wrote this down without saying how features were made; statistics of private records would be"
    " covered by no ε",
)


def _caveats(openness: Openness, private: Caveat, undeclared: str) -> tuple[Caveat, ...]:
    match openness:
        case Openness.PUBLIC:
            return ()
        case Openness.PRIVATE:
            return (private,)
        case Openness.UNDECLARED:
            return (Caveat(CaveatKind.UNDECLARED, undeclared),)
