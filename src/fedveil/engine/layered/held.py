"""A module that holds the weights of many clients: the same module, with another class and without its own weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fedveil.engine.layered.step import LeafStep, Unsupported

MAY_BE_ASKED = {
    "shape",
    "dtype",
    "device",
    "requires_grad",
    "ndim",
    "is_cuda",
    "is_leaf",
    "layout",
    "size",
    "dim",
    "numel",
}
"""What may be asked of a parameter that is held elsewhere; computing with it is not possible."""


class Absent(Tensor):
    """Stands where a parameter stood. A network that computes with it reaches past its leaf, and is told so."""

    path: str

    @staticmethod
    def of(parameter: Tensor, path: str) -> Absent:
        made: Absent = torch.Tensor._make_subclass(Absent, parameter.detach())
        made.path = path
        return made

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(getattr(func, "__self__", None), "__name__", getattr(func, "__name__", ""))
        if name in MAY_BE_ASKED:
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        found = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, Absent)]
        raise Unsupported("its weights are used outside of it", found[0].path if found else None)


class Held(nn.Module):
    """What all leaves have. `names` maps a parameter's short name to its name in the network's layout."""

    step: LeafStep
    path: str
    names: dict[str, str]

    def hold(self, step: LeafStep, path: str, names: dict[str, str]) -> None:
        """Take this module's own parameters away; from now on they are those of the step."""
        self.step, self.path, self.names = step, path, names
        for short in names:
            parameter = self._parameters[short]
            assert parameter is not None
            self._parameters[short] = Absent.of(parameter, path)  # type: ignore[assignment]

    def weights(self, short: str) -> Tensor:
        """`[K, *shape]`"""
        return self.step.parameter(self.names[short])

    def trained(self, short: str) -> str | None:
        """The name under which a parameter's gradient is received; None where there is none, or it is frozen."""
        name = self.names.get(short)
        return name if name is not None and self.step.trains(name) else None

    def refuse(self, why: str) -> Unsupported:
        return Unsupported(why, self.path)
