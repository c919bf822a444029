"""The table that a method promises, and the table that a run has spent: the same computation on both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fedveil.accounting.events import total_multiplier
from fedveil.accounting.guarantees import check_delta
from fedveil.accounting.participation import Crowd, Exposure, Round, Rounds
from fedveil.accounting.table import NO_COPIES, PUBLIC_COUNTS, SINGLE_PRECISION, Setting, Table
from fedveil.core.checks import count
from fedveil.core.errors import FedveilError
from fedveil.core.types import Declaration, Population, Receipt
from fedveil.core.words import SEEDED
from fedveil.method import Method
from fedveil.parts.cohorts import Everyone


def plan(
    method: Method,
    population: Population,
    layers: int,
    *,
    delta: float,
    rounds: int | None = None,
    participation: int | None = None,
    copies: int = 1,
    seeded: bool = False,
    secondary: bool = False,
    excluding: bool = False,
    strict: bool = False,
) -> Table:
    """What `method` promises to `population` over `rounds` rounds (all of the method's, if not stated).

    A cohort sampler may draw the same client every time, so each client is accounted as taking part in all rounds,
    or in at most `participation` of them where that is enforced (the sampler's own limit, if not stated).
    `copies` bounds how many clients hold a copy of the same record. `secondary` adds RDP and central-limit values.
    `excluding` says that a budget may leave single clients out of later rounds. `strict` promises nothing where a
    clipping bound is read from the data without noise.
    """
    total = method.rounds if rounds is None else rounds
    participation = method.cohort.most if participation is None else participation
    _check(method, population, total, layers, delta, participation, copies)
    limit = total if participation is None else min(participation, total)
    exposures = []
    for records in sorted(set(population.records)):
        declared = _declared(method, range(total), records, layers, population.clients)
        exposures.append(Exposure(records, _costliest(declared, limit), declared, frozenset(method.mechanisms)))
    if isinstance(method.cohort, Everyone):
        condition = f"over {total} rounds, in all of which every client takes part"
    elif participation is None:
        condition = (
            f"if a client takes part in every one of the {total} rounds; where a row counts rounds taken part in, less"
            " for one that is drawn less often"
        )
    else:
        condition = (
            f"if no client takes part in more than {limit} of the {total} rounds, which the sampler must enforce"
        )
    limited = excluding or participation is not None
    setting = _setting(method, population, delta, limited, copies, seeded, secondary, condition, strict)
    position = {exposure.records: index for index, exposure in enumerate(exposures)}
    return Table(setting, tuple(exposures), tuple(position[records] for records in population.records))


def replay(
    receipts: Iterable[Receipt],
    population: Population,
    method: Method,
    layers: int,
    *,
    delta: float,
    rounds: int,
    attempts: Sequence[int] | None = None,
    participation: int | None = None,
    copies: int = 1,
    seeded: bool = False,
    secondary: bool = False,
    excluding: bool = False,
    strict: bool = False,
) -> Table:
    """What a run has spent after `rounds` rounds, from the receipts of what it did.

    Views that see who took part are accounted from the receipts alone. For views to which the cohort is hidden every
    round counts, also for clients that were not drawn; those rounds are read from the method, and only while every
    receipt says what the method declares. `attempts` lists the rounds that were begun, a repeated one as often as it
    was (each once, if not given). `participation` is the limit the sampler enforced, if any.
    """
    participation = method.cohort.most if participation is None else participation
    _check(method, population, rounds, layers, delta, participation, copies)
    took_part, faithful = _took_part(receipts, method, population, layers, rounds)
    begun = range(rounds) if attempts is None else attempts
    if any(not 0 <= round < rounds for round in begun) or not set(range(rounds)) <= set(begun):
        raise FedveilError(f"attempts: they are not those of the {rounds} rounds that ran")
    by_size = {
        records: _declared(method, begun, records, layers, population.clients)
        for records in sorted(set(population.records))
    }
    distinct: dict[tuple[int, Rounds], int] = {}
    exposures: list[Exposure] = []
    exposure_of = []
    for client, records in enumerate(population.records):
        key = (records, took_part[client])
        if key not in distinct:
            distinct[key] = len(exposures)
            everything = by_size[records] if faithful else key[1]
            exposures.append(Exposure(records, key[1], everything, frozenset(method.mechanisms)))
        exposure_of.append(distinct[key])
    condition = f"spent in {rounds} rounds, from receipts"
    limited = excluding or participation is not None or not faithful  # claims no amplification by hidden draws
    setting = _setting(method, population, delta, limited, copies, seeded, secondary, condition, strict)
    return Table(setting, tuple(exposures), tuple(exposure_of))


def _took_part(
    receipts: Iterable[Receipt], method: Method, population: Population, layers: int, rounds: int
) -> tuple[list[Rounds], bool]:
    """Each client's rounds, and whether what was done in them is what the method declares.

    Thousands of receipts say the same few things, so equal ones are looked at once.
    """
    done: dict[tuple[int, int], tuple[Declaration, ...]] = {}
    for receipt in receipts:
        where = (receipt.client, receipt.round)
        done[where] = (*done[where], receipt.did) if where in done else (receipt.did,)
    known: dict[tuple[int, int, tuple[int, ...]], int] = {}  # what was done, by identity → its place among `kinds`
    kinds: dict[Round, int] = {}
    counts: list[dict[int, int]] = [{} for _ in population.records]
    faithful = True
    for (client, round), did in done.items():
        if not 0 <= round < rounds:
            raise FedveilError(f"a receipt is of round {round}; {rounds} rounds ran")
        if not 0 <= client < population.clients:
            raise FedveilError(f"a receipt names client {client}; there are {population.clients}")
        records = population.records[client]
        key = (round, records, tuple(map(id, did)))
        if key not in known:
            faithful = faithful and _as_declared(method, round, records, layers, population.clients, did)
            known[key] = kinds.setdefault(Round(did, method.cohort.at(round, method.rounds)), len(kinds))
        mine, kind = counts[client], known[key]
        mine[kind] = mine.get(kind, 0) + 1
    made = list(kinds)
    shared: dict[tuple[tuple[int, int], ...], Rounds] = {}
    found = []
    for mine in counts:
        numbers = tuple(sorted(mine.items()))
        if numbers not in shared:
            shared[numbers] = tuple((made[kind], times) for kind, times in numbers)
        found.append(shared[numbers])
    return found, faithful


def _as_declared(
    method: Method, round: int, records: int, layers: int, clients: int, did: tuple[Declaration, ...]
) -> bool:
    """Whether the method declares this; a repeated attempt of a round says all of it once more."""
    bound = next((mine.bound for mine in did if _follows_norms(method, mine.place)), None)
    found = Counter(did)
    return found.keys() == set(method.declare(round, records, layers, clients, bound)) and len({*found.values()}) == 1


def _follows_norms(method: Method, place: str) -> bool:
    mechanism = method.mechanisms.get(place)
    return mechanism is not None and mechanism.adaptive is not None


def _declared(method: Method, rounds: Sequence[int], records: int, layers: int, clients: int) -> Rounds:
    """What the method declares for these rounds, equal ones counted; where nothing changes, one stands for all."""
    if method.steady and rounds:
        return ((_round(method, rounds[0], records, layers, clients), len(rounds)),)
    return tuple(Counter(_round(method, round, records, layers, clients) for round in rounds).items())


def _round(method: Method, round: int, records: int, layers: int, clients: int) -> Round:
    return Round(method.declare(round, records, layers, clients), method.cohort.at(round, method.rounds))


def _costliest(rounds: Rounds, limit: int) -> Rounds:
    """At most `limit` of the rounds, the most revealing ones: those with the least noise.

    Where rounds differ in more than their noise there is no such order, and all of them are counted.
    """
    if sum(times for _, times in rounds) <= limit:
        return rounds
    kinds = {tuple((d.place, d.unit, d.steps, d.sampling) for d in round.declarations) for round, _ in rounds}
    several = any(len(round.declarations) > 1 for round, _ in rounds)
    if len(kinds) > 1 or (several and len({_noise(round) for round, _ in rounds}) > 1):
        return rounds
    found, left = [], limit
    for round, times in sorted(rounds, key=lambda item: _noise(item[0])):
        taken = min(times, left)
        if taken:
            found.append((round, taken))
        left -= taken
    return tuple(found)


def _noise(round: Round) -> tuple[float, ...]:
    """z of each mechanism to nine digits, by which rounds are ordered."""
    return tuple(float(f"{total_multiplier(d):.9g}") if d.sum_std > 0 else 0.0 for d in round.declarations)


def _setting(
    method: Method,
    population: Population,
    delta: float,
    limited: bool,
    copies: int,
    seeded: bool,
    secondary: bool,
    condition: str,
    strict: bool,
) -> Setting:
    held = NO_COPIES if copies == 1 else f"a record is held by at most {copies} clients and counted once for each"
    caveats = (*((SEEDED,) if seeded else ()), condition, SINGLE_PRECISION, PUBLIC_COUNTS, held)
    crowd = Crowd.of(method, population.clients, limited)
    return Setting(delta, crowd, copies, caveats, secondary, strict, sum(population.records))


def _check(
    method: Method,
    population: Population,
    rounds: int,
    layers: int,
    delta: float,
    participation: int | None,
    copies: int,
) -> None:
    check_delta(delta)
    if population.clients == 0:
        raise FedveilError("data: there are no clients to account for")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 0 <= rounds < 10**7:
        raise FedveilError(f"rounds: must be a whole number below ten million, not {rounds}")
    count("layers", layers)
    count("copies", copies)
    if participation is not None:
        count("participation", participation)
        if isinstance(method.cohort, Everyone):
            raise FedveilError("participation: everyone takes part in every round, so there is no limit")
    method.check(population)
