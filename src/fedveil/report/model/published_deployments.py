"""Deployments of differential privacy that others have published, with their ε: from the OpenDP registry."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

REGISTRY_ADDRESS = "https://github.com/opendp/deployments-registry-data/blob/main/deployments/"


@dataclass(frozen=True)
class Deployment:
    """One entry, in the registry's own words. `source` is what the entry itself refers to; some refer to nothing."""

    name: str
    by: str
    year: int
    unit: str
    epsilon: float
    product: str
    entry: str
    source: str
    delta: float | None = None

    @property
    def address(self) -> str:
        return self.source or f"{REGISTRY_ADDRESS}{self.entry}.yaml"


@dataclass(frozen=True)
class Deployments:
    """All entries with an ε, the smallest first."""

    registry: str
    entries: tuple[Deployment, ...]

    def smaller(self, epsilon: float) -> int:
        """How many state a smaller ε."""
        return sum(entry.epsilon < epsilon for entry in self.entries)


@cache
def published_deployments() -> Deployments:
    text = files("fedveil.report.model").joinpath("published_deployments.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    entries = (Deployment(**entry) for entry in table["deployment"])
    return Deployments(table["registry"], tuple(sorted(entries, key=lambda entry: (entry.epsilon, entry.name))))
