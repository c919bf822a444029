"""Values of cells, read off finished runs, settings and attacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from fedveil.accounting.claims import claims
from fedveil.accounting.plan import plan
from fedveil.core.types import Unit, View
from fedveil.papers.printed_tables import Value
from fedveil.runs.prepare import Prepared
from fedveil.studies.series import Done

DIVERGED = "diverged"


# Of a finished run


def final_accuracy(done: Done, prepared: Prepared) -> Value:
    """Of the global model on the validation records, after the last round."""
    assert done.result is not None
    return done.result.main if math.isfinite(done.result.loss) else DIVERGED


def rounds_done(done: Done, prepared: Prepared) -> Value:
    assert done.result is not None
    return done.result.rounds


def uploads(done: Done, prepared: Prepared) -> Value:
    """How often a model was sent by a client."""
    return sum(int(event["clients"]) for event in done.rounds)


def milliseconds(done: Done, prepared: Prepared) -> Value:
    """Per local iteration of one client: the median round, without the first (start) and the last (evaluation)."""
    method, records = prepared.spec.method, min(prepared.context.population.records)
    steps = method.local_steps(records)
    timed = done.rounds[1:-1] or done.rounds
    return 1000 * median(float(event["seconds"]) / max(int(event["clients"]) * steps, 1) for event in timed)


def reaching(goal: float, key: str) -> Callable[[Done, Prepared], Value]:
    """After how many rounds `key` first reached the goal; in words how far it came where it did not."""

    def read(done: Done, prepared: Prepared) -> Value:
        values = [(int(event["round"]) + 1, float(event[key])) for event in done.rounds if event.get(key) is not None]
        first = next((rounds for rounds, value in values if value >= goal), None)
        if first is not None:
            return first
        best = max((value for _, value in values), default=0.0)
        return f"not reached in {len(done.rounds)} rounds (best {best:.4f})"

    return read


def after(rounds: int | None, key: str) -> Callable[[Done, Prepared], Value]:
    """`key` at the last evaluation up to `rounds` rounds; None: after the last."""

    def read(done: Done, prepared: Prepared) -> Value:
        values = [
            float(event[key])
            for event in done.rounds
            if event.get(key) is not None and (rounds is None or event["round"] < rounds)
        ]
        return values[-1] if values else "not evaluated"

    return read


# Of a setting


def verified_epsilon(unit: Unit, view: View) -> Callable[[Prepared], Value]:
    """What is promised, worst case over clients."""
    return lambda prepared: plan(prepared.context).of(unit, view).epsilon


def claimed_epsilon(unit: Unit, view: View) -> Callable[[Prepared], Value]:
    """What the paper's formula gives for this setting."""

    def read(prepared: Prepared) -> Value:
        claimed = [claim.epsilon for claim in claims(prepared.context) if (claim.unit, claim.view) == (unit, view)]
        return claimed[0] if claimed else "not claimed"

    return read


def solved_sigma(prepared: Prepared) -> Value:
    """The noise scale of the first mechanism, as calibrated."""
    return next(iter(prepared.spec.method.mechanisms.values())).sigma


# Of an attack


def leak_value(key: str) -> Callable[[Mapping[str, Any]], Value]:
    def read(result: Mapping[str, Any]) -> Value:
        value = result[key]
        assert isinstance(value, int | float | str)
        return value

    return read


def succeeded(result: Mapping[str, Any]) -> Value:
    """As the paper prints it, with the share of victims in brackets."""
    return f"{'Y' if result['success_rate'] > 0.5 else 'N'} ({result['success_rate']:.0%})"
