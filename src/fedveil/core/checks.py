"""Checks that declarations make of their own fields, with messages a user can act on."""

from __future__ import annotations

import math

from fedveil.core.errors import FedveilError


def positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise FedveilError(f"{name} must be a positive number, not {value}")


def not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise FedveilError(f"{name} must not be negative, infinite or NaN: {value}")


def within(name: str, value: float, low: float, high: float) -> None:
    """low ≤ value < high"""
    if not low <= value < high:
        raise FedveilError(f"{name} must be at least {low:g} and below {high:g}, not {value}")


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise FedveilError(f"{name} must be {' or '.join(map(repr, choices))}, not {value!r}")
