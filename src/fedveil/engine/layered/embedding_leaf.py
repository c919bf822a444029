"""A table that examples look up, one for each client."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fedveil.engine.layered.contributions import Looked
from fedveil.engine.layered.held import Held
from fedveil.engine.layered.step import outside


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, places: Tensor, anchor: Tensor, leaf: HeldEmbedding) -> Tensor:
        step, tables = leaf.step, leaf.weights("weight")
        own = places.reshape(step.clients, -1)
        out = step.arena.take(tables, *own.shape, tables.shape[-1])
        for table, wanted, found in zip(tables, own, out, strict=True):
            torch.index_select(table, 0, wanted, out=found)
        ctx.leaf, ctx.places = leaf, own
        return out.view(*places.shape, tables.shape[-1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        leaf: HeldEmbedding = ctx.leaf
        step, name = leaf.step, leaf.trained("weight")
        if name is not None:
            places = ctx.places.view(step.clients, step.slots, -1)
            deltas = gradient.reshape(*places.shape, -1)
            if leaf.padding_idx is not None:
                deltas = deltas.masked_fill((places == leaf.padding_idx).unsqueeze(-1), 0.0)
            step.receive(name, Looked(places, deltas, leaf.num_embeddings))
        return None, None, None


class HeldEmbedding(Held, nn.Embedding):
    def forward(self, input: Tensor) -> Tensor:
        def found(places: Tensor) -> Tensor:
            return _Lookup.apply(places, self.step.anchor, self)  # type: ignore[no-any-return, no-untyped-call]

        return outside(self.step, found, input)  # type: ignore[no-any-return]
