"""Which methods real sites can train by, and which policies let them: the table of docs/federation.md."""

from __future__ import annotations

from dataclasses import replace

from fedveil.config.federation_plan import MIXES_UPLOADS
from fedveil.core.errors import FedveilError
from fedveil.mechanisms.adaptive import CohortMedian
from fedveil.method import Method
from fedveil.parts.personal import Attention, Shared
from fedveil.zoo import ZOO, named

COLUMNS_OF_METHODS = ("method", "over real sites", "a site's policy can ask for")


def federable_rows() -> list[tuple[str, str, str]]:
    """One row for each method of the zoo, from what the method declares."""
    return [(name, *_row(named(name))) for name in ZOO]


def _row(method: Method) -> tuple[str, str]:
    if isinstance(method.personal, Attention):
        return f"no: {MIXES_UPLOADS}", "–"
    can = "yes" if isinstance(method.personal, Shared) else "yes; each site's own model stays there"
    places = method.mechanisms
    if any(isinstance(mechanism.clip.bound, CohortMedian) for mechanism in places.values()):
        return "yes", "nothing: its clipping bound is read off norms without noise, so only a rehearsal takes part"
    asks = [text for place, text in _ASKS.items() if place in places]
    if _can_noise_rows(method):
        asks.append("record × on_device, with `example.each_row`")
    return can, "; ".join(asks) or "nothing: it adds no noise, so only a rehearsal takes part"


def _can_noise_rows(method: Method) -> bool:
    """Whether every row can get noise of its own: the method itself refuses where batches vary in size."""
    if method.example is None:
        return False
    try:
        replace(method, example=replace(method.example, noise="row", each_row=True))
    except FedveilError:
        return False
    return True


_ASKS = {
    "example": "record × client, server, peer, released",
    "upload": "client and record × client, server, peer, released",
    "server": "client and record × peer, released, if it trusts the coordinator to add the noise; `server` is refused",
}


def federable_table() -> str:
    """The table as Markdown."""
    rows = [
        COLUMNS_OF_METHODS,
        ("---", "---", "---"),
        *((f"`{name}`", can, asks) for name, can, asks in federable_rows()),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
