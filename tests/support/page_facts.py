"""Runs made up for the page's tests, and a reader of what the page says."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from fedveil.report.model.run_facts import Attack, Clients, Run, Status, Theft

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c63f80f00010101001b"
    "b6ee560000000049454e44ae426082"
)


def cell(unit: str, view: str, epsilon: float | str, **told: Any) -> dict[str, Any]:
    found = {
        "unit": unit,
        "view": view,
        "relation": "add-or-remove",
        "epsilon": epsilon,
        "delta": 1e-5,
        "accountant": "PLD",
        "composition": "8 × Gaussian(z = 4)",
        "caveats": ["noise is drawn in single precision"],
        "reason": "",
    }
    if epsilon == "inf":
        found |= {"composition": "none", "accountant": "none", "reason": "no mechanism adds noise"}
    return found | told


VIEWS = ("on_device", "client", "server", "peer", "released")


def cells(record: float | str = 1.5, client: float | str = "inf", **told: Any) -> tuple[dict[str, Any], ...]:
    return tuple(
        cell(unit, view, value, **told) for unit, value in (("record", record), ("client", client)) for view in VIEWS
    )


def audit(**told: Any) -> dict[str, Any]:
    found = {
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
        "promised": True,
        "holds": True,
        "refuted": None,
        "details": {"reason": ""},
    }
    return found | told


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
        promised=cells(2.0),
        spent=cells(1.5),
        claims=(cell("record", "server", 0.2, source="a paper", formula="f", difference="They count otherwise."),),
        rounds=rounds,
        course=(("record × server", tuple((float(n + 1), 0.2 * (n + 1)) for n in range(8))),),
        course_spent=True,
        budget=(2.0, "record × server"),
        clients=Clients((100, 100, 100), (8, 4, 0), "record × server", (1.5, 1.0, 0.0), (0, 4, 8), "At most 8 rounds."),
        clips=("Every update is clipped.",),
        attacks=(
            Attack(
                {"view": "server", "success_rate": 1.0, "rmse": 0.01, "threshold": 0.1, "attack": "balanced"},
                (Theft(7, 0.01, PNG, PNG),),
            ),
        ),
        audits=(audit(),),
        problems=(),
        spec='method = "fed-cdp"\n',
        command="fedveil run spec.toml",
        about={"begun": "2026-01-01 00:00:00 UTC", "fedveil": "0.1.0"},
    )
    return replace(made, **changes)


class Page(HTMLParser):
    """A page as a list of elements, its text, and the cells of its tables' rows."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
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
            self.words.append(data)
            if {"td", "th"} & set(self._open):
                self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag in tags]

    @property
    def headings(self) -> list[int]:
        return [int(tag[1]) for tag, _ in self.elements if re.fullmatch(r"h[1-6]", tag)]
