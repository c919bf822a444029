"""Grids of loss distributions that are kept to be asked again, and how a process that runs for months lets them go."""

from __future__ import annotations

import ctypes

from fedveil.accounting import allocation, compose, pld

_KEPT = (
    allocation.allocated,
    compose.composed_pld,
    compose._rounds_pld,
    pld.of_step,
    pld.gathered_noises,
    pld.repeated,
    pld._repeatable,
)


def forget_grids() -> None:
    """Let the grids go, a hundred megabytes after a search, and give their memory back. What was certified stays known.

    Only a GNU C library must be told to give memory back; elsewhere nothing is done about it.
    """
    for kept in _KEPT:
        kept.cache_clear()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
