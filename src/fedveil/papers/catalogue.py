"""Every table and figure that can be made again, by name."""

from __future__ import annotations

from functools import cache

from fedveil.core.errors import FedveilError
from fedveil.papers import (
    fed_cdp,
    fed_cdp_leaks,
    fed_cdp_privacy,
    geyer,
    ldp_sgd,
    prifedsync,
    prifedsync_figures,
)
from fedveil.papers.reproduction import Reproduction


@cache
def catalogue() -> dict[str, Reproduction]:
    papers = (fed_cdp, fed_cdp_privacy, fed_cdp_leaks, geyer, prifedsync, prifedsync_figures, ldp_sgd)
    found = [one for paper in papers for one in paper.everything()]
    return {one.name: one for one in found}


def named(name: str) -> Reproduction:
    known = catalogue()
    if name not in known:
        raise FedveilError(f"there is no reproduction {name!r}; there are {', '.join(known)}")
    return known[name]
