"""The table that a method promises, and the table that a run has spent: the same computation on both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedveil.accounting.budget import crowd_of
from fedveil.accounting.context import Context
from fedveil.accounting.events import total_multiplier
from fedveil.accounting.participation import Exposure, Round, Rounds
from fedveil.accounting.route_caveats import ANSWERS
from fedveil.accounting.table import NO_COPIES, PUBLIC_COUNTS, TUNING, Table
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import SEEDED, Caveat, CaveatKind
from fedveil.core.types import Charge, Declaration
from fedveil.method import Method
from fedveil.parts.cohorts import Everyone


def plan(context: Context, rounds: int | None = None, *, secondary: bool = False) -> Table:
    """What the method promises over `rounds` rounds (all of the method's, if not stated).

    A cohort sampler may draw the same client every time, so each client is accounted as taking part in all rounds, or
    in as many as the sampler's limit lets it. `secondary` adds RDP and central-limit values.
    """
    method, population, limit = context.method, context.population, context.limit
    total = method.rounds if rounds is None else rounds
    context.check(total)
    exposures = []
    for records in sorted(set(population.records)):
        declared = context.rounds(range(total), records)
        taken = declared if limit is None else costliest(declared, limit)
        exposures.append(Exposure(records, taken, declared, frozenset(method.mechanisms), complete=True))
    position = {exposure.records: index for index, exposure in enumerate(exposures)}
    return Table(
        context,
        crowd_of(context),
        tuple(exposures),
        tuple(position[records] for records in population.records),
        _caveats(context, _condition(context, total)),
        secondary,
    )


def _condition(context: Context, total: int) -> str:
    if isinstance(context.method.cohort, Everyone):
        return f"over {total} rounds, in all of which every client takes part"
    if context.limit is None:
        return (
            f"if a client takes part in every one of the {total} rounds; where a row counts rounds taken part in, less"
            " for one that is drawn less often"
        )
    limit = min(context.limit, total)
    return f"if no client takes part in more than {limit} of the {total} rounds, which the sampler must enforce"


def replay(
    context: Context,
    charges: Iterable[Charge],
    rounds: int,
    *,
    attempts: Sequence[int] | None = None,
    secondary: bool = False,
) -> Table:
    """What a run has spent after `rounds` rounds, from what its rounds were charged.

    Views that see who took part are accounted from the charges alone. For views to which the cohort is hidden every
    round counts, also for clients that were not drawn; those rounds are read from the method, and only while every
    charge is what the method declares. `attempts` lists the rounds that were begun, a repeated one as often as it was
    (each once, if not given).
    """
    method, population = context.method, context.population
    context.check(rounds)
    took_part, faithful, full = _took_part(charges, context, rounds)
    begun = range(rounds) if attempts is None else attempts
    if any(not 0 <= round < rounds for round in begun) or not set(range(rounds)) <= set(begun):
        raise FedveilError(f"attempts: they are not those of the {rounds} rounds that ran")
    by_size = {records: context.rounds(begun, records) for records in sorted(set(population.records))}
    distinct: dict[tuple[int, Rounds], int] = {}
    exposures: list[Exposure] = []
    exposure_of = []
    for client, records in enumerate(population.records):
        key = (records, took_part[client])
        if key not in distinct:
            distinct[key] = len(exposures)
            everything = by_size[records] if faithful else key[1]
            exposures.append(Exposure(records, key[1], everything, frozenset(method.mechanisms), complete=faithful))
        exposure_of.append(distinct[key])
    crowd = crowd_of(context)
    # Of rounds that were not as declared nothing is claimed about draws and sums.
    crowd = replace(crowd, full=crowd.full and full) if faithful else replace(crowd, limited=True, full=False)
    return Table(
        context,
        crowd,
        tuple(exposures),
        tuple(exposure_of),
        _caveats(context, f"spent in {rounds} rounds, from the ledger"),
        secondary,
    )


def _took_part(charges: Iterable[Charge], context: Context, rounds: int) -> tuple[list[Rounds], bool, bool]:
    """Each client's rounds, whether what was done in them is what the method declares, and whether all were full.

    Thousands of charges say the same few things, so equal ones are looked at once.
    """
    method, population = context.method, context.population
    done: dict[tuple[int, int], tuple[Declaration, ...]] = {}
    for charge in charges:
        where = (charge.client, charge.round)
        done[where] = (*done[where], charge.declared) if where in done else (charge.declared,)
    known: dict[tuple[int, int, tuple[int, ...]], int] = {}  # what was done, by identity → its place among `kinds`
    kinds: dict[Round, int] = {}
    counts: list[dict[int, int]] = [{} for _ in population.records]
    faithful = True
    for (client, round), did in done.items():
        if not 0 <= round < rounds:
            raise FedveilError(f"a charge is of round {round}; {rounds} rounds ran")
        if not 0 <= client < population.clients:
            raise FedveilError(f"a charge names client {client}; there are {population.clients}")
        records = population.records[client]
        key = (round, records, tuple(map(id, did)))
        if key not in known:
            faithful = faithful and _as_declared(context, round, records, did)
            known[key] = kinds.setdefault(Round(did, method.cohort.at(round, method.rounds)), len(kinds))
        mine, kind = counts[client], known[key]
        mine[kind] = mine.get(kind, 0) + 1
    sizes = Counter(round for _, round in done)
    full = all(sizes[round] >= getattr(method.cohort.at(round, method.rounds), "size", 0) for round in range(rounds))
    made = list(kinds)
    shared: dict[tuple[tuple[int, int], ...], Rounds] = {}
    of_clients = []
    for mine in counts:
        numbers = tuple(sorted(mine.items()))
        if numbers not in shared:
            shared[numbers] = tuple((made[kind], times) for kind, times in numbers)
        of_clients.append(shared[numbers])
    return of_clients, faithful, full


def _as_declared(context: Context, round: int, records: int, did: tuple[Declaration, ...]) -> bool:
    """Whether the method declares this; a repeated attempt of a round says all of it once more."""
    method = context.method
    bound = next((mine.bound for mine in did if _follows_norms(method, mine.place)), None)
    declared = method.declare(round, records, context.layers, context.population.clients, bound)
    counted = Counter(did)
    return counted.keys() == set(declared) and len({*counted.values()}) == 1


def _follows_norms(method: Method, place: str) -> bool:
    mechanism = method.mechanisms.get(place)
    return mechanism is not None and mechanism.adaptive is not None


def costliest(rounds: Rounds, limit: int) -> Rounds:
    """At most `limit` of the rounds, the most revealing ones: those with the least noise.

    Where rounds differ in more than their noise there is no such order, and all of them are counted.
    """
    if sum(times for _, times in rounds) <= limit:
        return rounds
    kinds = {tuple((d.place, d.unit, d.steps, d.sampling) for d in round.declarations) for round, _ in rounds}
    several = any(len(round.declarations) > 1 for round, _ in rounds)
    if len(kinds) > 1 or (several and len({_noise(round) for round, _ in rounds}) > 1):
        return rounds
    costliest, left = [], limit
    for round, times in sorted(rounds, key=lambda item: _noise(item[0])):
        taken = min(times, left)
        if taken:
            costliest.append((round, taken))
        left -= taken
    return tuple(costliest)


def _noise(round: Round) -> tuple[float, ...]:
    """z of each mechanism to nine digits, by which rounds are ordered."""
    return tuple(float(f"{total_multiplier(d):.9g}") if d.sum_std > 0 else 0.0 for d in round.declarations)


def alone_caveats(context: Context) -> tuple[Caveat, ...]:
    """What every cell of a table rests on that counts on nobody but the client itself."""
    rounds = context.method.rounds if context.limit is None else min(context.limit, context.method.rounds)
    return _caveats(context, f"if this client answers in {rounds} rounds, once in each, whoever else takes part")


def _caveats(context: Context, condition: str) -> tuple[Caveat, ...]:
    """What every cell of the table rests on."""
    return (
        *((SEEDED,) if context.seeded else ()),
        Caveat(CaveatKind.CONDITION, condition),
        PUBLIC_COUNTS,
        TUNING,
        NO_COPIES,
        *((ANSWERS,) if context.method.cohort.quorum is not None else ()),
        *context.caveats,
    )
