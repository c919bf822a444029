"""Results of attacks and audits, as far as they are shown; read from the JSON files that they leave.

`from_dict` raises KeyError, TypeError or ValueError for anything that is not of this version.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedveil.core.guarantee import Caveat, cell_name
from fedveil.core.types import Unit, View
from fedveil.core.verdicts import Check, CheckKind, Verdict


@dataclass(frozen=True)
class Theft:
    """A record of a victim and what was made of it, as PNG."""

    client: int
    rmse: float
    truth: bytes
    reconstruction: bytes


@dataclass(frozen=True)
class AttackFacts:
    """An attack on a view: how it went over all victims, and a few of their records, which are training records.

    A record counts as reconstructed below the `threshold`. `blind_rmse` is the error of a constant guess. Means are
    None where an attack left numbers that are not finite.
    """

    view: View
    attack: str
    victims: int
    threshold: float
    success_rate: float | None
    rmse: float | None
    blind_rmse: float | None
    label_accuracy: float | None
    thefts: tuple[Theft, ...] = ()

    @staticmethod
    def from_dict(table: Mapping[str, Any], thefts: Sequence[Theft] = ()) -> AttackFacts:
        return AttackFacts(
            View(table["view"]),
            _text(table["attack"]),
            _whole(table["victims"]),
            _number(table["threshold"]),
            _number_or_none(table["success_rate"]),
            _number_or_none(table["rmse"]),
            _number_or_none(table["blind_rmse"]),
            _number_or_none(table["label_accuracy"]),
            tuple(thefts),
        )


@dataclass(frozen=True)
class Refutation:
    """Where a promise is broken: at `delta` more was shown than was verified."""

    delta: float
    epsilon_lower: float
    epsilon_verified: float


@dataclass(frozen=True)
class PowerFacts:
    """What an audit's guesses could see.

    If every guess were right, they would show ε ≥ `possible`. Noise below the share `noise` of what is declared is
    noticed with probability `probability`. So many canaries would notice half the noise; None if that is not known.
    """

    answers: int
    possible: float
    noise: float
    canaries_needed: int | None
    probability: float


@dataclass(frozen=True)
class AuditFacts:
    """What an adversary could show about a run, beside what was verified of it.

    `reason` and `caveats` are those of the verified guarantee. `refuted` says where guesses contradict the promise;
    `checks` may contradict it too. `power` is None where nothing was promised.
    """

    verdict: Verdict
    method: str
    data: str
    unit: Unit
    view: View
    rounds: int
    canaries: int
    confidence: float
    epsilon_lower: float
    epsilon_lower_if_gaussian: float | None
    epsilon_verified: float
    delta: float
    refuted: Refutation | None
    power: PowerFacts | None
    checks: tuple[Check, ...]
    reason: str
    caveats: tuple[Caveat, ...]

    @property
    def name(self) -> str:
        return cell_name(self.unit, self.view)

    @staticmethod
    def from_dict(table: Mapping[str, Any]) -> AuditFacts:
        refuted, power, details = table["refuted"], table["power"], table["details"]
        facts = AuditFacts(
            Verdict(table["verdict"]),
            _text(table["method"]),
            _text(table["data"]),
            Unit(table["unit"]),
            View(table["view"]),
            _whole(table["rounds"]),
            _whole(table["canaries"]),
            _number(table["confidence"]),
            _number(table["epsilon_lower"]),
            _number_or_none(table["epsilon_lower_if_gaussian"]),
            _number(table["epsilon_verified"]),
            _number(table["delta"]),
            None
            if refuted is None
            else Refutation(
                _number(refuted["delta"]), _number(refuted["epsilon_lower"]), _number(refuted["epsilon_verified"])
            ),
            None if power is None else _power(power),
            tuple(_check(check) for check in table["checks"]),
            _text(details["reason"]),
            tuple(_caveat(caveat) for caveat in details["caveats"]),
        )
        broken = facts.refuted is not None or any(check.contradicts for check in facts.checks)
        if broken is not (facts.verdict is Verdict.CONTRADICTED):
            raise ValueError(f"an audit's verdict is {facts.verdict}, and its numbers say otherwise")
        if facts.power is None and facts.verdict in (Verdict.CONSISTENT, Verdict.INCONCLUSIVE):
            raise ValueError("an audit of a promise does not say what it could have seen")
        return facts


def _power(table: Mapping[str, Any]) -> PowerFacts:
    needed = table["canaries_needed"]
    return PowerFacts(
        _whole(table["answers"]),
        _number(table["possible"]),
        _number(table["noise"]),
        None if needed is None else _whole(needed),
        _number(table["probability"]),
    )


def _check(table: Mapping[str, Any]) -> Check:
    measured, chance, level = (_number(table[key]) for key in ("measured", "chance", "level"))
    return Check(CheckKind(table["kind"]), measured, chance, level, _whole(table["samples"]))


def _caveat(value: object) -> Caveat:
    if not isinstance(value, Mapping):  # a text alone says no kind, and a leak would go unseen
        raise TypeError(f"not a caveat with a kind: {value!r}")
    return Caveat.from_dict(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"not a whole number: {value!r}")
    return value


def _number(value: object) -> float:
    """A number; JSON has no infinity, so that is the text "inf"."""
    if value == "inf":
        return math.inf
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"not a number: {value!r}")
    if math.isnan(value):
        raise ValueError("not a number: NaN")
    return float(value)


def _number_or_none(value: object) -> float | None:
    return None if value is None else _number(value)
