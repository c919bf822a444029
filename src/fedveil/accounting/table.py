"""The unit × view table of a training, the worst case over clients, and each client's own row."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from fedveil.accounting import compose
from fedveil.accounting.exposure import Route, Unprotected, routes
from fedveil.accounting.guarantees import VACUOUS, Guarantee, Relation, Secondary
from fedveil.accounting.participation import Crowd, Exposure
from fedveil.core.errors import FedveilError
from fedveil.core.types import Unit, View

SINGLE_PRECISION = (
    "sums and noise are computed in single precision; the proof takes them as real numbers, the usual idealisation"
)
PUBLIC_COUNTS = "how many records each client holds is public; a removed record's place contributes zero"
NO_COPIES = "no record is held by more than one client"

BY_RENYI = "certified by Rényi divergences, which overstate ε"
GROUP = "group privacy, from the noise on single records: all records of a client at once,"


@dataclass(frozen=True)
class Setting:
    """What every cell of a table shares."""

    delta: float
    crowd: Crowd
    copies: int
    caveats: tuple[str, ...]
    secondary: bool
    strict: bool = False
    records: int = 0  # of all clients together

    def stated(self, unit: Unit) -> tuple[str, ...]:
        """What holds for every cell of the unit."""
        units = self.records if unit is Unit.RECORD else self.crowd.clients
        if self.delta * units < 1:
            return self.caveats
        return (*self.caveats, f"δ is not below one in {units:,}, the number of {unit}s")


@dataclass(frozen=True)
class Table:
    """ε(δ) over unit × view. `guarantees` holds the worst case over clients, `client` each client's own.

    `exposures` are the distinct ones, `exposure_of` says which is each client's. A cell is computed when it is asked
    for; `word` adds to it what only the caller knows of the records.
    """

    setting: Setting
    exposures: tuple[Exposure, ...]
    exposure_of: tuple[int, ...]
    word: Callable[[Guarantee], Guarantee] = field(default=lambda cell: cell, compare=False)

    @property
    def delta(self) -> float:
        return self.setting.delta

    def of(self, unit: Unit, view: View) -> Guarantee:
        """The worst case over clients."""
        return self.word(worst_of(self.exposures, self.setting, unit, view))

    def under(self, relation: Relation, unit: Unit, view: View) -> Guarantee:
        """The same, by those of the bounds that speak of this relation."""
        found = [guarantee_of(exposure, self.setting, unit, view, relation) for exposure in self.exposures]
        return self.word(max(found, key=lambda guarantee: guarantee.epsilon))

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """All cells, record by record and then client by client."""
        return tuple(self.of(unit, view) for unit in Unit for view in View)

    def client(self, client: int, unit: Unit, view: View) -> Guarantee:
        """One client's own guarantee."""
        if not 0 <= client < len(self.exposure_of):
            raise FedveilError(f"there is no client {client}")
        return guarantee_of(self.exposures[self.exposure_of[client]], self.setting, unit, view)

    def per_client(self, unit: Unit, view: View) -> tuple[float, ...]:
        """Every client's own ε; alike clients are computed once."""
        found = [guarantee_of(exposure, self.setting, unit, view).epsilon for exposure in self.exposures]
        return tuple(found[position] for position in self.exposure_of)

    def to_dict(self) -> dict[str, object]:
        return {"delta": self.delta, "guarantees": [guarantee.to_dict() for guarantee in self.guarantees]}

    def __str__(self) -> str:
        return "\n".join(map(str, self.guarantees))


def worst_of(exposures: tuple[Exposure, ...], setting: Setting, unit: Unit, view: View) -> Guarantee:
    """The largest ε over clients. Clients whose every mechanism another one covers are not computed."""
    found = [(exposure, _routes(exposure, setting, unit, view)) for exposure in exposures]
    kept: list[tuple[Exposure, list[Route | Unprotected]]] = []
    for exposure, mine in found:
        if any(_covers(other, mine) for _, other in kept):
            continue
        kept = [(other, its) for other, its in kept if not _covers(mine, its)] + [(exposure, mine)]
    candidates = [(guarantee_of(exposure, setting, unit, view), exposure.records) for exposure, _ in kept]
    return max(candidates, key=lambda candidate: (candidate[0].epsilon, candidate[1]))[0]


def _covers(first: list[Route | Unprotected], second: list[Route | Unprotected]) -> bool:
    if len(first) != 1 or len(second) != 1:
        return False
    mine, other = first[0], second[0]
    if isinstance(mine, Unprotected) or isinstance(other, Unprotected):
        return mine == other
    return mine.relation is other.relation and compose.covers(mine.parts, other.parts)


def _routes(exposure: Exposure, setting: Setting, unit: Unit, view: View) -> list[Route | Unprotected]:
    return routes(exposure, setting.crowd, unit, view, setting.copies, setting.strict)


def guarantee_of(
    exposure: Exposure, setting: Setting, unit: Unit, view: View, relation: Relation | None = None
) -> Guarantee:
    """One client's guarantee: the best of the routes that bound this view, or of those with this relation."""
    best: Guarantee | None = None
    reasons = []
    for route in _routes(exposure, setting, unit, view):
        if isinstance(route, Unprotected):
            reasons.append(route.reason)
            continue
        if relation is not None and route.parts and route.relation is not relation:
            reasons.append(f"bounded for {route.relation} only")
            continue
        certified = compose.certify(route.parts, setting.delta)
        if route.group > 1 and certified.epsilon > VACUOUS:
            reasons.append(vacuous(route.group, certified.epsilon))
            continue
        found = Guarantee(
            unit,
            view,
            route.relation,
            certified.epsilon,
            setting.delta,
            certified.accountant,
            compose.describe(route.parts),
            (
                *setting.stated(unit),
                *route.caveats,
                *((f"{GROUP} {route.group}",) if route.group > 1 else ()),
                *((BY_RENYI,) if certified.accountant == "RDP" else ()),
            ),
            certified.reason,
        )
        if setting.secondary:
            found = replace(found, secondary=_secondary(route, setting.delta))
        if best is None or found.epsilon < best.epsilon:
            best = found
    if best is not None:
        return best
    reason = "; ".join(dict.fromkeys(reasons))
    return Guarantee(
        unit, view, Relation.ADD_OR_REMOVE, math.inf, setting.delta, "none", "none", setting.stated(unit), reason
    )


def vacuous(records: int, epsilon: float) -> str:
    """Why a group's ε is as good as none."""
    found = f"as such it has ε = {epsilon:.3g}" if math.isfinite(epsilon) else "as such its ε is beyond any number"
    return f"vacuous (group of {records}): noise on single records hides a client only as a group, and {found}"


def _secondary(route: Route, delta: float) -> tuple[Secondary, ...]:
    found = [Secondary("RDP", compose.renyi_epsilon(route.parts, delta), "upper bound by Rényi divergences")]
    limit = compose.central_limit_epsilon(route.parts, delta)
    if limit is not None:
        found.append(Secondary("GDP", limit, "central-limit approximation, not a guarantee"))
    return tuple(found)


def exceeded(promised: Table, spent: Table) -> tuple[str, ...]:
    """The cells in which more was spent than promised, in words; empty for a run that kept its promise."""
    found = []
    for promise in promised.guarantees:
        mine = like(promise, spent)
        if mine.epsilon == 0 or not promise.finite:  # nothing was spent, under whatever relation, or nothing promised
            continue
        if promise.delta != mine.delta:
            found.append(f"{promise.unit} × {promise.view}: promised and spent speak of different δ")
        elif mine.epsilon > promise.epsilon * (1 + 1e-6) + 1e-9:
            found.append(f"{promise.unit} × {promise.view}: ε = {mine.epsilon:.6g}, promised {promise.epsilon:.6g}")
    return tuple(found)


def like(promise: Guarantee, spent: Table) -> Guarantee:
    """What was spent in the cell of a promise, under the promise's relation.

    Which of several mechanisms bounds a view best, and so under which relation, may be another one for what was spent;
    numbers under different relations can't be compared.
    """
    mine = spent.of(promise.unit, promise.view)
    if mine.epsilon == 0 or mine.relation is promise.relation:
        return mine
    return spent.under(promise.relation, promise.unit, promise.view)
