"""Runs made up for the page's tests, and a reader of what the page says."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from fedveil.core.guarantee import Caveat, CaveatKind, Claim, Guarantee, Relation
from fedveil.core.types import Unit, View
from fedveil.report.model.evidence_facts import AttackFacts, AuditFacts, Theft
from fedveil.report.model.run_facts import Clients, EpsilonLine, Run, Status

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c63f80f00010101001b"
    "b6ee560000000049454e44ae426082"
)


ARITHMETIC = Caveat(CaveatKind.ARITHMETIC, "noise is drawn in single precision")


def guarantee(unit: Unit, view: View, epsilon: float, *caveats: Caveat, **changes: Any) -> Guarantee:
    infinite = math.isinf(epsilon)
    made = Guarantee(
        unit,
        view,
        Relation.ADD_OR_REMOVE,
        epsilon,
        1e-5,
        "none" if infinite else "PLD",
        "none" if infinite else "8 × Gaussian(z = 4)",
        caveats or (ARITHMETIC,),
        "no mechanism adds noise" if infinite else "",
    )
    return replace(made, **changes)


def guarantees(
    record: float = 1.5, client: float = math.inf, *caveats: Caveat, **changes: Any
) -> tuple[Guarantee, ...]:
    """A whole table: one ε for every view of a record, one for every view of a client."""
    return tuple(
        guarantee(unit, view, epsilon, *caveats, **changes)
        for unit, epsilon in ((Unit.RECORD, record), (Unit.CLIENT, client))
        for view in View
    )


def claim(epsilon: float = 0.2, *, source: str = "a paper", difference: str = "They count otherwise.") -> Claim:
    return Claim(source, Unit.RECORD, View.SERVER, epsilon, 1e-5, "f", difference)


def audit_power(**changes: Any) -> dict[str, Any]:
    """What an audit's guesses could have seen."""
    return {"answers": 75, "possible": 2.76, "noise": 0.62, "canaries_needed": 80, "probability": 0.95} | changes


def audit_check(**changes: Any) -> dict[str, Any]:
    """One comparison of an audit, which found nothing."""
    return {"kind": "noise-size", "measured": 1.0, "chance": 0.5, "level": 0.001, "samples": 50} | changes


def audit_table(**changes: Any) -> dict[str, Any]:
    """What an audit leaves in a run's directory."""
    table = {
        "verdict": "consistent",
        "method": "fed-cdp",
        "data": "cancer",
        "unit": "record",
        "view": "server",
        "rounds": 1,
        "canaries": 100,
        "confidence": 0.95,
        "epsilon_lower": 0.1,
        "epsilon_lower_if_gaussian": None,
        "epsilon_verified": 1.5,
        "delta": 1e-5,
        "refuted": None,
        "power": audit_power(),
        "checks": [],
        "details": {"reason": "", "caveats": []},
    }
    return table | changes


def audit(**changes: Any) -> AuditFacts:
    return AuditFacts.from_dict(audit_table(**changes))


def make_run(**changes: Any) -> Run:
    rounds = tuple(
        {
            "event": "round",
            "round": number,
            "accuracy": 0.5 + number / 20,
            "train_loss": 1 / (number + 1),
            "update_norm": 2.5,
            "largest_update_norm": 3.0,
            "bound": 2.0,
        }
        for number in range(8)
    )
    made = Run(
        name="mine",
        method="fed-cdp",
        paper="Wei et al. 2021",
        data="cancer",
        data_words="measurements",
        clients_words="3 clients with 100 records each",
        model="mlp",
        parameters=4130,
        validation=143,
        training_words=("2 clients take part in a round.",),
        status=Status("finished", 8, 8, 8),
        delta=1e-5,
        seeded=False,
        diverged=False,
        promised=guarantees(2.0),
        spent=guarantees(1.5),
        claims=(claim(),),
        rounds=rounds,
        epsilon_lines=(EpsilonLine("record × server", tuple((float(n + 1), 0.2 * (n + 1)) for n in range(8))),),
        epsilon_lines_spent=True,
        budget=(2.0, "record × server"),
        clients=Clients((100, 100, 100), (8, 4, 0), "record × server", (1.5, 1.0, 0.0), (0, 4, 8), "At most 8 rounds."),
        clips=("Every update is clipped.",),
        attacks=(
            AttackFacts(
                view=View.SERVER,
                attack="balanced",
                victims=3,
                threshold=0.1,
                success_rate=1.0,
                rmse=0.01,
                blind_rmse=0.3,
                label_accuracy=None,
                thefts=(Theft(7, 0.01, PNG, PNG),),
            ),
        ),
        audits=(audit(),),
        problems=(),
        spec='method = "fed-cdp"\n',
        command="fedveil run spec.toml",
        environment={"begun": "2026-01-01 00:00:00 UTC", "fedveil": "0.1.0"},
    )
    return replace(made, **changes)


class Page(HTMLParser):
    """A page as a list of elements, its text, and the cells of its tables' rows."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in ("meta", "img", "br", "hr"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.texts.append(data)
            if {"td", "th"} & set(self._open):
                self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag in tags]

    @property
    def headings(self) -> list[int]:
        return [int(tag[1]) for tag, _ in self.elements if re.fullmatch(r"h[1-6]", tag)]
