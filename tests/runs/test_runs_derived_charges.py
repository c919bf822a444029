"""A ledger must say what the spec makes its rounds say, for every attempt and every member of its cohort."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedveil.accounting.context import Context
from fedveil.config.front_doors import DOORS
from fedveil.config.spec import resolve
from fedveil.core.streams import Streams
from fedveil.core.types import Charge, Declaration, Receipt
from fedveil.data.dataset import Dataset
from fedveil.engine.server_state import draw_cohort
from fedveil.ledger.entries import LedgerRound
from fedveil.ledger.store import Ledger
from fedveil.runs.derived_charges import derivation_problem, round_charges
from fedveil.runs.prepare import prepare
from fedveil.runs.run import run
from fedveil.zoo import ZOO

Settings = dict[str, Any]
MakeContext = Callable[..., Context]


@pytest.fixture
def context(tiny: Settings, blobs: Dataset) -> MakeContext:
    def make(method: str = "fed-cdp", **changes: Any) -> Context:
        settings = {**tiny, "privacy.epsilon": "none", **{key.replace("_", "."): changes[key] for key in changes}}
        return prepare(resolve(method, settings), blobs).context

    return make


def attempt(
    context: Context,
    round: int = 0,
    cohort: tuple[int, ...] = (1, 2, 5, 7),
    *,
    number: int = 0,
    bound: float | None = None,
) -> LedgerRound:
    """An attempt as the loop writes it down."""
    charges = tuple(round_charges(context)(round, cohort, bound))
    receipts = tuple(Receipt(round, charge.client, charge.declared, True, 99) for charge in charges)
    return LedgerRound(round, number, cohort, charges, receipts)


def problem(context: Context, *attempts: LedgerRound, seed: int | None = None) -> str | None:
    return derivation_problem(context, seed, attempts)


def declared(entry: LedgerRound, change: Callable[[Declaration], Declaration], at: int = 2) -> LedgerRound:
    """The attempt with another declaration in one of its charges."""
    charge = entry.charges[at]
    changed = replace(charge, declared=change(charge.declared))
    return replace(entry, charges=(*entry.charges[:at], changed, *entry.charges[at + 1 :]))


CHARGED = "what it was charged is not what the spec declares"
DRAWN = "its cohort is not one that the spec draws"
EXECUTED = "what it did is not what the spec declares"


@pytest.mark.parametrize("method", list(ZOO))
@pytest.mark.parametrize("seed", [1, "none"])
def test_what_every_method_writes_down_follows_from_its_spec(
    method: str, seed: object, tiny: Settings, blobs: Dataset, tmp_path: Path
) -> None:
    settings = {**tiny, "seed": seed, "data.test": 20, "privacy.epsilon": "none", "stop.rounds": 3, "local.steps": 2}
    if method == "fed-cdp-calibrated" or method in DOORS:
        settings |= {"privacy.epsilon": 5.0}
    run(method, settings, out=tmp_path / "run", workers=1, dataset=blobs)
    spec = resolve(tmp_path / "run/spec.toml")
    with Ledger(tmp_path / "run/ledger.sqlite") as ledger:
        attempts = ledger.rounds()
    assert len(attempts) == 3
    assert derivation_problem(prepare(spec, blobs).context, spec.seed, attempts) is None


# Charges

CHANGES: dict[str, Callable[[Declaration], Declaration]] = {
    "more noise": lambda d: replace(d, sum_std=d.sum_std * (1 + 1e-9)),
    "more noise on rows": lambda d: replace(d, row_std=d.row_std + 1),
    "a smaller sensitivity": lambda d: replace(d, sensitivity=d.sensitivity / 2),
    "another bound": lambda d: replace(d, bound=d.bound / 2),
    "fewer steps": lambda d: replace(d, steps=d.steps - 1),
    "a smaller batch": lambda d: replace(d, sampling=replace(d.sampling, batch=1)),
    "another sampling": lambda d: replace(d, sampling=replace(d.sampling, kind="poisson")),
    "another place": lambda d: replace(d, place="upload"),
    "noises that add up": lambda d: replace(d, adds_up=True),
    "a report": lambda d: replace(d, report=3.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_charge_of_one_member_that_says_something_else_is_found(name: str, context: MakeContext) -> None:
    made = context()
    assert problem(made, attempt(made), attempt(made, 1)) is None
    assert problem(made, attempt(made), declared(attempt(made, 1), CHANGES[name])) == f"round 1: {CHARGED}"


def test_numbers_that_another_machine_rounds_differently_are_the_same(context: MakeContext) -> None:
    made = context()
    entry = declared(attempt(made), lambda d: replace(d, sum_std=math.nextafter(d.sum_std, math.inf)))
    assert entry.charges != attempt(made).charges
    assert problem(made, entry) is None


@pytest.mark.parametrize("change", ["one less", "none", "one twice", "of somebody else", "of another round"])
def test_charges_are_those_of_the_whole_cohort_and_of_nobody_else(change: str, context: MakeContext) -> None:
    made = context()
    entry = attempt(made)
    first = entry.charges[0]
    charges: dict[str, tuple[Charge, ...]] = {
        "one less": entry.charges[:-1],
        "none": (),
        "one twice": (first, *entry.charges),
        "of somebody else": (replace(first, client=0), *entry.charges[1:]),
        "of another round": (replace(first, round=1), *entry.charges[1:]),
    }
    assert problem(made, replace(entry, charges=charges[change])) == f"round 0: {CHARGED}"


def test_every_mechanism_of_a_member_is_charged(context: MakeContext) -> None:
    made = context(upload={"clip": {"bound": 1.0}, "unit": "client", "sigma": 2.0})
    entry = attempt(made)
    assert len(entry.charges) == 8
    assert problem(made, entry) is None
    assert problem(made, replace(entry, charges=entry.charges[::2])) == f"round 0: {CHARGED}"


def test_a_repeated_attempt_is_named_by_its_number(context: MakeContext) -> None:
    made = context()
    again = replace(attempt(made, number=1), charges=())
    assert problem(made, attempt(made), again) == f"round 0 (attempt 2): {CHARGED}"


# Receipts


@pytest.mark.parametrize("change", ["not confirmed", "one less", "less noise", "of somebody else"])
def test_what_was_executed_must_be_what_is_declared(change: str, context: MakeContext) -> None:
    made = context()
    entry = attempt(made)
    assert entry.receipts is not None
    first, *rest = entry.receipts
    others: dict[str, list[Receipt]] = {
        "not confirmed": [replace(first, confirmed=False), *rest],
        "one less": rest,
        "less noise": [replace(first, did=replace(first.did, sum_std=0.1)), *rest],
        "of somebody else": [replace(first, client=0), *rest],
    }
    assert problem(made, replace(entry, receipts=tuple(others[change]))) == f"round 0: {EXECUTED}"
    assert problem(made, replace(entry, receipts=(*rest, first))) is None  # in any order
    assert problem(made, replace(entry, receipts=None)) is None  # it was killed


# Cohorts


@pytest.mark.parametrize(
    "cohort", [(1, 2, 5), (1, 2, 5, 7, 8), (1, 2, 5, 10), (-1, 2, 5, 7), (1, 5, 2, 7), (1, 2, 2, 7)]
)
def test_a_cohort_that_nobody_can_draw_is_found(cohort: tuple[int, ...], context: MakeContext) -> None:
    made = context()
    entry = replace(attempt(made), cohort=cohort)
    assert problem(made, entry) == f"round 0: {DRAWN}"


def test_a_round_that_does_not_exist_is_found(context: MakeContext) -> None:
    made = context()
    assert problem(made, attempt(made, 3)) is None
    for round in (-1, 4):
        assert problem(made, replace(attempt(made), round=round)) == f"round {round}: {DRAWN}"


def test_where_everyone_takes_part_nobody_is_missing(context: MakeContext) -> None:
    made = context(cohort="everyone")
    assert problem(made, attempt(made, cohort=tuple(range(10)))) is None
    assert problem(made, attempt(made, cohort=tuple(range(9)))) == f"round 0: {DRAWN}"


def test_a_poisson_cohort_may_be_of_any_size(context: MakeContext) -> None:
    made = context(cohort={"kind": "poisson", "rate": 0.5})
    assert problem(made, attempt(made, cohort=()), attempt(made, 1, cohort=tuple(range(10)))) is None


def test_nobody_takes_part_more_often_than_the_limit(context: MakeContext) -> None:
    made = context(cohort={"kind": "fixed", "size": 4, "most": 2})
    rounds = [attempt(made, 0), attempt(made, 0, number=1), attempt(made, 1, cohort=(0, 3, 4, 6))]
    assert problem(made, *rounds) is None
    assert problem(made, *rounds, attempt(made, 2, cohort=(0, 3, 4, 7))) == f"round 2: {DRAWN}"  # 7 had two


@pytest.mark.parametrize("most", [None, 2])
def test_a_seeded_runs_cohorts_are_drawn_again(most: int | None, context: MakeContext) -> None:
    limit = {} if most is None else {"most": most}
    made = context(cohort={"kind": "fixed", "size": 4, **limit})
    streams, taken, cohorts = Streams.from_seed(1), [0] * 10, []
    for round in range(4):
        candidates = [client for client in range(10) if most is None or taken[client] < most]
        cohorts.append(tuple(draw_cohort(made.method, round, candidates, streams)))
        for client in cohorts[-1]:
            taken[client] += 1
    rounds = [attempt(made, round, cohort) for round, cohort in enumerate(cohorts)]
    again = attempt(made, 2, cohorts[2], number=1)  # killed, and drawn once more: it does not count twice
    assert problem(made, *rounds[:3], again, rounds[3], seed=1) is None
    assert problem(made, *rounds, seed=2) == f"round 0: {DRAWN}"
    other = next(client for client in range(10) if client not in cohorts[2])
    moved = tuple(sorted((*cohorts[2][1:], other)))
    assert problem(made, *rounds[:2], attempt(made, 2, moved), seed=1) == f"round 2: {DRAWN}"


def test_whom_a_budget_left_out_is_not_asked_but_what_the_others_paid_is(context: MakeContext) -> None:
    made = context(cohort="everyone", privacy_epsilon=100.0)
    entry = attempt(made, cohort=(0, 3))
    assert problem(made, entry) is None
    assert problem(made, declared(entry, CHANGES["more noise"], at=1)) == f"round 0: {CHARGED}"


# Bounds that follow the norms


def test_a_moving_bound_begins_where_the_spec_says_and_is_one_for_all(context: MakeContext) -> None:
    made = context("ldp-sgd-quantile")
    clip = made.method.adaptive_clip
    assert clip is not None
    start = clip.start
    later = attempt(made, 1, bound=start / 3)
    assert problem(made, attempt(made, bound=start), later) is None
    assert problem(made, attempt(made, bound=2 * start)) == f"round 0: {CHARGED}"
    halved = replace(later.charges[1].declared, bound=start / 6)
    assert problem(made, attempt(made, bound=start), declared(later, lambda _: halved)) == f"round 1: {CHARGED}"
    other = attempt(made, 1, bound=start / 4, number=1)
    assert problem(made, attempt(made, bound=start), later, other) == f"round 1 (attempt 2): {CHARGED}"
    lesser = declared(later, lambda d: replace(d, sensitivity=d.sensitivity / 2))
    assert problem(made, attempt(made, bound=start), lesser) == f"round 1: {CHARGED}"


def test_a_bound_stays_after_a_round_that_reports_nothing(context: MakeContext) -> None:
    made = context("ldp-sgd-median", upload_clip_bound_every=2)
    clip = made.method.adaptive_clip
    assert clip is not None
    rounds = [attempt(made, 0, bound=clip.start), attempt(made, 1, bound=3.0), attempt(made, 2, bound=3.0)]
    assert problem(made, *rounds, attempt(made, 3, bound=4.0)) is None
    assert problem(made, *rounds[:2], attempt(made, 2, bound=4.0)) == f"round 2: {CHARGED}"


def test_the_cohorts_own_median_is_known_after_the_round_only(context: MakeContext) -> None:
    made = context("geyer")
    charged, ran = attempt(made), attempt(made, bound=0.3)
    assert problem(made, replace(charged, receipts=ran.receipts)) is None
    assert ran.receipts is not None
    first, *rest = ran.receipts
    uneven = (replace(first, did=replace(first.did, bound=0.4)), *rest)
    assert problem(made, replace(charged, receipts=uneven)) == f"round 0: {EXECUTED}"
