"""When a training ends."""

from __future__ import annotations

import math

import pytest

from fedveil.core.errors import FedveilError
from fedveil.parts.stopping import Stop


def test_a_training_has_a_hundred_rounds_unless_told_otherwise() -> None:
    assert Stop().rounds == 100
    assert Stop(3).rounds == 3


@pytest.mark.parametrize("rounds", [0, -1, math.nan, math.inf])
def test_a_training_without_rounds_or_without_end_is_refused(rounds: float) -> None:
    with pytest.raises(FedveilError, match=r"^rounds must be a positive"):
        Stop(rounds)  # type: ignore[arg-type]
