"""How far the loss of one step reaches, and about how much it varies: what a grid of losses is made for."""

from __future__ import annotations

import math

from fedveil.accounting.events import Step


def step_spread(step: Step, noise: float) -> tuple[float, float]:
    """The least noise that a step can have, and about the variance of its loss."""
    if step.kind == "gaussian":
        return noise, noise**-2
    usual = step.rate**2 * math.expm1(min(noise**-2, 600.0))
    if step.kind == "hidden-record":
        return noise / 2, min(4 * noise**-2, 4 * usual)
    if step.kind == "group":
        mean, spread = step.size * step.rate, step.size * step.rate * (1 - step.rate)
        return noise / step.slots, max(mean**2 * math.expm1(min(noise**-2, 600.0)), spread * noise**-4 / 4)
    if step.kind == "gathered":
        return noise, noise**-2 / (step.size * step.rate + 1)
    if step.kind == "allocated":
        return noise / 2 if step.overflow else noise, min(math.expm1(min(noise**-2, 600.0)) / step.size, noise**-2)
    return noise / 2 if step.overflow else noise, usual
