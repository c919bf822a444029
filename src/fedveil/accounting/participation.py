"""Who takes part in which rounds, as far as an adversary knows: one client's rounds, and how cohorts are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from fedveil.core.types import Declaration, Population
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

    `limited`: some clients may be left out (by a budget), so the draws depend on one another and no amplification is
    claimed. A limit of rounds is part of the cohort and leaves clients out by a known law. `full`: a round for which
    fewer clients may be drawn than its cohort of fixed size does not run. `summed`: nothing of single clients' noisy
    gradients is used but their plain sum (`Method.examples_add_up`). `mixing`: clients are sent mixtures of single
    clients' models.
    """

    clients: int
    limited: bool = False
    mixing: bool = False
    full: bool = False
    summed: bool = False

    @staticmethod
    def of(method: Method, population: Population, limited: bool) -> Crowd:
        mixing = isinstance(method.personal, Attention)
        summed = method.examples_add_up(population.records)
        return Crowd(population.clients, limited, mixing, full=not limited, summed=summed)


@dataclass(frozen=True)
class Participation:
    """How clients come to take part in one round: `chance` p where it is left to chance, the same in every round.

    `independent` says that every client has its own coin, `everyone` that all take part always. `size` is the number m
    of a cohort whose size is fixed, of K, and always reached; only views that see no single upload can use it. `noises`
    is how many clients' noises stand before the sum of such a cohort, at least.

    `quorum`: some of a cohort may not answer, and no more than so many are sure to; None where all must. Who answers in
    time does not depend on records (a caveat says so), but it may depend on who was drawn. So the draw and the answers
    are taken as seen: given both, what a client's data change is what they change in the sum of those who answered.
    That leaves at least `quorum` noises where those of clients add up. It rules out what needs more: an absent client
    takes its noise with it, and may change who else comes, so nothing is gained from the draw.
    """

    chance: float | None
    size: int | None
    clients: int
    independent: bool = False
    everyone: bool = False
    quorum: int | None = None

    @staticmethod
    def of(cohort: Cohort, crowd: Crowd) -> Participation:
        complete = Participation._complete(cohort, crowd)
        if cohort.quorum is None or (complete.size is not None and cohort.quorum >= complete.size):
            return complete
        # A cohort of coins may be smaller than the quorum, as one may be from which a budget or a limit leaves clients.
        sure = 0 if complete.size is None else cohort.quorum
        return Participation(None, None, crowd.clients, quorum=sure)

    @staticmethod
    def _complete(cohort: Cohort, crowd: Crowd) -> Participation:
        """As if all of a cohort answered."""
        clients = crowd.clients
        if isinstance(cohort, Everyone):
            return Participation(None, None if crowd.limited else clients, clients, everyone=not crowd.limited)
        if crowd.limited:
            return Participation(None, None, clients)
        limited = cohort.most is not None
        if isinstance(cohort, PoissonCohort):
            if limited:
                return Participation(None, None, clients, independent=True)
            chance = cohort.rate if cohort.rate < 1 else None
            return Participation(
                chance, None if chance else clients, clients, independent=True, everyone=chance is None
            )
        if limited and not crowd.full:
            return Participation(None, None, clients)
        sampled = not limited and cohort.size < clients
        everyone = not limited and not sampled
        return Participation(cohort.size / clients if sampled else None, cohort.size, clients, everyone=everyone)

    @property
    def noises(self) -> int:
        return (self.size or 0) if self.quorum is None else self.quorum


def chance_seen_by_peer(participation: Participation) -> float | None:
    """p as a peer knows it: that it was not drawn itself makes everybody else's draw a little more likely."""
    chance = participation.chance
    if chance is None or participation.independent or participation.size is None:
        return chance
    return min(1.0, participation.size / max(participation.clients - 1, 1))


def limit_of(cohort: Cohort) -> tuple[int, int | None, float] | None:
    """(most, size or None, rate) of a cohort with a limit of rounds; None where there is none."""
    if isinstance(cohort, PoissonCohort) and cohort.most is not None:
        return cohort.most, None, cohort.rate
    if isinstance(cohort, FixedSize) and cohort.most is not None:
        return cohort.most, cohort.size, 0.0
    return None


@dataclass(frozen=True)
class Exposure:
    """One client: its number of records, the rounds it took part in, and the rounds it could have been drawn for.

    `places` are where the method adds noise, which also says so of a client that has not taken part yet. `complete`
    says that the rounds are all of a training so far, so that the law of how often a client was drawn is known.
    """

    records: int
    took_part: Rounds
    all_rounds: Rounds
    places: frozenset[str] = frozenset()
    complete: bool = False
