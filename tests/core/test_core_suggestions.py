"""What was probably meant by a name that nobody knows."""

from __future__ import annotations

import pytest

from fedveil.core.suggestions import closest, did_you_mean
from fedveil.zoo import ZOO


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("fedavgg", "fedavg"), ("fed_avg", "fedavg"), ("fedcdp", "fed-cdp"), ("Fed-CDP", "fed-cdp"), ("qqqq", None)],
)
def test_the_nearest_method_is_meant_whatever_its_hyphens_and_case(typed: str, meant: str | None) -> None:
    assert closest(typed, ZOO) == meant


def test_where_nothing_is_near_nothing_is_said() -> None:
    assert did_you_mean("qqqq", ZOO) == ""
    assert did_you_mean("mnits", ["mnist", "adult"]) == "; did you mean mnist?"
