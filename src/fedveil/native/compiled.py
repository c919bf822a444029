"""Whether compiled kernels are those of the sources beside them."""

from __future__ import annotations

from types import ModuleType

from fedveil.core.errors import FedveilError

VERSION = 7
"""Of what kernels take and give; the same number stands in both C files."""


def check_version(kernels: ModuleType) -> None:
    """Refuse kernels of other sources: an editable installation keeps those that it was built with."""
    if getattr(kernels, "VERSION", None) != VERSION:
        raise FedveilError("the compiled kernels are not those of these sources: install fedveil again")
