"""The unit × view table of a training, the worst case over clients, and each client's own row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from fedveil.accounting import compose
from fedveil.accounting.context import Context
from fedveil.accounting.exposure import Route, Unprotected, routes
from fedveil.accounting.participation import Crowd, Exposure
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Caveat, CaveatKind, Guarantee, Relation, Secondary
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


@dataclass(frozen=True)
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
        every = [(exposure, self._routes(exposure, unit, view)) for exposure in self.exposures]
        kept: list[tuple[Exposure, list[Route | Unprotected]]] = []
        for exposure, mine in every:
            if any(_covers(other, mine) for _, other in kept):
                continue
            kept = [(other, its) for other, its in kept if not _covers(mine, its)] + [(exposure, mine)]
        candidates = [(self._own(exposure, unit, view), exposure.records) for exposure, _ in kept]
        return self._with_copies(max(candidates, key=lambda one: (one[0].epsilon, one[1]))[0])

    def under(self, relation: Relation, unit: Unit, view: View) -> Guarantee:
        """The same, by those of the bounds that speak of this relation."""
        return self._with_copies(self._worst_under(relation, unit, view, copies=1))

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """All cells, record by record and then client by client."""
        return tuple(self.of(unit, view) for unit in Unit for view in View)

    def client(self, client: int, unit: Unit, view: View) -> Guarantee:
        """One client's own guarantee."""
        if not 0 <= client < len(self.exposure_of):
            raise FedveilError(f"client: there is no client {client}, only 0 to {len(self.exposure_of) - 1}")
        return self._own(self.exposures[self.exposure_of[client]], unit, view)

    def per_client(self, unit: Unit, view: View) -> tuple[float, ...]:
        """Every client's own ε; alike clients are computed once."""
        distinct = [self._own(exposure, unit, view).epsilon for exposure in self.exposures]
        return tuple(distinct[position] for position in self.exposure_of)

    def __str__(self) -> str:
        return "\n".join(map(str, self.guarantees))

    def _worst_under(self, relation: Relation, unit: Unit, view: View, copies: int) -> Guarantee:
        every = [self._own(exposure, unit, view, relation, copies) for exposure in self.exposures]
        return max(every, key=lambda guarantee: guarantee.epsilon)

    def _with_copies(self, cell: Guarantee) -> Guarantee:
        copies = self.context.copies
        if copies == 1:
            return cell
        text, kind, together = f"records are copied: up to {copies} clients hold the same one", CaveatKind.COPIES, None
        if cell.unit is Unit.RECORD and cell.finite:
            kind, together = CaveatKind.ONE_COPY, self._worst_under(cell.relation, cell.unit, cell.view, copies).epsilon
            text = f"speaks of one client's copy; {text}, and for all copies together ε = {rounded_up(together)}"
        caveats = [Caveat(kind, text) if caveat is NO_COPIES else caveat for caveat in cell.caveats]
        return replace(cell, caveats=tuple(caveats), together=together)

    def _routes(self, exposure: Exposure, unit: Unit, view: View, copies: int = 1) -> list[Route | Unprotected]:
        if self.context.refusal is not None:
            return [Unprotected(self.context.refusal)]
        return routes(exposure, self.crowd, unit, view, copies, self.context.strict)

    def _own(
        self, exposure: Exposure, unit: Unit, view: View, relation: Relation | None = None, copies: int = 1
    ) -> Guarantee:
        """One client's guarantee: the best of the routes that bound this view, or of those with this relation."""
        best: Guarantee | None = None
        reasons = []
        for route in self._routes(exposure, unit, view, copies):
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
            )
            if best is None or guarantee.epsilon < best.epsilon:
                best = guarantee
        if best is not None:
            return best
        return Guarantee(
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

    def _stated(self, unit: Unit) -> tuple[Caveat, ...]:
        """What holds for every cell of the unit."""
        population = self.context.population
        units = sum(population.records) if unit is Unit.RECORD else population.clients
        if self.delta * units < 1:
            return self.caveats
        large = Caveat(CaveatKind.LARGE_DELTA, f"δ is not below one in {units:,}, the number of {unit}s")
        return (*self.caveats, large)


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
    limit = compose.central_limit_epsilon(route.parts, delta)
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
