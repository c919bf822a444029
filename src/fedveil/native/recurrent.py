"""All moments of an LSTM in one call, in C where this machine has the kernels.

A moment is a product of two small matrices and a dozen operations on few numbers. Between them PyTorch would take
longer than for them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedveil.native.calls import VECTOR_WIDTHS, Call, call
from fedveil.native.small_layers import sizes_of

ROOM_PARTS = 3
"""Of a room `[K, ROOM_PARTS, T + 1, S, H]`: states, memories and their tangents, from before the first moment on."""

_REMEMBER, _BACK = 16, 17
_NO_ROOM = np.zeros(16, np.float32)
_sigmoid_slope = torch.ops.aten.sigmoid_backward.grad_input
_tanh_slope = torch.ops.aten.tanh_backward.grad_input


def tanh(values: Tensor, out: Tensor) -> Tensor:
    """As 2/(1 + exp(−2x)) − 1, within 2⁻²³: PyTorch's own takes up to ten times as long."""
    torch.mul(values, 2, out=out).sigmoid_()
    return out.mul_(2).sub_(1)


def remember(gates: Tensor, matrix: Tensor, room: Tensor) -> None:
    """From what comes in at the gates `[K, T, S, 4H]` make what the gates let through, and fill the room.

    `matrix` `[K, H, 4H]` takes a state to the gates; the first state and memory are in the room.
    """
    count, times, sequences, hidden = _sizes(gates, room)
    _check(matrix, (count, hidden, 4 * hidden))
    if _takes(gates, matrix, room):
        sizes = sizes_of(clients=count, slots=sequences, channels=hidden, height=times)
        call(Call(_REMEMBER, VECTOR_WIDTHS[0], count, sizes, _NO_ROOM, (gates, matrix, room)))
        return
    states, memories, tangents = (part.unbind(1) for part in room.unbind(1))
    for t, moment in enumerate(gates.unbind(1)):
        enter, keep, new, leave = torch.split(moment.baddbmm_(states[t], matrix), hidden, dim=-1)
        moment[..., : 2 * hidden].sigmoid_(), tanh(new, new), leave.sigmoid_()
        torch.addcmul(keep * memories[t], enter, new, out=memories[t + 1])
        torch.mul(leave, tanh(memories[t + 1], tangents[t + 1]), out=states[t + 1])


def remember_back(gates: Tensor, room: Tensor, arrived: Tensor, weights: Tensor, slopes: Tensor, ends: Tensor) -> None:
    """Write derivatives by what came in at the gates to `slopes`, from those by all states, `arrived` `[K, T, S, H]`.

    `weights` `[K, 4H, H]` may lie in the memory of all parameters. `ends` `[K, 2, S, H]` are the derivatives by the
    last state and memory, and become those by the first.
    """
    count, times, sequences, hidden = _sizes(gates, room)
    _check(arrived, (count, times, sequences, hidden))
    _check(ends, (count, 2, sequences, hidden))
    _check(weights, (count, 4 * hidden, hidden))
    _check(slopes, tuple(gates.shape))
    if _takes(gates, room, arrived, slopes, ends) and _takes(weights[0]) and weights.dtype == gates.dtype:
        sizes = sizes_of(clients=count, slots=sequences, channels=hidden, height=times, size=weights.stride(0))
        call(Call(_BACK, VECTOR_WIDTHS[0], count, sizes, _NO_ROOM, (gates, room, arrived, weights, slopes, ends)))
        return
    _, memories, tangents = room.unbind(1)
    enter, keep, new, leave = (gates[..., part * hidden : (part + 1) * hidden] for part in range(4))
    apart = slopes.view(*slopes.shape[:-1], 4, hidden)
    for gate, (delta, value, slope) in enumerate(
        [
            (new, enter, _sigmoid_slope),
            (memories[:, :-1], keep, _sigmoid_slope),
            (enter, new, _tanh_slope),
            (tangents[:, 1:], leave, _sigmoid_slope),
        ]
    ):
        slope(delta, value, grad_input=apart[..., gate, :])
    through = torch.empty_like(arrived)
    _tanh_slope(leave, tangents[:, 1:], grad_input=through)
    by_state, by_memory = ends.unbind(1)
    for t in reversed(range(times)):
        by_state += arrived[:, t]
        by_memory.addcmul_(by_state, through[:, t])
        apart[:, t, :, :3].mul_(by_memory.unsqueeze(2))
        apart[:, t, :, 3].mul_(by_state)
        by_memory.mul_(keep[:, t])
        by_state.copy_(slopes[:, t] @ weights)


def _sizes(gates: Tensor, room: Tensor) -> tuple[int, int, int, int]:
    """K, T, S, H"""
    count, times, sequences, width = gates.shape
    _check(room, (count, ROOM_PARTS, times + 1, sequences, width // 4))
    return count, times, sequences, width // 4


def _check(values: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(values.shape) != shape:
        raise ValueError(f"memory of shape {tuple(values.shape)} where {shape} is needed")


def _takes(*values: Tensor) -> bool:
    kinds = (each.device.type == "cpu" and each.dtype == torch.float32 and each.is_contiguous() for each in values)
    return bool(VECTOR_WIDTHS) and all(kinds) and values[0].numel() > 0
