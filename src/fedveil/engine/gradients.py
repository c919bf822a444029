"""The seam between "what a client does" and "how gradients of many clients are computed".

A client's work needs one thing from a model: the sum over a batch of its per-example gradients, each scaled by
a clipping factor that depends on that example's own gradient norms. Four implementations give it: `plain`
(one example after another, the reference), `general` (any module, vectorised by `torch.func`), `layered` (any module,
with the parts that hold parameters computed for many clients at once) and `fused` (hand-batched rows of layers). They
agree to rounding; `choose` in `batched.py` picks one. Attacks have a fifth, which can be differentiated
(`attacks/inversion/differentiable.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from fedveil.core.parameters import Layout
from fedveil.mechanisms.clip import Limit

Factors = Callable[[Tensor], Tensor]
"""Maps the norms `[K, B, M]` of each example's gradient, layer by layer, to the factors `[K, B, M]` they are
multiplied with; never above 1 and 0 where a norm is not finite."""


@dataclass(frozen=True)
class WatchedLimit:
    """Factors by a limit, which kernels in C know too. Whoever computes them shows norms and factors."""

    limit: Limit
    watch: Callable[[Tensor, Tensor], None]

    def __call__(self, norms: Tensor) -> Tensor:
        factors = self.limit(norms)
        self.watch(norms, factors)
        return factors


@dataclass(frozen=True)
class Batch:
    """B slots for each of K clients; `weights` is 1 where a record sits and 0 where a slot is padding."""

    inputs: Tensor  # [K, B, *input_shape], float32
    labels: Tensor  # [K, B], int64 classes or float32 numbers
    weights: Tensor  # [K, B], float32
    seeds: tuple[int, ...] | None = None  # one per client, for networks with random layers (dropout)


def client_part(batch: Batch, clients: slice) -> Batch:
    """The slots of some of the clients."""
    seeds = None if batch.seeds is None else batch.seeds[clients]
    return Batch(batch.inputs[clients], batch.labels[clients], batch.weights[clients], seeds)


@dataclass(frozen=True)
class Sums:
    """The outcome of one step for K clients."""

    total: Tensor  # [K, P]: sum over the batch of factor × gradient
    losses: Tensor  # [K]: sum over the batch of the records' losses (records with a non-finite loss count 0)
    norms: Tensor | None  # [K, B, M] before clipping, 0 for padding; None when nothing asked for them
    rejected: Tensor  # [K] int64: records whose gradient was not finite and therefore contributed zero


@dataclass(frozen=True)
class Rows:
    """Every example's own gradient, before clipping; non-finite rows are already zero."""

    rows: Tensor  # [K, B, P]; zero for padding
    losses: Tensor  # [K, B]
    norms: Tensor  # [K, B, M]
    rejected: Tensor  # [K]


class Gradients(Protocol):
    """Gradients of each example's own loss (not of a mean) by the objective, for many clients at once."""

    layout: Layout
    random: bool  # the network has random layers, which want `Batch.seeds`

    def sums(self, parameters: Tensor, batch: Batch, factors: Factors | None) -> Sums:
        """Sum of each client's per-example gradients at `parameters` `[K, P]`, scaled by `factors`.

        `factors=None` means unclipped. An example with a NaN or infinite gradient (or loss) contributes zero.
        """

    def rows(self, parameters: Tensor, batch: Batch) -> Rows:
        """The gradients one by one, for the `on_device` view and for attacks."""
