"""What a round is charged, from the spec: written into the ledger before a round, and compared with it when it is read.

A ledger is held to everything that follows from spec and context, which it has digests of: for every attempt, and for
every member of its cohort, the declarations of the method. What does not follow stands in the ledger alone: the value
of a bound that moves with noisy reports (noise moves with it, so it changes no noise multiplier), whom an unseeded run
drew, and whom a budget left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from fedveil.accounting.context import Context
from fedveil.core.declaration_records import same_declaration
from fedveil.core.streams import Streams
from fedveil.core.types import Charge, Declaration
from fedveil.engine.admission import Limited
from fedveil.engine.server_state import draw_cohort
from fedveil.ledger.entries import LedgerRound
from fedveil.mechanisms.adaptive import Reported
from fedveil.parts.cohorts import needed

KEPT_DECLARATIONS = 4096
"""So many are remembered: as a rule those of all clients in a round, and so in all rounds where nothing changes."""

RoundCharges = Callable[[int, Sequence[int], float | None], list[Charge]]
"""From a round, its cohort and the value of a bound that follows the norms to what each member is charged."""

AttemptCheck = Callable[[LedgerRound], bool]
"""Whether an attempt can be what it says, after those that were looked at before."""


def round_charges(context: Context) -> RoundCharges:
    """The function that says what a round will do to its cohort, from the method's own declarations."""
    method, population = context.method, context.population

    @lru_cache(KEPT_DECLARATIONS)
    def declare(round: int, records: int, bound: float | None) -> tuple[Declaration, ...]:
        return method.declare(round, records, context.layers, population.clients, bound)

    def charges(round: int, cohort: Sequence[int], bound: float | None) -> list[Charge]:
        standing = 0 if method.steady else round  # else every round declares anew
        return [
            Charge(round, client, declared)
            for client in cohort
            for declared in declare(standing, population.records[client], bound)
        ]

    return charges


def derivation_problem(context: Context, seed: int | None, attempts: Sequence[LedgerRound]) -> str | None:
    """What of a ledger's attempts does not follow from the spec; None where everything does."""
    possible, drawn, bounded = _is_possible(context), _is_drawn(context, seed), _is_bounded(context)
    expected = round_charges(context)
    for entry in attempts:
        where = f"round {entry.round}" + (f" (attempt {entry.attempt + 1})" if entry.attempt else "")
        if not possible(entry) or not drawn(entry):
            return f"{where}: its cohort is not one that the spec draws"
        if not bounded(entry) or not _is_declared(context, expected, entry, entry.charges, entry.cohort):
            return f"{where}: what it was charged is not what the spec declares"
        if entry.receipts is not None and not _is_complete(context, entry):
            return f"{where}: fewer have answered than the spec asks for"
        if entry.receipts is not None and not _is_executed(context, expected, entry):
            return f"{where}: what it did is not what the spec declares"
    return None


def _is_possible(context: Context) -> AttemptCheck:
    """There is such a round, and its cohort is a rising list of clients that exist."""
    rounds, clients = context.method.rounds, context.population.clients

    def check(entry: LedgerRound) -> bool:
        rising = all(a < b for a, b in zip((-1, *entry.cohort), (*entry.cohort, clients), strict=True))
        return 0 <= entry.round < rounds and rising

    return check


def _is_drawn(context: Context, seed: int | None) -> AttemptCheck:
    """A seeded run's cohorts are drawn again. Of others it is known who could be drawn, and mostly how many.

    Whom a budget leaves out would take as long to find out as it took the run, so then nothing more is asked.
    """
    method, population = context.method, context.population
    if context.budget is not None:
        return lambda entry: True
    admission = Limited([0] * population.clients, context.limit)
    if seed is None:

        def could_be_drawn(entry: LedgerRound) -> bool:
            sampler, candidates = method.cohort.at(entry.round, method.rounds), admission.candidates(entry.round)
            admission.took_part(entry.round, entry.cohort)
            return sampler.can_draw(entry.cohort, candidates)

        return could_be_drawn
    streams, cohorts = Streams.from_seed(seed), list[tuple[int, ...]]()

    def is_drawn_again(entry: LedgerRound) -> bool:
        for round in range(len(cohorts), entry.round + 1):  # a repeated round draws the same clients once more
            cohorts.append(tuple(draw_cohort(method, round, admission.candidates(round), streams)))
            admission.took_part(round, cohorts[round])
        return entry.cohort == cohorts[entry.round]

    return is_drawn_again


def _is_bounded(context: Context) -> AttemptCheck:
    """A bound that moves with reports begins where the spec says, and moves only after rounds that report."""
    clip, known = context.method.adaptive_clip, dict[int, float]()

    def check(entry: LedgerRound) -> bool:
        bound = _recorded_bound(context, entry.charges)
        if clip is None or bound is None or not isinstance(clip.adaptive, Reported):
            return True
        before = entry.round - 1
        if entry.round == 0:
            known.setdefault(0, clip.start)
        elif before in known and not clip.adaptive.reports_in(before):
            known.setdefault(entry.round, known[before])
        return bound == known.setdefault(entry.round, bound)

    return check


def _is_complete(context: Context, entry: LedgerRound) -> bool:
    """As many of the cohort have arrived as must."""
    sampler = context.method.cohort.at(entry.round, context.method.rounds)
    return len(entry.arrived) >= needed(sampler, len(entry.cohort))


def _is_executed(context: Context, expected: RoundCharges, entry: LedgerRound) -> bool:
    """Confirmed receipts of what was charged; only the cohort's own median was not known then."""
    clients = {client: number for number, client in enumerate(entry.arrived)}
    places = {place: number for number, place in enumerate(context.method.mechanisms)}
    receipts = entry.receipts or ()
    if not all(r.confirmed and r.client in clients and r.did.place in places for r in receipts):
        return False
    ordered = sorted(receipts, key=lambda receipt: (clients[receipt.client], places[receipt.did.place]))
    done, clip = [receipt.charge for receipt in ordered], context.method.adaptive_clip
    if clip is not None and isinstance(clip.adaptive, Reported):
        return _agree(done, entry.due)
    return _is_declared(context, expected, entry, done, entry.arrived)


def _is_declared(
    context: Context,
    expected: RoundCharges,
    entry: LedgerRound,
    charges: Sequence[Charge],
    clients: Sequence[int],
) -> bool:
    return _agree(charges, expected(entry.round, clients, _recorded_bound(context, charges)))


def _recorded_bound(context: Context, charges: Sequence[Charge]) -> float | None:
    """The value of a bound that follows the norms, as it was for the first of the cohort."""
    adaptive = [place for place, mechanism in context.method.mechanisms.items() if mechanism.adaptive is not None]
    return next((charge.declared.bound for charge in charges if charge.declared.place in adaptive), None)


def _agree(mine: Sequence[Charge], its: Sequence[Charge]) -> bool:
    """Whether two lists charge the same, in the same order; thousands of them are of the same few declarations."""
    known: dict[tuple[int, int], bool] = {}
    if len(mine) != len(its):
        return False
    for one, other in zip(mine, its, strict=True):
        pair = (id(one.declared), id(other.declared))
        if pair not in known:
            known[pair] = same_declaration(one.declared, other.declared)
        if (one.round, one.client) != (other.round, other.client) or not known[pair]:
            return False
    return True
