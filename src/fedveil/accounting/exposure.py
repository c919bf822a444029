"""What one client's data went through, and which part of it counts against a view.

A view's guarantee composes only the mechanisms that act before what the view sees. Rules by place of the noise:

| place | unit | seen protected by | costs |
| --- | --- | --- | --- |
| `example` | record | `on_device`: row noise; later views: the sums' noise | its steps, each round taken part in |
| `upload` | client | `client` and later | its Gaussian, each round taken part in |
| `server` | client | `peer`, `released` | its Gaussian, every round, sampled as the cohort is |

Noise on the whole of a client also hides one record of it: exchanging a record moves the client's contribution inside
the clipping ball, so by at most 2S, and z halves. Noise on records hides a client only as a group of its N_i records:
every step holds up to n = min(N_i, slots of a batch) of them, so taking the client out changes each of the L sums by at
most n·S, and the single noisy rows together by at most sqrt(n)·S; L plain Gaussians with z/n or z/sqrt(n), whatever the
sampling. The table prints this as vacuous where it says nothing (`guarantees.VACUOUS`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedveil.accounting.compose import Composition, Term, composition
from fedveil.accounting.events import Counted, Step, noise_multiplier, relation_of, row_steps, sum_steps
from fedveil.accounting.guarantees import Relation
from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration, Unit, View
from fedveil.parts.cohorts import Cohort, Everyone, FixedSize, PoissonCohort

Rounds = tuple[tuple[tuple[Declaration, ...], int], ...]
"""What was declared for a round, with the number of such rounds."""

HIDDEN = (
    "who takes part is decided by coins that this view never sees; ε holds over those coins, and for a client known"
    " to have been drawn the server row holds"
)
PEER = "a peer sees some of the released models, so the released row bounds it"
REPLACED = "certified by Rényi divergences: no privacy loss distribution is known for fixed-size samples"


@dataclass(frozen=True)
class Participation:
    """How clients come to take part: `chance` p where hidden coins decide it each round, else None.

    `share` is the fixed part m/K of a fixed-size cohort, 1 for everyone; only noise at the server can use it.
    """

    chance: float | None
    share: float | None

    @staticmethod
    def of(cohort: Cohort, clients: int, limit: int | None) -> Participation:
        """A limit on rounds makes the draws depend on one another, so no amplification is claimed with one."""
        if isinstance(cohort, Everyone):
            return Participation(None, 1.0)
        if limit is not None or cohort.most is not None:
            return Participation(None, None)
        if isinstance(cohort, PoissonCohort):
            return Participation(cohort.rate, None) if cohort.rate < 1 else Participation(None, 1.0)
        return Participation(None, cohort.size / clients if isinstance(cohort, FixedSize) else None)


@dataclass(frozen=True)
class Exposure:
    """One client: its number of records, the rounds it took part in, and the rounds it could have been drawn for.

    `places` are where the method adds noise, which also says so of a client that has not taken part yet.
    """

    records: int
    took_part: Rounds
    all_rounds: Rounds
    places: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Route:
    """A composition that bounds what a view learns, with the relation and the caveats it stands under."""

    parts: Composition
    relation: Relation
    caveats: tuple[str, ...] = ()
    group: int = 1  # how many records stand for the unit, where noise on single ones has to hide them all


@dataclass(frozen=True)
class Unprotected:
    """Nothing bounds what the view learns, for this reason."""

    reason: str


def routes(
    exposure: Exposure, participation: Participation, unit: Unit, view: View, copies: int
) -> list[Route | Unprotected]:
    """One route per place that adds noise; each bounds the view by itself, because what follows is post-processing."""
    declared = exposure.places | {
        declaration.place
        for declarations, _ in exposure.took_part + exposure.all_rounds
        for declaration in declarations
    }
    if not declared:
        return [Unprotected("no mechanism adds noise")]
    return [_route(place, exposure, participation, unit, view, copies) for place in sorted(declared)]


def _route(
    place: str, exposure: Exposure, participation: Participation, unit: Unit, view: View, copies: int
) -> Route | Unprotected:
    published = view in (View.PEER, View.RELEASED)
    hidden = published and participation.chance is not None
    rounds = exposure.all_rounds if hidden or place == "server" else exposure.took_part
    terms: list[Term] = []
    relations: set[Relation] = set()
    for declarations, times in rounds:
        mine = [declaration for declaration in declarations if declaration.place == place]
        if not mine:
            return Unprotected(f"{place}: there are rounds in which this mechanism did not run")
        for declaration in mine:
            term = _one_round(declaration, exposure.records, participation, unit, view)
            if isinstance(term, Unprotected):
                return term
            terms.append(Term(term[0].steps, term[0].chance, term[0].times * times * _copies(unit, copies)))
            relations.add(term[1])
    if len(relations) > 1:
        raise FedveilError(f"{place}: rounds accounted under different relations cannot be composed")
    relation = relations.pop() if relations else Relation.ADD_OR_REMOVE
    group = exposure.records if place == "example" and unit is Unit.CLIENT else 1
    return Route(composition(*terms), relation, _caveats(relation, view, hidden), group)


def _copies(unit: Unit, copies: int) -> int:
    return copies if unit is Unit.RECORD else 1


def _caveats(relation: Relation, view: View, hidden: bool) -> tuple[str, ...]:
    found = []
    if relation is Relation.REPLACE_ONE and view is not View.ON_DEVICE:
        found.append(REPLACED)
    if hidden:
        found.append(HIDDEN)
    if view is View.PEER:
        found.append(PEER)
    return tuple(found)


def _one_round(
    declaration: Declaration, records: int, participation: Participation, unit: Unit, view: View
) -> tuple[Term, Relation] | Unprotected:
    """What one round costs the unit against the view."""
    if declaration.place == "example" and declaration.unit is Unit.RECORD:
        whole = unit is Unit.CLIENT and records > 1
        steps = _group(declaration, records, view) if whole else _example(declaration, view)
        relation = Relation.ADD_OR_REMOVE if whole else relation_of(declaration.sampling)
    elif declaration.place == "upload" and declaration.unit is Unit.CLIENT:
        if view is View.ON_DEVICE:
            return Unprotected("noise on the finished update comes after the gradients that this view sees")
        steps = _whole(declaration, unit)
        relation = Relation.ADD_OR_REMOVE
    elif declaration.place == "server" and declaration.unit is Unit.CLIENT:
        return _server(declaration, participation, unit, view)
    else:
        return Unprotected(f"no accounting rule for noise on a {declaration.unit} at {declaration.place!r}")
    if isinstance(steps, Unprotected):
        return steps
    chance = participation.chance if view in (View.PEER, View.RELEASED) else None
    return Term(steps, chance or 1.0), relation


def _example(declaration: Declaration, view: View) -> Counted | Unprotected:
    if declaration.sum_std == 0:
        return Unprotected("σ = 0: gradients are clipped, but no noise is added")
    if view is not View.ON_DEVICE:
        return sum_steps(declaration)
    if declaration.row_std == 0:
        return Unprotected("noise is added once per batch, so single examples' gradients are seen without any")
    if declaration.sampling.kind == "poisson":
        return Unprotected("the noise of a Poisson batch is drawn on its sum, and how many rows it has would show")
    return row_steps(declaration)


def _group(declaration: Declaration, records: int, view: View) -> Counted | Unprotected:
    """A whole client by the noise on its records: see the rules above. Its places contribute zero when it is gone."""
    alone = _example(declaration, view)
    if isinstance(alone, Unprotected):
        return alone
    rows = min(records, max(declaration.sampling.cap, declaration.sampling.batch))
    if view is View.ON_DEVICE:
        noise = noise_multiplier(declaration.row_std, declaration.sensitivity) / math.sqrt(rows)
    else:
        noise = noise_multiplier(declaration.sum_std, declaration.sensitivity) / rows
    return ((Step("gaussian", noise), declaration.steps),)


def _whole(declaration: Declaration, unit: Unit) -> Counted | Unprotected:
    if declaration.sum_std == 0:
        return Unprotected("σ = 0: updates are clipped, but no noise is added")
    noise = noise_multiplier(declaration.sum_std, declaration.sensitivity)
    return ((Step("gaussian", noise if unit is Unit.CLIENT else noise / 2), declaration.steps),)


def _server(
    declaration: Declaration, participation: Participation, unit: Unit, view: View
) -> tuple[Term, Relation] | Unprotected:
    """Noise at the server, on the sum of the cohort's clipped updates.

    A client that is not drawn leaves exactly the sum without it, noise included, so for the unit `client` Poisson
    cohorts are a Poisson-subsampled Gaussian. One record of a client is different: client present with the record
    against client present without it, both absent with probability 1 − p; see `losses.seen_draw`.
    """
    if view not in (View.PEER, View.RELEASED):
        return Unprotected("noise is added at the server, after what this view sees")
    steps = _whole(declaration, unit)
    if isinstance(steps, Unprotected):
        return steps
    (step, count), chance = steps[0], participation.chance
    if unit is Unit.RECORD:
        return Term(steps, chance or 1.0), Relation.ADD_OR_REMOVE
    if chance is not None:
        return Term(((Step("poisson", step.noise_multiplier, chance), count),)), Relation.ADD_OR_REMOVE
    if participation.share is not None and participation.share < 1:
        sampled = Step("without-replacement", step.noise_multiplier / 2, participation.share)
        return Term(((sampled, count),)), Relation.REPLACE_ONE
    return Term(steps), Relation.ADD_OR_REMOVE
