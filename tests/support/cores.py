"""Processes on one core: what they train, they train without workers, each of which would import torch first."""

from __future__ import annotations

import os


def use_one_core() -> None:
    """To be called in a process before it begins (`preexec_fn`); the other tests are on the other cores."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        os.sched_setaffinity(0, {cores[place % len(cores)]})
