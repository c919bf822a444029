"""How a site or a coordinator stands, as lines that fit a narrow terminal."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.report.model.status_facts import StatusFacts
from fedveil.report.terminal.wrapped_lines import COLUMNS, wrapped

BAR = 30


def screen_lines(facts: StatusFacts, width: int = COLUMNS) -> list[str]:
    """All of it; no line is longer than the width."""
    filled = round(facts.share * BAR)
    lines = [
        *wrapped(f"{facts.role} {facts.name}: {facts.state[1]}", width=width),
        f"[{'#' * filled}{'.' * (BAR - filled)}] {facts.share:.0%}",
    ]
    room = max(len(label) for label, _ in facts.facts)
    for label, value in facts.facts:
        lines += wrapped(value, f"{label:<{room}}  ", " " * (room + 2), width)
    if facts.rows:
        lines += ["", *wrapped(facts.caption, width=width), *_table(facts.headings, facts.rows, width)]
    if facts.notes:
        lines.append("")
    for note in facts.notes:
        lines += wrapped(note, hanging="  ", width=width)
    return lines


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Aligned; the first column is cut where the others leave it no room."""
    every = [headings, *rows]
    rooms = [max(len(row[column]) for row in every) for column in range(len(headings))]
    rooms[0] = max(8, min(rooms[0], width - sum(room + 2 for room in rooms[1:])))
    return [
        "  ".join(
            [
                _cut(row[0], rooms[0]).ljust(rooms[0]),
                *(cell.rjust(room) for cell, room in zip(row[1:], rooms[1:], strict=True)),
            ]
        )
        for row in every
    ]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
