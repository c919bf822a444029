"""What all leaves of a network share while one step is computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.engine.layered.arena import Arena
from fedveil.engine.layered.contributions import Contribution, Formed, Streamed, add_up, merged, product

try:
    from torch._C._functorch import _add_batch_dim, get_unwrapped, is_batchedtensor, maybe_get_bdim, maybe_get_level
    from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters, temporarily_pop_interpreter_stack
except ImportError:  # names of PyTorch's own: a version that lacks them takes the general path
    STEPS_OUT = False
else:
    STEPS_OUT = True
"""Whether a leaf can work on all examples at once from inside a `vmap`."""


class Unsupported(Exception):
    """A module is used in a way that its leaf does not know; `path` names it, where one is to blame."""

    def __init__(self, why: str, path: str | None = None) -> None:
        super().__init__(why)
        self.path = path


class LeafStep:
    """K clients, B examples each: their parameters, and the contributions to their gradients."""

    def __init__(self, layout: Layout, contiguous: bool = False) -> None:
        self.layout, self.arena, self.contiguous = layout, Arena(), contiguous
        self.clients = self.slots = 0
        self.draws = True
        self.frozen: dict[str, Tensor] = {}
        self._anchors: dict[tuple[int, torch.dtype], Tensor] = {}
        self._starts = dict(zip(layout.names, layout.offsets, strict=False))
        self._shapes = dict(zip(layout.names, layout.shapes, strict=True))

    def begin(self, parameters: Tensor, slots: int, seeds: tuple[int, ...] | None, plain: Tensor | None) -> Tensor:
        """Start a step at `parameters` `[K, P]`; returns the anchor `[N]`, which makes autograd visit every leaf.

        With `plain` `[K, P]` sums go there as soon as they are known; without, contributions are kept.
        """
        self.clients, self.slots = len(parameters), slots
        self.arena.begin()
        self._parameters = self.layout.split(parameters)
        self._contributions: dict[str, list[Contribution]] = {}
        self._plain, self._written = plain, set[str]()
        self._seeds, self._generators = seeds, list[torch.Generator]()
        key = (self.clients * slots, parameters.dtype)
        if key not in self._anchors:
            self._anchors = {key: torch.zeros(key[0], dtype=key[1], device=parameters.device, requires_grad=True)}
        self.anchor = self._anchors[key]
        return self.anchor

    # What leaves ask for

    def laid_out(self, values: Tensor) -> Tensor:
        """What a leaf gives, as the network expects it: in any order in memory, or where it looks at that the usual."""
        return values.contiguous() if self.contiguous else values

    def parameter(self, name: str) -> Tensor:
        """`[K, *shape]`: each client's own; of what is not trained, everybody's."""
        if name in self._parameters:
            return self._parameters[name]
        value = self.frozen[name]
        return value.expand(self.clients, *value.shape)

    def trains(self, name: str) -> bool:
        return name in self._parameters

    def receive(self, name: str, contribution: Contribution) -> None:
        """A leaf's part of the gradient by one parameter."""
        if self._plain is None:
            self._contributions.setdefault(name, []).append(contribution)
            return
        out = self.view_of(self._plain, name)
        if name in self._written:
            out.add_(add_up(contribution, None, torch.zeros(out.shape, dtype=out.dtype, device=out.device)))
            return
        if contribution.part is not None:
            out.zero_()
        add_up(contribution, None, out)
        self._written.add(name)

    def receive_product(self, name: str, inputs: Tensor, deltas: Tensor, part: tuple[int, int] | None = None) -> None:
        """Σ_t g_t·x_tᵀ of x `[K, B, T, I]` and g `[K, B, T, O]`, for a parameter or a part of its first axis."""
        made = Streamed(inputs, deltas) if self.plain else product(inputs, deltas)
        made.part = part
        self.receive(name, made)

    def receive_rows(self, name: str, rows: Tensor, part: tuple[int, int] | None = None) -> None:
        """Rows `[K, B, n]` that are there already."""
        made = Formed(rows)
        made.part = part
        self.receive(name, made)

    def receive_sum(self, name: str, total: Tensor) -> None:
        """The sum `[K, *shape]` of the examples' gradients, where nobody asks for more."""
        self.receive(name, Formed(total.reshape(self.clients, 1, -1)))

    @property
    def plain(self) -> bool:
        """Nobody asks for single examples' norms."""
        return self._plain is not None

    def masks(self, shape: torch.Size, keep: float, like: Tensor) -> Tensor:
        """1/keep with this probability, else 0: `[N, *shape]`, drawn for each client from its own seed."""
        if not self.draws:
            return torch.ones(self.clients * self.slots, *shape, dtype=like.dtype, device=like.device)
        if not self._generators:
            seeds = self._seeds or (0,) * self.clients
            self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        drawn = torch.empty(self.clients, self.slots, *shape, dtype=like.dtype)
        for own, generator in zip(drawn, self._generators, strict=True):
            own.bernoulli_(keep, generator=generator)
        return drawn.div_(keep).flatten(0, 1).to(like.device)

    # What the network asks for

    def view_of(self, flat: Tensor, name: str) -> Tensor:
        """The view `[K, *shape]` of a parameter's place in `flat` `[K, P]`."""
        start, shape = self._starts[name], self._shapes[name]
        return flat[:, start : start + math.prod(shape)].view(len(flat), *shape)

    def contributions(self) -> dict[str, list[Contribution]]:
        """Of each parameter: several only where they fill different parts of it."""
        return {
            name: merged(found, self.clients, self.slots, self._shapes[name])
            for name, found in self._contributions.items()
        }

    def unwritten(self) -> list[str]:
        """Parameters that nothing contributed to."""
        seen = self._written if self._plain is not None else self._contributions.keys()
        return [name for name in self.layout.names if name not in seen]


def outside(step: LeafStep, function: Callable[..., Any], *values: Tensor | None) -> Any:
    """Call `function` on whole tensors `[N, …]`, outside the `vmap` in which a leaf is called.

    What is the same for all examples is repeated for each. What comes back, tensors `[N, …]`, is again one example's
    inside.
    """
    stack = retrieve_all_functorch_interpreters()
    if len(stack) != 1:
        raise Unsupported("a transformation of torch.func in the network's own forward")
    level, examples = stack[0].level(), step.clients * step.slots
    whole = [value if value is None else _whole(value, level, examples) for value in values]
    with temporarily_pop_interpreter_stack():
        result = function(*whole)
    if isinstance(result, tuple):
        return tuple(_add_batch_dim(each, 0, level) for each in result)
    return _add_batch_dim(result, 0, level)


def _whole(value: Tensor, level: int, examples: int) -> Tensor:
    if not is_batchedtensor(value):
        return value.expand(examples, *value.shape)
    if maybe_get_level(value) != level:
        raise Unsupported("a transformation of torch.func in the network's own forward")
    return get_unwrapped(value).movedim(maybe_get_bdim(value), 0)
