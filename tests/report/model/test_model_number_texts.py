"""Numbers as they are printed."""

from __future__ import annotations

import math

import pytest

from fedveil.report.model.number_texts import claimed_text, delta_text, duration_text, epsilon_text


@pytest.mark.parametrize(("seconds", "text"), [(7.4, "7 s"), (99, "99 s"), (600, "10 min"), (7200, "2.0 h")])
def test_a_duration_is_short(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_a_certified_epsilon_is_rounded_up_and_a_claimed_one_as_its_paper_does() -> None:
    assert [epsilon_text(value) for value in (0.82231, "inf", math.inf, None)] == ["0.8224", "∞", "∞", "–"]
    assert [claimed_text(value) for value in (0.82231, "inf", math.inf, None)] == ["0.8223", "∞", "∞", "–"]


def test_a_delta_has_no_needless_zeros() -> None:
    assert [delta_text(value) for value in (1e-5, 0.001, 2.5e-10)] == ["1e-5", "0.001", "2.5e-10"]
