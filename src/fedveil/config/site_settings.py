"""What follows for a spec from clients that are sites with records of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
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


def file_task(data: Any) -> dict[str, Any]:
    """What suits the records of files that a spec names; nothing where it names none."""
    if not isinstance(data, Mapping) or not (data.get("sites") or data.get("table")):
        return {}
    sites = data.get("sites")
    task = site_task(len(sites) if isinstance(sites, Mapping) else 0, rows_of_numbers=bool(data.get("schema")))
    name = Path(data["table"]).stem if isinstance(data.get("table"), str) else "sites"
    return {**task, "data": {"name": name, **task["data"]}}


def absolute_files(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The settings with every file of `data` as it is found from `folder`, so that it is found from anywhere."""
    data = settings.get("data")
    if not isinstance(data, Mapping):
        return dict(settings)
    changed = {
        key: _absolute(data[key], folder) for key in ("table", "schema", "validation") if isinstance(data.get(key), str)
    }
    if isinstance(data.get("sites"), Mapping):
        changed["sites"] = {name: _absolute(path, folder) for name, path in data["sites"].items()}
    return {**settings, "data": {**data, **changed}} if changed else dict(settings)


def _absolute(path: Any, folder: Path) -> Any:
    """Only a text can be a path; what else stands there is refused where types are checked."""
    return str((folder / Path(path).expanduser()).absolute()) if isinstance(path, str) and path else path
