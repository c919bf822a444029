"""Guarantees as sentences for a person who must sign them, and the reasons why they may not hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fedveil.core.guarantee import SEEDED, Caveat, CaveatKind, Guarantee
from fedveil.core.types import Unit, View
from fedveil.report.model.number_texts import delta_text, epsilon_text
from fedveil.report.model.run_facts import ENDED_EARLY, Run, Status
from fedveil.report.model.verdict_sentence import USELESS, CellRisk, times_in_hundred

OF_WHAT: Mapping[Unit, str] = {Unit.RECORD: "one record of one client", Unit.CLIENT: "one whole client"}

_AS_IT_STANDS = "not private as it stands"


def odds(epsilon: float, delta: float) -> float:
    """How often a fair "was it used?" is answered rightly, at most, by whoever is bound by (ε, δ): 0.5 is a coin.

    False alarms and misses together are at least 2·(1 − δ)/(1 + e^ε).
    """
    return 1.0 if epsilon > 700 else min(1.0, 1 - (1 - delta) / (1 + math.exp(epsilon)))


def guess_share(guarantee: Guarantee, risks: Sequence[CellRisk] = ()) -> float:
    """How often a guess is right at most: from the trade-off where it is known, else from (ε, δ) alone."""
    for risk in risks:
        if (risk.unit, risk.view) == (guarantee.unit, guarantee.view) and risk.right_guess is not None:
            return risk.right_guess
    every = guarantee.epsilon if guarantee.together is None else guarantee.together  # a person has one record
    return odds(every, guarantee.delta) if guarantee.finite else 1.0


def guess_words(share: float) -> str:
    """Per hundred, rounded up."""
    if share > USELESS:
        return "no useful protection: a guess may nearly always be right"
    return f"a guess is right at most {times_in_hundred(share)} times in 100"


def meaning(guarantee: Guarantee, risks: Sequence[CellRisk] = ()) -> str:
    """What a finite ε means for somebody who guesses; why it means nothing, where it does not hold as it stands."""
    if guarantee.caveat(CaveatKind.SEEDED) is not None:
        return SEEDED.text
    return guess_words(guess_share(guarantee, risks)) if guarantee.void is None else _AS_IT_STANDS


def guarantee_of(guarantees: Sequence[Guarantee], unit: Unit, view: View) -> Guarantee | None:
    return next((each for each in guarantees if (each.unit, each.view) == (unit, view)), None)


def nothing_promised(guarantees: Sequence[Guarantee] | None) -> bool:
    """Whether it is known that every ε is ∞."""
    return guarantees is not None and not any(guarantee.finite for guarantee in guarantees)


def shared_caveats(guarantees: Sequence[Guarantee]) -> list[Caveat]:
    """What every finite ε rests on, said once."""
    known = [guarantee for guarantee in guarantees if guarantee.finite] or list(guarantees)
    return [caveat for caveat in known[0].caveats if all(caveat in guarantee.caveats for guarantee in known)]


def promise_sentences(guarantees: Sequence[Guarantee], risks: Sequence[CellRisk] = ()) -> list[str]:
    """What is hidden from whom, one sentence per unit and kind of answer."""
    sentences = []
    for unit in Unit:
        by_value: dict[str, list[Guarantee]] = {}
        for view in View:
            guarantee = guarantee_of(guarantees, unit, view)
            if guarantee is not None:
                by_value.setdefault(epsilon_text(guarantee.epsilon), []).append(guarantee)
        sentences += [_sentence(unit, value, alike, risks) for value, alike in by_value.items()]
    return sentences


def _sentence(unit: Unit, value: str, alike: Sequence[Guarantee], risks: Sequence[CellRisk]) -> str:
    everyone = len(alike) == len(View)
    who = "anybody" if everyone else _enumerated([_lower(each.view.adversary.who) for each in alike])
    # Not whether a client took part: the server sees who sends, and an absent client may be missed.
    asked = f"{OF_WHAT[unit]} was used" if unit is Unit.RECORD else f"{OF_WHAT[unit]}'s records were used"
    if not alike[0].finite:
        reasons = list(dict.fromkeys(each.reason for each in alike))
        return f"Whether {asked}: nothing is promised against {who}, because {'; '.join(reasons)}."
    delta = alike[0].delta
    worst = max(alike, key=lambda each: (each.void is not None, guess_share(each, risks), each.epsilon))
    coin = "" if worst.void is not None or guess_share(worst, risks) > USELESS else "; a coin is right 50 times"
    relations = dict.fromkeys(each.relation for each in alike)
    return (
        f"Whether {asked}: against {who}, ε = {value} at δ = {delta_text(delta)}"
        f" ({' or '.join(relations)}); {meaning(worst, risks)}{coin}."
    )


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _enumerated(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def status_words(status: Status) -> tuple[str, str]:
    """A badge, and sentences."""
    rounds = f"{status.published} of {status.planned} rounds"
    badge = "finished" if status.state == "finished" else "unfinished"
    if status.state == "running":
        text = f"Another process is working on this run; {rounds} are published so far."
    elif status.state == "unfinished":
        text = f"Unfinished: it was interrupted or crashed; {rounds} are published."
        if status.begun is not None and status.begun > status.published:
            text += " A further round was begun and paid for, but never published; its cost counts."
    elif status.published < status.planned:
        text = f"It ended after {rounds}: {ENDED_EARLY}."
    else:
        text = f"All {status.planned} rounds were trained."
    if status.repeated:
        text += f" Rounds begun again after an interruption: {status.repeated}; every attempt counts."
    return badge, text


def copies_words(guarantees: Sequence[Guarantee]) -> list[str]:
    """What the numbers would be for a record that several clients hold, where they do; the accountant's own words."""
    views: dict[Caveat, list[View]] = {}
    for guarantee in guarantees:
        caveat = guarantee.caveat(CaveatKind.ONE_COPY)
        if caveat is not None and guarantee.finite:
            views.setdefault(caveat, []).append(guarantee.view)
    return [f"ε against {', '.join(seen)} {caveat.text}." for caveat, seen in views.items()]


def uncovered_words(guarantees: Sequence[Guarantee]) -> list[str]:
    """Which uses of private records no noise covers, a sentence each."""
    caveats = dict.fromkeys(caveat for each in guarantees for caveat in each.caveats if caveat.kind.uncovered)
    return [f"{caveat.text[:1].upper()}{caveat.text[1:]}." for caveat in caveats]


def not_private(run: Run) -> list[str]:
    """Reasons why no ε of this run may be relied on, in words."""
    reasons = []
    if run.seeded:
        reasons.append(
            "The randomness came from a fixed seed. Whoever has the seed can take any noise off again: every ε below is"
            " what the same training would have with secret randomness, not a guarantee of this run."
        )
    finite = [guarantee for guarantee in run.guarantees or () if guarantee.finite]
    voiding = dict.fromkeys(caveat for each in finite for caveat in each.spoiling if caveat.kind.voids)
    return reasons + [f"{caveat.text}." for caveat in voiding if caveat.kind is not CaveatKind.SEEDED]


def not_private_badge(run: Run) -> str | None:
    """The same in a few words; None where nothing stands in the way."""
    if not not_private(run):
        return None
    return SEEDED.text if run.seeded else _AS_IT_STANDS
