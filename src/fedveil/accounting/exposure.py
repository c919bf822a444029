"""What one client's data went through, and which part of it counts against a view.

A view's guarantee composes only the mechanisms that act before what the view sees. What one round costs is in
`round_rules`; here rounds are put together, by who was in them:

- views that see who took part are owed the rounds taken part in;
- where `peer` and `released` look at a draw that is left to chance, each round is due with its chance, drawn or not;
- under a limit of rounds, equal rounds are due in as many of them as a client is drawn for, by the law of that number;
- where none of this can be said, the rounds taken part in count, all that the limit allows.

A clipping bound that follows the clients' own reports passes the server's noise by: beside it that noise counts for
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedveil.accounting.compose import Composition, Term, composition
from fedveil.accounting.count_rule import count_terms, without_counts
from fedveil.accounting.drawn_rounds import law_of_coins, law_of_fixed_size
from fedveil.accounting.events import Step, added_up, canonical_noise
from fedveil.accounting.participation import Crowd, Exposure, Participation, Round, Rounds, limit_of
from fedveil.accounting.round_rules import RoundCost, Situation, Unprotected, round_cost_of
from fedveil.accounting.route_caveats import (
    FULL_COHORTS,
    HIDDEN_DRAW,
    LEAKED_BOUND,
    MEAN_OF_DRAWS,
    OTHERS_NOISE,
    PAST_THE_SERVER,
    PEER_BOUNDED,
    PEER_MIXED,
    PEER_SIZED,
    PEER_SUMMED,
    PLAIN_SUM,
)
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Caveat, Relation
from fedveil.core.types import Unit, View

MOST_BY_LAW = 2000
"""Under a larger limit of rounds their number is not counted by its law."""


@dataclass(frozen=True)
class Route:
    """A composition that bounds what a view learns, with the relation and the caveats it stands under."""

    parts: Composition
    relation: Relation
    caveats: tuple[Caveat, ...] = ()
    group: int = 1  # how many records stand for the unit, where noise on single ones has to hide them all


@dataclass(frozen=True)
class _Rounds:
    """So many rounds of one kind, with what one of them costs."""

    round: Round
    times: int
    cost: RoundCost


def routes(
    exposure: Exposure,
    crowd: Crowd,
    unit: Unit,
    view: View,
    copies: int,
    strict: bool = False,
    relation: Relation | None = None,
) -> list[Route | Unprotected]:
    """One route per place that adds noise; each bounds the view by itself, because what follows is post-processing.

    `strict` gives no guarantee where a bound was read from the norms without noise. `relation` asks for one, where a
    place can speak of several; a route may still come under its own.
    """
    exposure, counts = without_counts(exposure)
    if not exposure.took_part and not exposure.all_rounds and not exposure.places and counts:
        return [_beside(Route((), one), counts, unit, view, copies) for one in Relation]
    declared = exposure.places | {
        declaration.place for round, _ in exposure.took_part + exposure.all_rounds for declaration in round.declarations
    }
    if not declared:
        return [Unprotected("no mechanism adds noise")]
    mixed = crowd.mixing and view is View.PEER
    every = [
        _route(place, exposure, crowd, unit, View.SERVER if mixed else view, copies, strict, relation)
        for place in sorted(declared)
    ]
    if mixed:
        every = [
            route if isinstance(route, Unprotected) else replace(route, caveats=(*route.caveats, PEER_MIXED))
            for route in every
        ]
    return [route if isinstance(route, Unprotected) else _beside(route, counts, unit, view, copies) for route in every]


def _beside(route: Route, counts: Rounds, unit: Unit, view: View, copies: int) -> Route | Unprotected:
    """A route, with what was measured beside the training; each copy of a record was in counts of its own."""
    terms = count_terms(counts, route.relation, unit, view)
    if isinstance(terms, Unprotected) or not terms:
        return terms if isinstance(terms, Unprotected) else route
    several = tuple(replace(term, times=term.times * copies) for term in terms)
    return replace(route, parts=composition(*route.parts, *several))


def _route(
    place: str,
    exposure: Exposure,
    crowd: Crowd,
    unit: Unit,
    view: View,
    copies: int,
    strict: bool,
    relation: Relation | None,
) -> Route | Unprotected:
    known: dict[Round, Participation] = {
        round: Participation.of(round.cohort, crowd) for round, _ in exposure.all_rounds + exposure.took_part
    }
    if place == "server" and any(
        d.report is not None for round in known for d in round.declarations if d.place != place
    ):
        return Unprotected(PAST_THE_SERVER)
    costs: dict[Round, list[RoundCost]] = {}
    leaked = False
    for round, taking in known.items():
        mine = [declaration for declaration in round.declarations if declaration.place == place]
        if not mine:
            return Unprotected(f"{place}: there are rounds in which this mechanism did not run")
        case = Situation(unit, view, exposure.records, taking, crowd.summed, relation)
        for declaration in mine:
            cost = round_cost_of(declaration, case)
            if isinstance(cost, Unprotected):
                return cost
            costs.setdefault(round, []).append(cost)
            leaked = leaked or declaration.leaks_bound
    if leaked and strict:
        return Unprotected("the clipping bound is read from the clients' norms without noise, and strict is asked for")
    every = [cost for each in costs.values() for cost in each]
    relations = {cost.relation for cost in every}
    if len(relations) > 1:
        raise FedveilError(f"{place}: rounds accounted under different relations cannot be composed")
    # Where it is left to chance who is in a round, the round costs everybody, drawn or not.
    chance = any(cost.everybody or cost.chance is not None for cost in every)
    rounds = [
        _Rounds(round, times, cost)
        for round, times in (exposure.all_rounds if chance else exposure.took_part)
        for cost in costs[round]
    ]
    copies = copies if unit is Unit.RECORD else 1
    published = view in (View.PEER, View.RELEASED)
    by_law = _by_law(exposure, crowd, costs, view) if published and copies == 1 else None
    together = place == "server" or any(cost.gathered for cost in every)
    terms = by_law or [_of_all_copies(each, copies, together) for each in rounds]
    parts = composition(*terms)
    seen = by_law is not None or any(term.chance < 1 for term in parts)
    caveats = [LEAKED_BOUND] * leaked + _caveats(place, view, known, every, seen)
    group = exposure.records if place == "example" and unit is Unit.CLIENT else 1
    return Route(parts, relations.pop() if relations else Relation.ADD_OR_REMOVE, tuple(caveats), group)


def _by_law(exposure: Exposure, crowd: Crowd, costs: dict[Round, list[RoundCost]], view: View) -> list[Term] | None:
    """Rounds under a limit, by the law of how many of them a client is drawn for; None where there is no such law.

    It needs a draw that leaves nobody out but by the limit, and rounds that are equal in what they cost and in how
    their cohorts are drawn.
    """
    limits = {limit_of(round.cohort) for round, _ in exposure.all_rounds}
    if not exposure.complete or crowd.limited or len(limits) != 1:
        return None
    limit = limits.pop()
    times = sum(times for _, times in exposure.all_rounds)
    every = [costs[round] for round, _ in exposure.all_rounds]
    if any(round.cohort.quorum is not None for round, _ in exposure.all_rounds):
        return None  # who answers may tell who was drawn
    if limit is None or any(cost.everybody or cost.chance is not None for each in every for cost in each):
        return None
    canonical = canonical_noise(step for each in every for cost in each for step, _ in cost.steps)
    kinds = {added_up((canonical[step], count) for cost in each for step, count in cost.steps) for each in every}
    if len(kinds) != 1:
        return None
    most, size, rate = limit
    if min(most, times) > MOST_BY_LAW:
        return None
    if size is None:
        law = law_of_coins(times, rate, most)
    else:
        law = law_of_fixed_size(times, size, crowd.clients - (view is View.PEER), most)
    return [Term(kinds.pop(), law=law)]


def _of_all_copies(rounds: _Rounds, copies: int, together: bool) -> Term:
    """The term of some rounds, for a record that several clients hold.

    Where each client's noise is its own, every copy costs once more; their draws count only where each has its own
    coin. Where one noise covers the sum, copies move it together, by `copies` times as much in the same round, and no
    chance of the draw is counted on.
    """
    cost, times = rounds.cost, rounds.times
    if copies == 1:
        return Term(cost.steps, cost.chance or 1.0, times)
    if together:
        return Term(tuple((_alone(step, copies), count) for step, count in cost.steps), 1.0, times)
    coins = getattr(rounds.round.cohort, "rate", None) is not None
    return Term(cost.steps, (cost.chance or 1.0) if coins else 1.0, times * copies)


def _alone(step: Step, copies: int) -> Step:
    """A step that moves by `copies` times as much, without any chance or help of others that it counted on."""
    moved = 2 if step.kind == "hidden-record" else 1
    return Step("gaussian", step.noise_multiplier / copies / moved)


def _caveats(
    place: str, view: View, known: dict[Round, Participation], costs: list[RoundCost], seen: bool
) -> list[Caveat]:
    """What the route counts on."""
    gathered = any(cost.gathered for cost in costs)
    hidden = place != "example" and any(
        cost.everybody and step.kind in ("without-replacement", "poisson", "hidden-record")
        for cost in costs
        for step, _ in cost.steps
    )
    sized = any(cost.everybody and cost.relation is Relation.REPLACE_ONE for cost in costs) or gathered
    limited = any(limit_of(round.cohort) is not None for round in known)
    caveats = [HIDDEN_DRAW] * hidden + [MEAN_OF_DRAWS] * seen
    if view is View.PEER:
        caveats.append(PEER_SUMMED if gathered else PEER_SIZED if sized else PEER_BOUNDED)
    if gathered:
        caveats.append(OTHERS_NOISE)
        caveats += [PLAIN_SUM] * (place == "example")
        caveats += [FULL_COHORTS] * (limited and any(taking.size is not None for taking in known.values()))
    return caveats
