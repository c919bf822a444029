"""Attention with several heads, as the linear maps that hold its parameters."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from fedveil.engine.layered.dropout_leaf import dropped
from fedveil.engine.layered.held import Held
from fedveil.engine.layered.linear_leaf import LinearMap
from fedveil.engine.layered.step import outside


class HeldAttention(Held, nn.MultiheadAttention):
    """`nn.MultiheadAttention` with queries, keys and values of one width, and one matrix for all three."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if is_causal and attn_mask is None:
            raise self.refuse("is_causal without attn_mask")
        alone = query.dim() == 2
        same = query is key and key is value
        if alone:
            query, key, value = (each.unsqueeze(1 if not self.batch_first else 0) for each in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        values: tuple[Tensor, ...] = (query,) if same else (query, key, value)
        if not self.batch_first:
            values = tuple(each.transpose(0, 1) for each in values)
        mask = self._mask(attn_mask, key_padding_mask, values[0].shape[0], query.dtype)
        mixed, weights = outside(self.step, self._attended, values[0], *(values[1:] or (None, None)), mask)
        mixed = self.out_proj(mixed)
        if not self.batch_first:
            mixed = mixed.transpose(0, 1)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        if alone:
            mixed, weights = mixed.squeeze(0 if self.batch_first else 1), weights.squeeze(0)
        return mixed, weights if need_weights else None

    def _mask(self, attention: Tensor | None, padding: Tensor | None, count: int, dtype: torch.dtype) -> Tensor | None:
        """What is added to the scores `[count, heads, L, S]`."""
        mask = None
        if attention is not None:
            mask = _added(attention, dtype)
            mask = mask.view(count, self.num_heads, *mask.shape[1:]) if mask.dim() == 3 else mask[None, None]
        if padding is not None:
            added = _added(padding, dtype)[:, None, None]
            mask = added if mask is None else mask + added
        return mask

    def _attended(
        self, query: Tensor, key: Tensor | None, value: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Heads' mixtures `[N, 1, L, E]` and weights `[N, 1, heads, L, S]`, for queries `[N, 1, L, E]`."""
        width, bias = self.embed_dim, "in_proj_bias"
        if key is None or value is None:
            made = LinearMap(self, "in_proj_weight", bias)(query)
            q, k, v = (self._heads(each) for each in made.chunk(3, dim=-1))
        else:
            parts = ((0, width), (width, 2 * width), (2 * width, 3 * width))
            q, k, v = (
                self._heads(LinearMap(self, "in_proj_weight", bias, part)(each))
                for part, each in zip(parts, (query, key, value), strict=True)
            )
        scores = (q / math.sqrt(q.shape[-1])) @ k.mT
        weights = (scores if mask is None else scores + mask).softmax(dim=-1)
        if self.training and self.dropout > 0:
            weights = dropped(self.step, weights, self.dropout)
        return (weights @ v).transpose(-3, -2).flatten(start_dim=-2), weights

    def _heads(self, values: Tensor) -> Tensor:
        """`[…, heads, L, E / heads]` of `[…, L, E]`."""
        return values.reshape(*values.shape[:-1], self.num_heads, -1).transpose(-3, -2)


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask as numbers to add: −∞ where a mask of truths says that nobody may look."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -math.inf)
