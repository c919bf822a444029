"""Noise of the wrong size, to see who notices."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from torch import Tensor

from fedveil.core.streams import Address, Purpose
from fedveil.mechanisms.noise import NoiseSource


def scale_noise(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """From now on all noise has `factor` times its standard deviation."""
    original = NoiseSource.add

    def scaled(self: NoiseSource, purpose: Purpose, addresses: Sequence[Address], values: Tensor, std: float) -> None:
        if factor > 0:
            original(self, purpose, addresses, values, std * factor)

    monkeypatch.setattr(NoiseSource, "add", scaled)
