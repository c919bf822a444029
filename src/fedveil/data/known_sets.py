"""The data sets that can be asked for by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedveil.core.errors import ArgumentError, FedveilError
from fedveil.core.suggestions import did_you_mean
from fedveil.data import sets
from fedveil.data.named_set import NamedSet

SETS: dict[str, NamedSet] = {one.name: one for one in vars(sets).values() if isinstance(one, NamedSet)}
"""Every set that `fedveil.data.sets` imports, in the order of its lines."""


def known_set(name: str) -> NamedSet:
    """The declaration of a data set; a name that nobody declared is refused."""
    if not isinstance(name, str):
        raise ArgumentError("name", f"must be the name of a data set, not {name!r}")
    if name not in SETS:
        near = did_you_mean(name, SETS) or (
            f": choose one of {', '.join(sorted(SETS))}; your own records: data.sites in a spec, or dataset=… in Python"
        )
        raise FedveilError(f"unknown data set '{name}'{near}")
    return SETS[name]


def task_of(name: str) -> Mapping[str, Any]:
    """The papers' settings for a data set; none for records of your own."""
    return SETS[name].task if name in SETS else {}


def encoding_of(name: str) -> str:
    """What tells apart how a data set's features are made; nothing is known of records of your own."""
    return SETS[name].encoding if name in SETS else ""
