"""What `run.json` says of a run: who made it, when, with what, and the terms of its guarantees."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import torch

from fedveil.runs.files import FORMAT
from fedveil.runs.prepare import Prepared
from fedveil.runs.terms import to_record
from fedveil.runtimes.local import usable_cores


def about(prepared: Prepared) -> dict[str, Any]:
    """Written once, when the run begins."""
    return {
        "format": FORMAT,
        **maker(),
        "dp_accounting": version("dp-accounting"),
        "randomness": "seeded: not private" if prepared.seeded else "keyed from the operating system",
        "initial": prepared.initial,  # as public as the first model is; says nothing of the key it was drawn with
        "calibrated": prepared.calibrated,
        "parameters": prepared.layout.size,
        "validation": len(prepared.dataset.validation),
        "data": prepared.dataset.description,
        "terms": to_record(prepared),
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


def maker_words(told: Mapping[str, Any]) -> str:
    """In one line, as far as it is told."""
    names = {"machine": "", "python": "Python ", "torch": "PyTorch ", "fedveil": "fedveil "}
    found = [f"{name}{told[key]}" for key, name in names.items() if key in told]
    return ", ".join([*found, str(told.get("created", "at an unknown time"))[:10]])
