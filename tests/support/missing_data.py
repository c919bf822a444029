"""Tests that need a data set which may not be on this machine."""

from __future__ import annotations

import pytest


def skip_without_data(errors: str) -> None:
    """Skip the test if this is what a command says of a data set that is not here."""
    if "fedveil data fetch" in errors:
        pytest.skip("needs a data set that is not here")
