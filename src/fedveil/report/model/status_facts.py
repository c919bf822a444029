"""How a site or a coordinator stands, ready to be shown on a terminal or a page."""

from __future__ import annotations

from dataclasses import dataclass

SHORT_HASH = 12


@dataclass(frozen=True)
class StatusFacts:
    """One look. `state` is how it stands in a few words, with its kind: `good`, `note`, `warn` or `bad`.

    `share` is how much of the whole is done or spent, 0 to 1. The first cell of a row names it; all others are short.
    """

    role: str
    name: str
    state: tuple[str, str]
    facts: tuple[tuple[str, str], ...]
    share: float
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    over: bool = False  # nothing will change any more
