"""What the accountant must know of a run beside its method.

It is kept in `run.json`, so that an account of a run needs neither its records nor its network.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

from fedveil.config.spec import Spec
from fedveil.core.types import Population


class Terms(Protocol):
    """A spec, and the public facts about who holds how much: all that a guarantee is computed from."""

    @property
    def spec(self) -> Spec: ...

    @property
    def population(self) -> Population: ...

    @property
    def layers(self) -> int:
        """Groups of parameters that are clipped on their own where a clip is by layer."""

    @property
    def copies(self) -> int:
        """How many clients hold the same record, at most."""

    @property
    def seeded(self) -> bool:
        """Whether the noise can be repeated, and therefore taken off again."""


@dataclass(frozen=True)
class Recorded:
    """The terms of a run as it wrote them down when it began."""

    spec: Spec
    population: Population
    layers: int
    copies: int
    seeded: bool


def to_record(terms: Terms) -> dict[str, Any]:
    """The facts beside the spec, ready for JSON; equal neighbours are counted: `[[records, clients], …]`."""
    runs = [[records, len(list(alike))] for records, alike in groupby(terms.population.records)]
    return {"records_of_clients": runs, "layers": terms.layers, "copies": terms.copies, "seeded": terms.seeded}


def pinned(terms: Terms) -> str:
    """What the ledger holds a run to."""
    return json.dumps(to_record(terms))


def from_record(spec: Spec, told: Any) -> Recorded | None:
    """The terms that `to_record` wrote; None where they are missing or make no sense."""
    try:
        runs = [(int(records), int(clients)) for records, clients in told["records_of_clients"]]
        layers, copies, seeded = int(told["layers"]), int(told["copies"]), told["seeded"]
    except (KeyError, TypeError, ValueError):
        return None
    counted = sum(clients for _, clients in runs)
    sound = counted == spec.data.clients and all(records > 0 and clients > 0 for records, clients in runs)
    if not sound or layers < 1 or copies < 1 or not isinstance(seeded, bool):
        return None
    records = tuple(size for size, clients in runs for _ in range(clients))
    return Recorded(spec, Population(records), layers, copies, seeded or spec.seed is not None)
