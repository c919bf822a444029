"""PyTorch, and what else takes long to load, loaded when something of it is first used.

Methods, specs and data sets are declared with the functions that execute them beside them. Whoever only reads
declarations (`methods`, `account`, `verify`) must not wait for PyTorch, which takes longer to load than they take to
answer. So what such commands import takes `torch` from here, and its types for type checkers alone. NumPy is half of
what `methods` would load, so the declarations of methods take it from here, too.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


class Deferred(ModuleType):
    """Stands for a module, and imports it when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__.get("loaded")
        if module is None:  # asked of the import system once: it takes longer than many a small operation
            module = self.__dict__["loaded"] = import_module(self.__name__)
        return getattr(module, name)


if TYPE_CHECKING:
    import numpy
    import safetensors.torch
    import torch as torch
    from scipy import special as special

    np = numpy
    tensor_files = safetensors.torch
else:
    np = Deferred("numpy")
    torch = Deferred("torch")
    tensor_files = Deferred("safetensors.torch")
    special = Deferred("scipy.special")
