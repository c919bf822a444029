"""Who takes part in which rounds, as far as an adversary knows: one client's rounds, and how cohorts are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from fedveil.core.types import Declaration
from fedveil.method import Method
from fedveil.parts.cohorts import Cohort, Everyone, FixedSize, PoissonCohort
from fedveil.parts.personal import Attention


@dataclass(frozen=True)
class Round:
    """What was declared for a round, and how its cohort was drawn."""

    declarations: tuple[Declaration, ...]
    cohort: Cohort


Rounds = tuple[tuple[Round, int], ...]
"""Rounds, with the number of such rounds."""


@dataclass(frozen=True)
class Crowd:
    """All clients, and what is known of how they are drawn.

    `limited`: some clients may be left out (a limit of rounds, a budget), so the draws depend on one another and no
    amplification is claimed. `mixing`: clients are sent mixtures of single clients' models.
    """

    clients: int
    limited: bool = False
    mixing: bool = False

    @staticmethod
    def of(method: Method, clients: int, limited: bool) -> Crowd:
        return Crowd(clients, limited, isinstance(method.personal, Attention))


@dataclass(frozen=True)
class Participation:
    """How clients come to take part in one round: `chance` p where hidden coins decide it, else None.

    `size` is the number m of a cohort whose size is fixed, of K; only views that see no single upload can use it.

    `quorum`: some of a cohort may not answer, and no more than so many are sure to; None where all must. Who answers in
    time does not depend on records (a caveat says so), but it may depend on who was drawn. So the draw and the answers
    are taken as seen: given both, what a client's data change is what they change in the sum of those who answered.
    That leaves `chance` as a bound on being in it (`pld.seen_draw`), and at least `quorum` noises where those of
    clients add up. It rules out what needs more: an absent client takes its noise with it, and may change who else
    comes, so neither Poisson subsampling of a sum nor sampling without replacement is claimed.
    """

    chance: float | None
    size: int | None
    clients: int
    quorum: int | None = None

    @staticmethod
    def of(cohort: Cohort, crowd: Crowd) -> Participation:
        if isinstance(cohort, Everyone):
            size, chance = None if crowd.limited else crowd.clients, None
        elif crowd.limited or cohort.most is not None:
            size, chance = None, None
        elif isinstance(cohort, PoissonCohort):
            chance = cohort.rate if cohort.rate < 1 else None
            size = None if chance else crowd.clients
        else:
            size, chance = cohort.size if isinstance(cohort, FixedSize) else None, None
        all_must = cohort.quorum is None or (size is not None and cohort.quorum >= size)
        return Participation(chance, size, crowd.clients, None if all_must else cohort.quorum)


@dataclass(frozen=True)
class Exposure:
    """One client: its number of records, the rounds it took part in, and the rounds it could have been drawn for.

    `places` are where the method adds noise, which also says so of a client that has not taken part yet.
    """

    records: int
    took_part: Rounds
    all_rounds: Rounds
    places: frozenset[str] = frozenset()
