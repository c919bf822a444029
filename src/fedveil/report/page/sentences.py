"""Guarantees for a person who must sign them, and numbers that are never rounded in our favour."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedveil.core.words import LEAKED, NOBODY_LEFT, ONE_COPY, SEEDED, rounded_up
from fedveil.report.model.run_facts import Cell, Run, Status

WHO = {
    "on_device": ("Someone who taps a device's training", "sees every single gradient, not the records"),
    "client": ("Someone who gets the finished update off a device", "sees it before it leaves, not the records"),
    "server": ("The server and its operator", "see each client's update as it arrives"),
    "peer": ("Another client", "sees the models that it receives"),
    "released": ("Anybody else", "sees every published model"),
}
VIEWS = tuple(WHO)
OF = {"record": "one record of one client", "client": "one whole client"}


def value_of(cell: Cell) -> float:
    return math.inf if cell["epsilon"] == "inf" else float(cell["epsilon"])


def epsilon_word(value: float | str) -> str:
    """Four digits, rounded up."""
    return rounded_up(float(value))


def odds(epsilon: float, delta: float) -> float:
    """How often a fair "was it used?" is answered rightly, at most, by whoever is bound by (ε, δ): 0.5 is a coin.

    False alarms and misses together are at least 2·(1 − δ)/(1 + e^ε).
    """
    return 1.0 if epsilon > 700 else min(1.0, 1 - (1 - delta) / (1 + math.exp(epsilon)))


def worthless(epsilon: float, delta: float) -> bool:
    """Whether a guess may be right more than 999 times in 1,000: a number, but no protection."""
    return odds(epsilon, delta) > 0.999


def odds_words(epsilon: float, delta: float) -> str:
    """Per hundred, rounded up."""
    if worthless(epsilon, delta):
        return "no useful protection: a guess may nearly always be right"
    share = math.ceil(odds(epsilon, delta) * 1000 - 1e-9) / 10
    return f"a guess is right at most {share:.1f} % of the time"


def void(cell: Cell) -> str:
    """Why a finite ε does not hold as it stands, in a few words; empty where it does."""
    if SEEDED in cell["caveats"]:
        return SEEDED
    return "not private as it stands" if any(caveat.startswith(LEAKED) for caveat in cell["caveats"]) else ""


def meaning(cell: Cell) -> str:
    """What a finite cell means for somebody who guesses; nothing, where it does not hold."""
    return void(cell) or odds_words(value_of(cell), cell["delta"])


def delta_word(delta: float) -> str:
    """1e-5, not 1e-05."""
    mantissa, _, power = f"{delta:g}".partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa


def cell_of(cells: Sequence[Cell], unit: str, view: str) -> Cell | None:
    return next((cell for cell in cells if (cell["unit"], cell["view"]) == (unit, view)), None)


def shared_caveats(cells: Sequence[Cell]) -> list[str]:
    """What every finite cell rests on, said once."""
    known = [cell for cell in cells if cell["epsilon"] != "inf"] or list(cells)
    return [caveat for caveat in known[0]["caveats"] if all(caveat in cell["caveats"] for cell in known)]


def promise_sentences(cells: Sequence[Cell]) -> list[str]:
    """What is hidden from whom, one sentence per unit and kind of answer."""
    found = []
    for unit, words in OF.items():
        mine = [cell for view in VIEWS if (cell := cell_of(cells, unit, view)) is not None]
        by_value: dict[str, list[Cell]] = {}
        for cell in mine:
            by_value.setdefault(epsilon_word(cell["epsilon"]), []).append(cell)
        for value, alike in by_value.items():
            found.append(_sentence(unit, words, value, alike, everyone=len(alike) == len(VIEWS)))
    return found


def _sentence(unit: str, words: str, value: str, alike: Sequence[Cell], *, everyone: bool) -> str:
    who = "anybody" if everyone else _several([_lower(WHO[cell["view"]][0]) for cell in alike])
    # Not whether a client took part: the server sees who sends, and an absent client may be missed.
    asked = f"{words} was used" if unit == "record" else f"{words}'s records were used"
    if value == "∞":
        reasons = list(dict.fromkeys(cell["reason"] for cell in alike))
        return f"Whether {asked}: nothing is promised against {who}, because {'; '.join(reasons)}."
    delta = alike[0]["delta"]
    epsilon = max(map(value_of, alike))
    worst = max(alike, key=lambda cell: (bool(void(cell)), value_of(cell)))
    coin = "" if void(worst) or worthless(epsilon, delta) else " (a coin: 50 %)"
    relation = dict.fromkeys(cell["relation"] for cell in alike)
    return (
        f"Whether {asked}: against {who}, ε = {value} at δ = {delta_word(delta)}"
        f" ({' or '.join(relation)}); {meaning(worst)}{coin}."
    )


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _several(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def status_words(status: Status) -> tuple[str, str]:
    """A badge, and sentences."""
    rounds = f"{status.published} of {status.planned} rounds"
    badge = "finished" if status.state == "finished" else "unfinished"
    if status.state == "running":
        words = f"Another process is working on this run; {rounds} are published so far."
    elif status.state == "unfinished":
        words = f"Unfinished: it was interrupted or crashed; {rounds} are published."
        if status.begun is not None and status.begun > status.published:
            words += " A further round was begun and paid for, but never published; its cost counts."
    elif status.published < status.planned:
        words = f"It ended after {rounds}: {NOBODY_LEFT}."
    else:
        words = f"All {status.planned} rounds were trained."
    if status.repeated:
        words += f" Rounds begun again after an interruption: {status.repeated}; every attempt counts."
    return badge, words


def copies_words(cells: Sequence[Cell]) -> list[str]:
    """What the numbers would be for a record that several clients hold, where they do; the accountant's own words."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        for caveat in cell["caveats"]:
            if caveat.startswith(ONE_COPY) and cell["epsilon"] != "inf":
                found.setdefault(caveat, []).append(str(cell["view"]))
    return [f"ε against {', '.join(views)} {caveat}." for caveat, views in found.items()]


def not_private(run: Run) -> list[str]:
    """Reasons why no ε of this run may be relied on, in words."""
    found = []
    if run.seeded:
        found.append(
            "The randomness came from a fixed seed. Whoever has the seed can take any noise off again: every ε below is"
            " what the same training would have with secret randomness, not a guarantee of this run."
        )
    leaks = [caveat for cell in run.cells or () for caveat in cell["caveats"] if caveat.startswith(LEAKED)]
    if leaks:
        found.append(f"{leaks[0]}.")
    return found
