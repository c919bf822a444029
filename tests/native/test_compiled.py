"""Kernels of other sources are refused in a line."""

from __future__ import annotations

from types import ModuleType

import pytest

from fedveil.core.errors import FedveilError
from fedveil.native.compiled import VERSION, check_version


@pytest.mark.parametrize("version", [None, VERSION - 1, VERSION + 1])
def test_kernels_of_other_sources_are_refused_with_a_word_on_what_to_do(version: int | None) -> None:
    kernels = ModuleType("kernels")
    if version is not None:
        kernels.VERSION = version  # type: ignore[attr-defined]
    with pytest.raises(FedveilError, match="install fedveil again"):
        check_version(kernels)
