"""What `run.json` says of a run: who made it, when, with what, and the context of its guarantees.

With the context in it, an account of a run needs neither its records nor its network.
"""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from fedveil.accounting.context import Context
from fedveil.config.convert import structure, unstructure
from fedveil.config.spec import Spec
from fedveil.core.cores import usable_cores
from fedveil.core.deferred import torch
from fedveil.core.errors import FedveilError
from fedveil.core.guarantee import Caveat
from fedveil.core.objectives import CROSS_ENTROPY, Objective
from fedveil.core.openness import UNRECORDED
from fedveil.core.tasks import task_record
from fedveil.core.types import Population
from fedveil.data.schema_file import schema_digest
from fedveil.runs.files import FORMAT

if TYPE_CHECKING:
    from fedveil.runs.prepare import Prepared


def manifest(prepared: Prepared) -> dict[str, Any]:
    """Written once, when the run begins."""
    return {
        "format": FORMAT,
        **maker(),
        "dp_accounting": version("dp-accounting"),
        "randomness": "seeded: not private" if prepared.context.seeded else "keyed from the operating system",
        "initial": prepared.initial,  # as public as the first model is; says nothing of the key it was drawn with
        "calibrated": prepared.calibrated,
        "parameters": prepared.layout.size,
        "validation": len(prepared.dataset.validation),
        "data": prepared.dataset.description,
        **({} if prepared.dataset.schema is None else {"schema": schema_digest(prepared.dataset.schema)}),
        "task": task_record(prepared.dataset.task),
        "objective": unstructure(prepared.job.objective, Objective),
        "terms": context_record(prepared.context),
    }


def maker() -> dict[str, str]:
    """This machine, these versions, now."""
    return {
        "machine": f"{usable_cores()} cores ({platform.machine()})",
        "fedveil": version("fedveil"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def maker_line(made: Mapping[str, Any]) -> str:
    """Machine, versions and day in one line, as far as they are known."""
    names = {"machine": "", "python": "Python ", "torch": "PyTorch ", "fedveil": "fedveil "}
    known = [f"{name}{made[key]}" for key, name in names.items() if key in made]
    return ", ".join([*known, str(made.get("created", "at an unknown time"))[:10]])


def read_objective(record: Any) -> Objective:
    """The objective that a manifest names; older ones, which name none, were of plain cross-entropy."""
    try:
        return CROSS_ENTROPY if record is None else structure(record, cast("type[Objective]", Objective), "objective")
    except FedveilError:
        return CROSS_ENTROPY


# The context beside the spec

NO_CONTEXT = "does not say who holds how many records, so no guarantee can be computed"


def context_record(context: Context) -> dict[str, Any]:
    """What a context adds to its spec, ready for JSON; equal neighbours are counted: `[[records, clients], …]`."""
    runs = [[records, len(list(alike))] for records, alike in groupby(context.population.records)]
    return {
        "records_of_clients": runs,
        **({"names": list(context.population.names)} if context.population.names else {}),
        "layers": context.layers,
        "copies": context.copies,
        "seeded": context.seeded,
        "caveats": [caveat.to_dict() for caveat in context.caveats],
    }


def pinned_context(record: Any) -> str:
    """What the ledger holds a run to: what `context_record` wrote, whichever version did."""
    return json.dumps(record)


def read_context(spec: Spec, record: Any) -> Context | None:
    """The context that `context_record` wrote; None where it is missing or not valid.

    Older versions did not write down the caveats of the records, which are then not known.
    """
    try:
        runs = [(int(records), int(clients)) for records, clients in record["records_of_clients"]]
        layers, copies, seeded = int(record["layers"]), int(record["copies"]), record["seeded"]
        names = tuple(map(str, record.get("names", ())))
        caveats = tuple(map(Caveat.from_dict, record["caveats"])) if "caveats" in record else (UNRECORDED,)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    counted = sum(clients for _, clients in runs)
    sound = counted == spec.data.clients and all(records > 0 and clients > 0 for records, clients in runs)
    if len(names) not in (0, counted):
        return None
    if not sound or layers < 1 or copies < 1 or not isinstance(seeded, bool):
        return None
    records = tuple(size for size, clients in runs for _ in range(clients))
    return spec.context(Population(records, names), layers, caveats=caveats, copies=copies, seeded=seeded)
