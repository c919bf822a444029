"""What `run.json` says of a run: who made it, when, with what, and the terms of its guarantees."""

from __future__ import annotations

import datetime
import platform
from importlib.metadata import version
from typing import Any

import torch

from fedveil.experiment.files import FORMAT
from fedveil.experiment.prepare import Prepared
from fedveil.experiment.terms import to_record


def about(prepared: Prepared) -> dict[str, Any]:
    """Written once, when the run begins."""
    return {
        "format": FORMAT,
        "fedveil": version("fedveil"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "dp_accounting": version("dp-accounting"),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "randomness": "seeded: not private" if prepared.seeded else "keyed from the operating system",
        "initial": prepared.initial,  # as public as the first model is; says nothing of the key it was drawn with
        "calibrated": prepared.calibrated,
        "parameters": prepared.layout.size,
        "validation": len(prepared.dataset.validation),
        "data": prepared.dataset.description,
        "terms": to_record(prepared),
    }
