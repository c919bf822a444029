"""Processes on one core: what they train, they train without workers, each of which would import torch first."""

from __future__ import annotations

import os

ALL = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
"""The cores that the tests may use, as it was before a process took one of them for itself."""


def use_one_core() -> None:
    """To be called in a process before it begins (`preexec_fn`); the other tests are on the other cores."""
    if ALL:
        cores = sorted(ALL)
        place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        os.sched_setaffinity(0, {cores[place % len(cores)]})


def use_all_cores() -> None:
    """The same for a process that is to start workers, as on a user's machine."""
    if ALL:
        os.sched_setaffinity(0, ALL)
