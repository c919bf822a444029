"""What follows for a spec from clients that are sites with records of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedveil.config.merge import ABSENT


def with_all_sites(table: Mapping[str, Any], stated: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """Sites bring their number and their records, and all take part, unless `stated` says otherwise.

    What a preset says of simulated clients (how many, with how many records, how many a round) is not for them.
    """
    data = table["data"]
    if not isinstance(data, Mapping) or data.get("partition") not in ("sites", {"kind": "sites"}):
        return dict(table)
    counted = {"clients": task.get("data", {}).get("clients", 0), "records": ABSENT}
    given = stated.get("data", {})
    changed: dict[str, Any] = {"data": {**data, **counted, **{key: given[key] for key in counted if key in given}}}
    if "cohort" not in stated and table["cohort"].get("kind") == "fixed":
        changed["cohort"] = {"kind": "everyone"}
    return {**table, **changed}


def site_task(clients: int, *, rows_of_numbers: bool) -> dict[str, Any]:
    """What suits records of sites, where nothing else was said: all sites take part, a row gets a linear model."""
    linear = {"model": {"name": "mlp", "options": {"hidden": []}}} if rows_of_numbers else {}
    return {
        "data": {"clients": clients, "records": ABSENT, "partition": {"kind": "sites"}},
        "cohort": {"kind": "everyone"},
        **linear,
    }
