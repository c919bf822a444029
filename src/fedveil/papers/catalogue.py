"""Every table and figure that can be made again, by name."""

from __future__ import annotations

from fedveil.core.errors import FedveilError
from fedveil.papers.fed_cdp import FED_CDP_TABLES
from fedveil.papers.fed_cdp_leaks import FED_CDP_LEAKS
from fedveil.papers.fed_cdp_privacy import FED_CDP_PRIVACY
from fedveil.papers.geyer import GEYER_TABLES
from fedveil.papers.ldp_sgd import LDP_SGD_TABLES
from fedveil.papers.prifedsync import PRIFEDSYNC_TABLES
from fedveil.papers.prifedsync_figures import PRIFEDSYNC_FIGURES
from fedveil.papers.reproduction import Reproduction

REPRODUCTIONS: dict[str, Reproduction] = {
    one.name: one
    for one in (
        *FED_CDP_TABLES,
        *FED_CDP_PRIVACY,
        *FED_CDP_LEAKS,
        *GEYER_TABLES,
        *PRIFEDSYNC_TABLES,
        *PRIFEDSYNC_FIGURES,
        *LDP_SGD_TABLES,
    )
}


def find_reproduction(name: str) -> Reproduction:
    if name not in REPRODUCTIONS:
        raise FedveilError(f"there is no reproduction {name!r}; there are {', '.join(REPRODUCTIONS)}")
    return REPRODUCTIONS[name]
