"""Per-example gradients of one parameter, held in the form in which they are cheapest.

A contribution knows upper bounds of the lengths of its rows, their scaled sum, and the rows themselves. What is said
in `docs/numbers.md` of each form: the row that is added is a function of its example alone, and its length is never
more than stated, but for the share that `mechanisms.arithmetic.NORM_MARGIN` covers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from fedveil.core.norms import lengths
from fedveil.native.products import multiply

VANISHING_LENGTH = 1e-15
"""Below this, squares come near the smallest single-precision numbers."""


class Contribution(ABC):
    """Rows `[K, B, n]` of a parameter, or of the part `[start, stop)` of its first axis."""

    part: tuple[int, int] | None = None

    @abstractmethod
    def lengths(self) -> Tensor:
        """Upper bounds `[K, B]` of the rows' L2 norms."""

    @abstractmethod
    def drop(self, gone: Tensor) -> None:
        """Make the rows marked in `[K, B]` zero, whatever they were."""

    @abstractmethod
    def summed(self, factors: Tensor | None, out: Tensor) -> None:
        """Write the sum over the examples, scaled by factors `[K, B]`, to `out` `[K, *shape]`."""

    @abstractmethod
    def rows(self) -> Tensor:
        """`[K, B, n]`, in the order of the parameter's own axes."""

    @abstractmethod
    def floats(self) -> int:
        """Numbers that are kept of one example."""


class Formed(Contribution):
    """Rows that are there. `order` says how the axes of `shape`, in which rows are held, become the parameter's."""

    def __init__(self, rows: Tensor, shape: tuple[int, ...] = (), order: tuple[int, ...] = ()) -> None:
        self._rows, self._shape, self._order = rows, shape, order

    def lengths(self) -> Tensor:
        return lengths(self._rows)

    def drop(self, gone: Tensor) -> None:
        self._rows = self._rows.masked_fill(gone.unsqueeze(-1), 0.0)

    def summed(self, factors: Tensor | None, out: Tensor) -> None:
        count, slots, size = self._rows.shape
        if factors is None:
            total = self._rows.sum(dim=1) if slots > 1 else self._rows.squeeze(1)
        elif not self._order:
            torch.bmm(factors.unsqueeze(1), self._rows, out=out.view(count, 1, size))
            return
        else:
            total = torch.bmm(factors.unsqueeze(1), self._rows)
        out.copy_(self._arranged(total.view(count, size)).view(out.shape))

    def rows(self) -> Tensor:
        return self._arranged(self._rows).flatten(start_dim=2)

    def floats(self) -> int:
        return self._rows.shape[-1]

    def _arranged(self, values: Tensor) -> Tensor:
        return arranged(values, self._shape, self._order) if self._order else values


class Outer(Contribution):
    """g·xᵀ of one x `[K, B, I]` and one g `[K, B, O]` an example: its length is the product of theirs."""

    def __init__(self, inputs: Tensor, deltas: Tensor) -> None:
        self._inputs, self._deltas = inputs, deltas

    def lengths(self) -> Tensor:
        return _length(self._inputs) * _length(self._deltas)

    def drop(self, gone: Tensor) -> None:
        self._inputs = self._inputs.masked_fill(gone.unsqueeze(-1), 0.0)
        self._deltas = self._deltas.masked_fill(gone.unsqueeze(-1), 0.0)

    def summed(self, factors: Tensor | None, out: Tensor) -> None:
        deltas = self._deltas if factors is None else self._deltas * factors.unsqueeze(-1)
        multiply(deltas.mT, self._inputs, out.view(len(deltas), deltas.shape[-1], -1))

    def rows(self) -> Tensor:
        return (self._deltas.unsqueeze(-1) * self._inputs.unsqueeze(-2)).flatten(start_dim=2)

    def floats(self) -> int:
        return self._inputs.shape[-1] + self._deltas.shape[-1]


class Streamed(Contribution):
    """Σ_t g_t·x_tᵀ over T places, of x `[K, B, T, I]` and g `[K, B, T, O]`: rows too large to be kept.

    Lengths come from Gram matrices, Σ_st ⟨x_s, x_t⟩·⟨g_s, g_t⟩, in double precision, where what cancels is below
    (I + O + T² + 8)·2⁻⁵² of A², A = Σ_t ‖x_t‖·‖g_t‖. A row is formed in single precision when it is added, one at a
    time, and is then off by at most γ·A with γ = (T + 2)·2⁻²⁴; both are part of the bound.
    """

    def __init__(
        self, inputs: Tensor, deltas: Tensor, shape: tuple[int, ...] = (), order: tuple[int, ...] = ()
    ) -> None:
        self._inputs, self._deltas, self._shape, self._order = inputs, deltas, shape, order

    def lengths(self) -> Tensor:
        count, slots, places, _ = self._inputs.shape
        x, g = (value.flatten(0, 1).double() for value in (self._inputs, self._deltas))
        grams = torch.bmm(x, x.mT), torch.bmm(g, g.mT)
        of_x, of_g = (gram.diagonal(dim1=1, dim2=2).clamp_min(0).sqrt() for gram in grams)
        most = (of_x * of_g).sum(dim=1)
        lost = (x.shape[-1] + g.shape[-1] + places**2 + 8) * 2.0**-52
        square = (grams[0] * grams[1]).sum(dim=(1, 2)).clamp_min(0) + most.square() * lost
        bound = square.sqrt() + most * ((places + 2) * 2.0**-24 * 1.01)
        return bound.view(count, slots).to(self._inputs.dtype)

    def drop(self, gone: Tensor) -> None:
        self._inputs = self._inputs.masked_fill(gone[..., None, None], 0.0)
        self._deltas = self._deltas.masked_fill(gone[..., None, None], 0.0)

    def summed(self, factors: Tensor | None, out: Tensor) -> None:
        """Each example's row is formed in full before it is added, so that a sum of B rows is one of B terms."""
        if self._order:
            summed = torch.empty(out.shape, dtype=out.dtype, device=out.device)
            self._summed(factors, summed)
            out.copy_(arranged(summed.flatten(start_dim=1), self._shape, self._order).view(out.shape))
        else:
            self._summed(factors, out)

    def _summed(self, factors: Tensor | None, out: Tensor) -> None:
        count, slots, _, width = self._deltas.shape
        whole = out.view(count, width, -1)
        if factors is None:
            x, g = (value.flatten(1, 2) for value in (self._inputs, self._deltas))
            multiply(g.mT, x, whole)
            return
        row = torch.empty_like(whole)
        for slot in range(slots):
            multiply(self._deltas[:, slot].mT, self._inputs[:, slot], row)
            row.mul_(factors[:, slot, None, None])
            if slot:
                whole.add_(row)
            else:
                whole.copy_(row)

    def rows(self) -> Tensor:
        rows = (self._deltas.mT @ self._inputs).flatten(start_dim=2)
        return arranged(rows, self._shape, self._order).flatten(start_dim=2) if self._order else rows

    def floats(self) -> int:
        return self._inputs.shape[2] * (self._inputs.shape[-1] + self._deltas.shape[-1])


class Looked(Contribution):
    """Rows of a table that examples looked up: gradients g `[K, B, T, D]` for the places `[K, B, T]` of the table."""

    def __init__(self, places: Tensor, deltas: Tensor, size: int) -> None:
        same = places.unsqueeze(-1) == places.unsqueeze(-2)
        first = same.to(torch.uint8).argmax(dim=-1)  # where an example looked this place up for the first time
        gather = torch.zeros(same.shape, dtype=deltas.dtype, device=deltas.device)
        gather.scatter_(-2, first.unsqueeze(-2), 1.0)
        self._places, self._size = places, size
        self._once = (
            gather @ deltas
        )  # what an example adds to a place stands where it first looked it up, the rest is 0

    def lengths(self) -> Tensor:
        return lengths(self._once.flatten(start_dim=2))

    def drop(self, gone: Tensor) -> None:
        self._once = self._once.masked_fill(gone[..., None, None], 0.0)

    def summed(self, factors: Tensor | None, out: Tensor) -> None:
        scaled = self._once if factors is None else self._once * factors[..., None, None]
        out.zero_()
        for table, places, rows in zip(out, self._places, scaled, strict=True):
            table.index_add_(0, places.flatten(), rows.flatten(0, 1))

    def rows(self) -> Tensor:
        count, slots, _, width = self._once.shape
        table = self._once.new_zeros(count, slots, self._size, width)
        return table.scatter_add_(2, self._places.unsqueeze(-1).expand_as(self._once), self._once).flatten(2)

    def floats(self) -> int:
        return self._once.shape[2:].numel()


STREAM_FROM = 4.0
"""Rows so many times larger than what they are made of are not kept (measured)."""


def too_large(places: int, width: int, height: int) -> bool:
    """Whether rows of Σ over `places` of g·xᵀ, `height` × `width`, are not worth keeping."""
    return width * height > STREAM_FROM * places * (width + height)


def arranged(values: Tensor, shape: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
    """The last axis of `values` as axes of `shape`, in this order."""
    front = values.dim() - 1
    shaped = values.view(*values.shape[:-1], *shape)
    return shaped.permute(*range(front), *(front + axis for axis in order))


def product(inputs: Tensor, deltas: Tensor) -> Contribution:
    """Σ_t g_t·x_tᵀ of x `[K, B, T, I]` and g `[K, B, T, O]`, in the form that is cheapest."""
    count, slots, places, width = inputs.shape
    height = deltas.shape[-1]
    if places == 1:
        return Outer(inputs.squeeze(2), deltas.squeeze(2))
    if too_large(places, width, height):
        return Streamed(inputs, deltas)
    rows = torch.empty(count, slots, height, width, dtype=deltas.dtype, device=deltas.device)
    if inputs.is_contiguous() and deltas.is_contiguous():
        multiply(deltas.flatten(0, 1).mT, inputs.flatten(0, 1), rows.flatten(0, 1))
    else:  # where they lie, example by example: copies cost more than calls
        for slot in range(slots):
            multiply(deltas[:, slot].mT, inputs[:, slot], rows[:, slot])
    return Formed(rows.flatten(start_dim=2))


def add_up(contribution: Contribution, factors: Tensor | None, out: Tensor) -> Tensor:
    """Write a contribution's sum to its part of `out` `[K, *shape]`."""
    part = contribution.part
    contribution.summed(factors, out if part is None else out[:, part[0] : part[1]])
    return out


def merged(found: list[Contribution], clients: int, slots: int, shape: Sequence[int]) -> list[Contribution]:
    """The same contributions, added up example by example where two of them meet."""
    if len(found) == 1 or _apart(found):
        return found
    size = math.prod(shape[1:])
    rows: Tensor | None = None
    for contribution in found:
        own = contribution.rows()
        if rows is None:
            rows = own.new_zeros(clients, slots, math.prod(shape))
        start, stop = contribution.part or (0, shape[0] if shape else 1)
        rows[..., start * size : stop * size] += own
    assert rows is not None
    return [Formed(rows)]


def _apart(found: list[Contribution]) -> bool:
    parts = sorted(each.part for each in found if each.part is not None)
    return len(parts) == len(found) and all(one[1] <= two[0] for one, two in pairwise(parts))


def _length(rows: Tensor) -> Tensor:
    """L2 norms along the last axis; bounded from above where the squares of tiny numbers would vanish.

    Times an enormous input, a delta of 1e-20 is a gradient like any other, and must not pass for zero; nor must a tiny
    input times an enormous delta.
    """
    length = lengths(rows)
    largest = torch.linalg.vector_norm(rows, ord=torch.inf, dim=-1)
    return torch.where(length < VANISHING_LENGTH, largest * math.sqrt(rows.shape[-1]), length)
