"""M, the number of layers that per-layer clipping counts, of networks that need not be built to know it.

A guarantee depends on nothing else of a network. What stands here is compared with every network that is built
(`runs/prepare.py`), and a test builds them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LARGE_PICTURE = 28
"""Pictures of at least so many pixels a side, which every network for pictures takes."""

_ROWS = {"mlp": 3, "geyer-mlp": 3, "linear": 1}
_PICTURES = {
    "cnn": 3,
    "fed-cdp-cnn": 3,
    "leakage-cnn": 5,
    "prifedsync-mnist": 4,
    "prifedsync-cifar": 5,
    "scattering": 1,
}
_SAME_LAYERS: dict[str, Mapping[str, Any]] = {"scattering": {"basis": "scenes"}}
"""Options that change no layer."""


def known_layers(name: str, input_shape: Sequence[int], options: Mapping[str, Any]) -> int | None:
    """M of a network of `fedveil.models` on records that it takes for certain; None where it must be built."""
    if options and options != _SAME_LAYERS.get(name):
        return None
    picture = len(input_shape) == 3 and input_shape[0] in (1, 3) and min(input_shape[1:]) >= LARGE_PICTURE
    return _ROWS.get(name) or (_PICTURES.get(name) if picture else None)


def row_features(numbers: int, *, low_ends: bool, products: bool) -> int:
    """How many features `unit_rows` makes of so many numbers."""
    base = numbers * (2 if low_ends else 1) + 1
    return base + (base * (base + 1) // 2 if products else 0)
