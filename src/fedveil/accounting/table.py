"""The unit × view table of a training, the worst case over clients, and each client's own row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from fedveil.accounting import compose
from fedveil.accounting.central_limit import central_limit_epsilon
from fedveil.accounting.context import Context
from fedveil.accounting.count_rule import with_counts
from fedveil.accounting.exposure import Route, routes
from fedveil.accounting.participation import Crowd, Exposure
from fedveil.accounting.risk import hit_rate, risk_of, tradeoff_points
from fedveil.accounting.round_rules import Unprotected
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Caveat, CaveatKind, Guarantee, Relation, Secondary
from fedveil.core.progress import told
from fedveil.core.risks import Risk, worse_of
from fedveil.core.rounding import rounded_up
from fedveil.core.types import Unit, View

VACUOUS = 100.0
"""A group's ε beyond this says nothing; it is printed as ∞, with the number in the reason."""

PUBLIC_COUNTS = Caveat(
    CaveatKind.PUBLIC_COUNTS,
    "how many records each client holds is public; a removed record's place contributes zero",
)
TUNING = Caveat(
    CaveatKind.TUNING,
    "speaks of this training alone; others on the same records, as a search for good settings makes, cost their ε too",
)
NO_COPIES = Caveat(CaveatKind.NO_COPIES, "no record is held by more than one client")
BY_RENYI = Caveat(CaveatKind.RENYI, "certified by Rényi divergences, which overstate ε")


@dataclass(frozen=True, repr=False)
class Table:
    """ε(δ) over unit × view. `guarantees` holds the worst case over clients, `client` each client's own.

    `exposures` are the distinct ones, `exposure_of` says which is each client's. A cell is computed when it is asked
    for. A record is one example of one client: where several clients hold copies, the cell also says what all of them
    cost together, under the cell's own relation.
    """

    context: Context
    crowd: Crowd
    exposures: tuple[Exposure, ...]
    exposure_of: tuple[int, ...]
    caveats: tuple[Caveat, ...]
    secondary: bool = False

    @property
    def delta(self) -> float:
        return self.context.delta

    def at(self, delta: float) -> Table:
        """The same table at another δ."""
        return replace(self, context=replace(self.context, delta=delta))

    def of(self, unit: Unit, view: View) -> Guarantee:
        """The worst case over clients. Clients whose every mechanism another one covers are not computed."""
        candidates = [(self._own(exposure, unit, view), exposure.records) for exposure in self._costliest(unit, view)]
        worst = max(candidates, key=lambda one: (one[0].epsilon, one[1]))[0]
        return self._with_copies(_at_the_risk_of(worst, [cell for cell, _ in candidates]))

    def _costliest(self, unit: Unit, view: View) -> list[Exposure]:
        """The exposures without those that another one surely covers."""
        kept: list[tuple[Exposure, list[Route | Unprotected]]] = []
        for exposure in self.exposures:
            mine = self._routes(exposure, unit, view)
            if any(_covers(other, mine) for _, other in kept):
                continue
            kept = [(other, its) for other, its in kept if not _covers(mine, its)] + [(exposure, mine)]
        return [exposure for exposure, _ in kept]

    def hit_rate(self, unit: Unit, view: View, fpr: float) -> float:
        """An attacker's largest true-positive rate at a false-positive rate; 1 where nothing is promised."""
        routes = self._best_routes(unit, view)
        return max((hit_rate(route.parts, fpr) for route in routes), default=0.0) if routes is not None else 1.0

    def tradeoff(self, unit: Unit, view: View) -> tuple[list[float], list[float]] | None:
        """(false-positive rates, largest true-positive rates) of the worst client; None where nothing is promised."""
        routes = self._best_routes(unit, view)
        if not routes:
            return None
        return tradeoff_points(max(routes, key=lambda route: risk_of(route.parts).advantage).parts)

    def gaussian_mean(self, unit: Unit, view: View) -> float | None:
        """μ of a cell that is certified as one Gaussian; None for any other."""
        risk = self.of(unit, view).risk
        return None if risk is None else risk.mean

    def _best_routes(self, unit: Unit, view: View) -> list[Route] | None:
        """Of each client that counts the route that certifies its ε; None where one has none."""
        best = [self._best(exposure, unit, view)[1] for exposure in self._costliest(unit, view)]
        return None if any(route is None for route in best) else [route for route in best if route is not None]

    def under(self, relation: Relation, unit: Unit, view: View) -> Guarantee:
        """The same, by those of the bounds that speak of this relation."""
        return self._with_copies(self._worst_under(relation, unit, view, copies=1))

    def beside(self, unit: Unit, view: View) -> tuple[Guarantee, ...]:
        """What may be said of a cell under another relation, beside it and never in its place.

        A client that stays and sends zero, where the noises of the others then count.
        """
        cell = self.of(unit, view)
        if unit is Unit.RECORD or cell.relation is not Relation.ADD_OR_REMOVE or not cell.finite:
            return ()
        zero = self.under(Relation.ZERO_OUT, unit, view)
        counted = zero.caveat(CaveatKind.OTHERS_NOISE) is not None and zero.epsilon < cell.epsilon
        return (zero,) if counted else ()

    @cached_property
    def all_beside(self) -> tuple[Guarantee, ...]:
        """What stands beside any cell."""
        return tuple(other for unit in Unit for view in View for other in self.beside(unit, view))

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """All cells, record by record and then client by client."""
        cells = [(unit, view) for unit in Unit for view in View]
        return tuple(self.of(unit, view) for unit, view in told("accounting", cells))

    def client(self, client: int, unit: Unit, view: View) -> Guarantee:
        """One client's own guarantee."""
        if not 0 <= client < len(self.exposure_of):
            raise FedveilError(f"client: there is no client {client}, only 0 to {len(self.exposure_of) - 1}")
        return self._own(self.exposures[self.exposure_of[client]], unit, view)

    def per_client(self, unit: Unit, view: View) -> tuple[float, ...]:
        """Every client's own ε; alike clients are computed once."""
        every = told("each client's own ε", self.exposures)
        distinct = [self._best(exposure, unit, view)[0].epsilon for exposure in every]
        return tuple(distinct[position] for position in self.exposure_of)

    def __str__(self) -> str:
        return "\n".join(map(str, self.guarantees))

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.guarantees))

    def _worst_under(self, relation: Relation, unit: Unit, view: View, copies: int) -> Guarantee:
        every = [self._own(exposure, unit, view, relation, copies) for exposure in self.exposures]
        return _at_the_risk_of(max(every, key=lambda guarantee: guarantee.epsilon), every)

    def _with_copies(self, cell: Guarantee) -> Guarantee:
        copies = self.context.copies
        if copies == 1:
            return cell
        text, kind = f"records are copied: up to {copies} clients hold the same one", CaveatKind.COPIES
        if cell.unit is Unit.RECORD and cell.finite:
            every = self._worst_under(cell.relation, cell.unit, cell.view, copies)
            cell = replace(cell, together=every.epsilon, risk_together=every.risk, composed_together=every.composed)
            kind = CaveatKind.ONE_COPY
            text = f"speaks of one client's copy; {text}, and for all copies together ε = {rounded_up(every.epsilon)}"
        caveats = [Caveat(kind, text) if caveat is NO_COPIES else caveat for caveat in cell.caveats]
        return replace(cell, caveats=tuple(caveats))

    def _routes(
        self, exposure: Exposure, unit: Unit, view: View, copies: int = 1, relation: Relation | None = None
    ) -> list[Route | Unprotected]:
        if self.context.refusal is not None:
            return [Unprotected(self.context.refusal)]
        exposure = with_counts(exposure, self.context)
        return routes(exposure, self.crowd, unit, view, copies, self.context.strict, relation)

    def _own(
        self, exposure: Exposure, unit: Unit, view: View, relation: Relation | None = None, copies: int = 1
    ) -> Guarantee:
        """One client's guarantee: the best of the routes that bound this view, or of those with this relation."""
        guarantee, route = self._best(exposure, unit, view, relation, copies)
        return guarantee if route is None else replace(guarantee, risk=risk_of(route.parts))

    def _best(
        self, exposure: Exposure, unit: Unit, view: View, relation: Relation | None = None, copies: int = 1
    ) -> tuple[Guarantee, Route | None]:
        best: tuple[Guarantee, Route | None] | None = None
        reasons = []
        for route in self._routes(exposure, unit, view, copies, relation):
            if isinstance(route, Unprotected):
                reasons.append(route.reason)
                continue
            if relation is not None and route.parts and route.relation is not relation:
                reasons.append(f"bounded for {route.relation} only")
                continue
            certified = compose.certify(route.parts, self.delta)
            if route.group > 1 and certified.epsilon > VACUOUS:
                reasons.append(vacuous(route.group, certified.epsilon))
                continue
            guarantee = Guarantee(
                unit,
                view,
                route.relation,
                certified.epsilon,
                self.delta,
                certified.accountant,
                compose.describe(route.parts),
                (
                    *self._stated(unit),
                    *route.caveats,
                    *((_group(route.group),) if route.group > 1 else ()),
                    *((BY_RENYI,) if certified.by_renyi else ()),
                ),
                certified.reason,
                _secondary(route, self.delta) if self.secondary else (),
                composed=route.parts,
            )
            if best is None or guarantee.epsilon < best[0].epsilon:
                best = guarantee, route if guarantee.finite else None
        if best is not None:
            return best
        nothing = Guarantee(
            unit,
            view,
            Relation.ADD_OR_REMOVE,
            math.inf,
            self.delta,
            "none",
            "none",
            self._stated(unit),
            "; ".join(dict.fromkeys(reasons)),
        )
        return nothing, None

    def _stated(self, unit: Unit) -> tuple[Caveat, ...]:
        """What holds for every cell of the unit."""
        population = self.context.population
        units = sum(population.records) if unit is Unit.RECORD else population.clients
        if self.delta * units < 1:
            return self.caveats
        large = Caveat(CaveatKind.LARGE_DELTA, f"δ is not below one in {units:,}, the number of {unit}s")
        return (*self.caveats, large)


def _at_the_risk_of(worst: Guarantee, every: list[Guarantee]) -> Guarantee:
    """The cell of the client with the largest ε, with the largest risk of any: the two need not be one client's."""
    risks: list[Risk] = [cell.risk for cell in every if cell.risk is not None]
    if not worst.finite or not risks:
        return worst
    return replace(worst, risk=reduce(worse_of, risks))


def _covers(first: list[Route | Unprotected], second: list[Route | Unprotected]) -> bool:
    if len(first) != 1 or len(second) != 1:
        return False
    mine, other = first[0], second[0]
    if isinstance(mine, Unprotected) or isinstance(other, Unprotected):
        return mine == other
    return mine.relation is other.relation and compose.covers(mine.parts, other.parts)


def _group(records: int) -> Caveat:
    text = f"group privacy, from the noise on single records: all records of a client at once, {records}"
    return Caveat(CaveatKind.GROUP, text)


def vacuous(records: int, epsilon: float) -> str:
    """Why a group's ε is as good as none."""
    value = f"as such it has ε = {epsilon:.3g}" if math.isfinite(epsilon) else "as such its ε is beyond any number"
    return f"vacuous (group of {records}): noise on single records hides a client only as a group, and {value}"


def _secondary(route: Route, delta: float) -> tuple[Secondary, ...]:
    others = [Secondary("RDP", compose.renyi_epsilon(route.parts, delta), "upper bound by Rényi divergences")]
    limit = central_limit_epsilon(route.parts, delta)
    if limit is not None:
        others.append(Secondary("GDP", limit, "central-limit approximation, not a guarantee"))
    return tuple(others)


def exceeded(promised: Table, spent: Table) -> tuple[str, ...]:
    """The cells in which more was spent than promised, in words; empty for a run that kept its promise."""
    cells = []
    for promise in promised.guarantees:
        mine = like(promise, spent)
        if mine.epsilon == 0 or not promise.finite:  # nothing was spent, under whatever relation, or nothing promised
            continue
        if promise.delta != mine.delta:
            cells.append(f"{promise.name}: promised and spent speak of different δ")
        elif mine.epsilon > promise.epsilon * (1 + 1e-6) + 1e-9:
            cells.append(f"{promise.name}: ε = {mine.epsilon:.6g}, promised {promise.epsilon:.6g}")
    return tuple(cells)


def releasable_cells(promised: Table, spent: Table) -> tuple[Guarantee, ...]:
    """The guarantees that may be told to everybody: as promised.

    What was spent tells how often clients were drawn. Only where repeated rounds cost more than the promise is the
    larger number stated.
    """
    both = [(cell, like(cell, spent)) for cell in promised.guarantees]
    return tuple(mine if mine.epsilon > cell.epsilon else cell for cell, mine in both)


def like(promise: Guarantee, spent: Table) -> Guarantee:
    """What was spent in the cell of a promise, under the promise's relation.

    Which of several mechanisms bounds a view best, and so under which relation, may be another one for what was spent;
    numbers under different relations can't be compared.
    """
    mine = spent.of(promise.unit, promise.view)
    if mine.epsilon == 0 or mine.relation is promise.relation:
        return mine
    return spent.under(promise.relation, promise.unit, promise.view)
