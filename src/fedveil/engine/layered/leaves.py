"""Which modules are known, and how a network gets them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from fedveil.engine.layered.attention_leaf import HeldAttention
from fedveil.engine.layered.convolution_leaf import HeldConvolution, HeldSequenceConvolution
from fedveil.engine.layered.dropout_leaf import (
    HeldDropout,
    HeldLineDropout,
    HeldPictureDropout,
    HeldVolumeDropout,
)
from fedveil.engine.layered.embedding_leaf import HeldEmbedding
from fedveil.engine.layered.held import Held
from fedveil.engine.layered.linear_leaf import HeldLinear
from fedveil.engine.layered.normalisation_leaf import (
    HeldGroupNorm,
    HeldInstanceNorm,
    HeldLayerNorm,
    HeldLineInstanceNorm,
)
from fedveil.engine.layered.recurrent_leaf import HeldGru, HeldLstm, HeldRnn
from fedveil.engine.layered.step import LeafStep

Reason = str | None


@dataclass(frozen=True)
class LeafRule:
    """The class that a module gets, and why a module can't have it."""

    held: type[Held]
    unfit: Callable[[Any], Reason] = lambda module: None


def _convolution(module: nn.Conv1d | nn.Conv2d) -> Reason:
    return f"{module.groups} groups of channels" if module.groups != 1 else None


def _normalisation(module: nn.InstanceNorm2d) -> Reason:
    return "it keeps running statistics" if module.track_running_stats else None


def _embedding(module: nn.Embedding) -> Reason:
    odd = module.max_norm is not None or module.scale_grad_by_freq or module.sparse
    return "max_norm, scale_grad_by_freq or sparse" if odd else None


def _recurrent(module: nn.RNNBase) -> Reason:
    return "proj_size" if module.proj_size else None


def _attention(module: nn.MultiheadAttention) -> Reason:
    if not module._qkv_same_embed_dim:
        return "keys or values of another width"
    return "bias_k, bias_v or add_zero_attn" if module.bias_k is not None or module.add_zero_attn else None


LEAF_RULES: dict[type[nn.Module], LeafRule] = {
    nn.Linear: LeafRule(HeldLinear),
    NonDynamicallyQuantizableLinear: LeafRule(HeldLinear),
    nn.Conv1d: LeafRule(HeldSequenceConvolution, _convolution),
    nn.Conv2d: LeafRule(HeldConvolution, _convolution),
    nn.GroupNorm: LeafRule(HeldGroupNorm),
    nn.LayerNorm: LeafRule(HeldLayerNorm),
    nn.InstanceNorm1d: LeafRule(HeldLineInstanceNorm, _normalisation),
    nn.InstanceNorm2d: LeafRule(HeldInstanceNorm, _normalisation),
    nn.Embedding: LeafRule(HeldEmbedding, _embedding),
    nn.LSTM: LeafRule(HeldLstm, _recurrent),
    nn.GRU: LeafRule(HeldGru, _recurrent),
    nn.RNN: LeafRule(HeldRnn, _recurrent),
    nn.MultiheadAttention: LeafRule(HeldAttention, _attention),
    nn.Dropout: LeafRule(HeldDropout),
    nn.Dropout1d: LeafRule(HeldLineDropout),
    nn.Dropout2d: LeafRule(HeldPictureDropout),
    nn.Dropout3d: LeafRule(HeldVolumeDropout),
}
"""By the exact type: a class of the user's own may compute anything."""

DRAWING = (HeldDropout,)


@dataclass(frozen=True)
class Arranged:
    """A copy of a network with leaves, and the trained parameters that `vmap` gets once for every example."""

    network: nn.Module
    by_example: tuple[str, ...]
    reasons: dict[str, str]  # of each part that is no leaf though it has parameters: why
    slow: bool  # such a part has matrices or kernels, which cost most where each example has its own


def arrange(model: nn.Module, step: LeafStep, refused: Mapping[str, str]) -> Arranged:
    """A copy of `model` whose known modules hold the step's parameters; `refused` names those that must not."""
    network = copy.deepcopy(model).train()
    named = {
        id(parameter): name for name, parameter in reversed(list(network.named_parameters(remove_duplicate=False)))
    }
    step.frozen = {name: p.detach() for name, p in network.named_parameters() if not p.requires_grad}
    by_example: dict[str, None] = {}
    reasons: dict[str, str] = {}
    slow = False
    for path, module in list(network.named_modules()):
        own = {short: named[id(parameter)] for short, parameter in module._parameters.items() if parameter is not None}
        rule = LEAF_RULES.get(type(module))
        reason = refused.get(path) or ("no rule for this kind" if rule is None else rule.unfit(module))
        held_parameters = any(step.layout.names.count(name) for name in own.values())
        if reason is None and rule is not None and (own or issubclass(rule.held, DRAWING)):
            module.__class__ = rule.held
            assert isinstance(module, Held)
            module.hold(step, path, own)
        elif held_parameters:
            reasons[path] = f"{type(module).__name__}: {reason}"
            by_example.update(dict.fromkeys(name for name in own.values() if name in step.layout.names))
            alone = not list(module.children())  # else more like a table or a gate than like a layer
            slow |= alone and any(parameter.dim() > 1 for parameter in module.parameters())
    return Arranged(network, tuple(by_example), reasons, slow)
