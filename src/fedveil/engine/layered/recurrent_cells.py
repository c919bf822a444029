"""One layer of a recurrent network, in one direction, over sequences `[K, S, T, E]` of many clients: S for each.

Written out, forwards and backwards, because hundreds of small operations would cost more than their arithmetic. Time
is the second axis inside: what belongs to one moment lies together.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedveil.engine.layered.held import Held
from fedveil.engine.layered.step import LeafStep
from fedveil.native.products import multiply, turned
from fedveil.native.recurrent import ROOM_PARTS, remember, remember_back, tanh


class CellWeights:
    """One use of the weights of one layer in one direction; `suffix` ends their names."""

    def __init__(self, leaf: Held, suffix: str) -> None:
        self.step: LeafStep = leaf.step
        self.by_input, self.by_state = leaf.weights(f"weight_ih_{suffix}"), leaf.weights(f"weight_hh_{suffix}")
        self.trained = {
            short: leaf.trained(f"{short}_{suffix}") for short in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        has_bias = f"bias_ih_{suffix}" in leaf.names
        self.input_bias = leaf.weights(f"bias_ih_{suffix}") if has_bias else None
        self.state_bias = leaf.weights(f"bias_hh_{suffix}") if has_bias else None
        self.bias = None
        if self.input_bias is not None and self.state_bias is not None:
            self.bias = self.input_bias + self.state_bias
        self.hidden = self.by_state.shape[-1]

    def input_gates(self, inputs: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """The inputs by time `[K, T, S, E]`, and W·x + b of all of them `[K, T, S, G]`."""
        count, sequences, times, width = inputs.shape
        by_time = self.step.arena.take(inputs, count, times, sequences, width)
        by_time.copy_(inputs.transpose(1, 2))
        flat = by_time.view(count, -1, width)
        out = self.step.arena.take(inputs, count, times * sequences, self.by_input.shape[1])
        if bias is not None:
            out.copy_(bias.unsqueeze(1).expand_as(out))
        multiply(flat, self.turned(self.by_input), out, add=bias is not None)
        return by_time, out.view(count, times, sequences, -1)

    def turned(self, weights: Tensor) -> Tensor:
        """Matrices `[K, O, I]` as `[K, I, O]`, which every moment multiplies with."""
        count, rows, columns = weights.shape
        return turned(weights, self.step.arena.take(weights, count, columns, rows))

    def states(self, inputs: Tensor, first: Tensor) -> Tensor:
        """Room for T + 1 states `[K, T + 1, S, H]`, the first filled in."""
        count, sequences, times, _ = inputs.shape
        room = self.step.arena.take(inputs, count, times + 1, sequences, self.hidden)
        room[:, 0].copy_(first)
        return room

    def receive(self, inputs: Tensor, states: Tensor, of_input: Tensor, of_state: Tensor) -> None:
        """Gradients by the weights: inputs `[K, T, S, E]`, states before each moment, and gradients by the gates."""
        step, same = self.step, of_state is of_input
        if step.plain:
            x, h, gx = (value.flatten(1, 2).unsqueeze(1) for value in (inputs, states, of_input))
            gh = gx if same else of_state.flatten(1, 2).unsqueeze(1)
        else:
            x, h, gx = (self._by_example(value) for value in (inputs, states, of_input))
            gh = gx if same else self._by_example(of_state)
        bias = gx.sum(dim=2)
        for short, value, deltas in (("weight_ih", x, gx), ("weight_hh", h, gh)):
            name = self.trained[short]
            if name is not None:
                step.receive_product(name, value, deltas)
        for short, rows in (("bias_ih", bias), ("bias_hh", bias if same else gh.sum(dim=2))):
            name = self.trained[short]
            if name is not None:
                step.receive_rows(name, rows)

    def _by_example(self, values: Tensor) -> Tensor:
        """`[K, B, places, width]` of `[K, T, S, width]`."""
        count, _, _, width = values.shape
        by_sequence = values.transpose(1, 2)
        if by_sequence.shape[1] == self.step.slots:
            return by_sequence
        return by_sequence.reshape(count, self.step.slots, -1, width)

    def inputs_gradient(self, of_input: Tensor) -> Tensor:
        """`[K, S, T, E]` of gradients by the gates `[K, T, S, G]`."""
        count, times, sequences, gates = of_input.shape
        back = self.step.arena.take(of_input, count, times * sequences, self.by_input.shape[2])
        multiply(of_input.view(count, -1, gates), self.by_input, back)
        return back.view(count, times, sequences, -1).transpose(1, 2)


def _gates(values: Tensor, count: int) -> Tensor:
    """`[…, G]` as `[…, count, H]`."""
    return values.view(*values.shape[:-1], count, -1)


class LongShort(torch.autograd.Function):
    """LSTM: all states `[K, S, T, H]` and the last memory `[K, S, H]`, from inputs, first state and first memory."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, state: Tensor, memory: Tensor, anchor: Tensor, cell: CellWeights) -> Any:
        by_time, gates = cell.input_gates(inputs, cell.bias)
        count, times, sequences, _ = gates.shape
        room = cell.step.arena.take(inputs, count, ROOM_PARTS, times + 1, sequences, cell.hidden)
        room[:, 0, 0].copy_(state)
        room[:, 1, 0].copy_(memory)
        remember(gates, cell.turned(cell.by_state), room)
        ctx.cell, ctx.saved = cell, (by_time, gates, room)
        return room[:, 0, 1:].transpose(1, 2), room[:, 1, -1].clone()

    @staticmethod
    def backward(ctx: Any, by_states: Tensor, by_memory: Tensor) -> Any:
        cell: CellWeights = ctx.cell
        by_time, gates, room = ctx.saved
        slopes = cell.step.arena.take(gates, *gates.shape)
        ends = torch.stack([torch.zeros_like(by_memory), by_memory], dim=1)
        remember_back(gates, room, by_states.transpose(1, 2).contiguous(), cell.by_state, slopes, ends)
        cell.receive(by_time, room[:, 0, :-1], slopes, slopes)
        back = cell.inputs_gradient(slopes) if ctx.needs_input_grad[0] else None
        return back, ends[:, 0], ends[:, 1], None, None


class GatedUnits(torch.autograd.Function):
    """GRU: all states `[K, S, T, H]` from inputs and first state."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, state: Tensor, anchor: Tensor, cell: CellWeights) -> Tensor:
        arena, size = cell.step.arena, cell.hidden
        by_time, gates = cell.input_gates(inputs, cell.input_bias)
        states, matrix = cell.states(inputs, state), cell.turned(cell.by_state)
        from_state = arena.take(inputs, *gates.shape)
        if cell.state_bias is not None:
            from_state.copy_(cell.state_bias[:, None, None].expand_as(from_state))
        later = states.unbind(1)
        moments = zip(
            gates[..., : 2 * size].unbind(1),
            *(part.unbind(1) for part in torch.split(gates, size, dim=-1)),
            from_state.unbind(1),
            strict=True,
        )
        for t, (both, reset, update, new, recurrent) in enumerate(moments):
            multiply(later[t], matrix, recurrent, add=cell.state_bias is not None)
            both.add_(recurrent[..., : 2 * size]).sigmoid_()
            new.addcmul_(reset, recurrent[..., 2 * size :])
            tanh(new, new)
            torch.lerp(new, later[t], update, out=later[t + 1])
        ctx.cell, ctx.saved = cell, (by_time, gates, from_state, states)
        return states[:, 1:].transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, by_states: Tensor) -> Any:
        cell: CellWeights = ctx.cell
        by_time, gates, from_state, states = ctx.saved
        size, arena = cell.hidden, cell.step.arena
        reset, update, new = torch.split(gates, size, dim=-1)
        recurrent = from_state[..., 2 * size :]
        # What one unit of the gradient by a state is worth at each gate; by the third, of the state's own part too.
        by_new = (1 - update) * (1 - new * new)
        of_input = arena.take(gates, *gates.shape)
        torch.mul(by_new * recurrent, reset * (1 - reset), out=of_input[..., :size])
        torch.mul(states[:, :-1] - new, update * (1 - update), out=of_input[..., size : 2 * size])
        of_input[..., 2 * size :].copy_(by_new)
        of_gates = arena.take(gates, *gates.shape)
        of_gates.copy_(of_input)
        of_gates[..., 2 * size :].mul_(reset)
        of_state = torch.zeros_like(states[:, 0])
        moments = zip(
            by_states.transpose(1, 2).unbind(1),
            _gates(of_input, 3).unbind(1),
            _gates(of_gates, 3).unbind(1),
            of_gates.unbind(1),
            update.unbind(1),
            strict=True,
        )
        for arrived, inputs, both, whole, kept in reversed(list(moments)):
            of_state.add_(arrived)
            inputs.mul_(of_state.unsqueeze(2))
            both.mul_(of_state.unsqueeze(2))
            multiply(whole, cell.by_state, of_state.mul_(kept), add=True)
        cell.receive(by_time, states[:, :-1], of_input, of_gates)
        back = cell.inputs_gradient(of_input) if ctx.needs_input_grad[0] else None
        return back, of_state, None, None


class Simple(torch.autograd.Function):
    """A recurrent network with tanh or ReLU: all states `[K, S, T, H]` from inputs and first state."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, state: Tensor, anchor: Tensor, cell: CellWeights, relu: bool) -> Tensor:
        by_time, gates = cell.input_gates(inputs, cell.bias)
        states, matrix = cell.states(inputs, state), cell.turned(cell.by_state)
        later = states.unbind(1)
        for t, gate in enumerate(gates.unbind(1)):
            multiply(later[t], matrix, gate, add=True)
            if relu:
                later[t + 1].copy_(gate.relu_())
            else:
                tanh(gate, later[t + 1])
        ctx.cell, ctx.saved, ctx.relu = cell, (by_time, states), relu
        return states[:, 1:].transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, by_states: Tensor) -> Any:
        cell: CellWeights = ctx.cell
        by_time, states = ctx.saved
        made = states[:, 1:]
        slopes = (made > 0).to(made.dtype) if ctx.relu else 1 - made * made
        of_state = torch.zeros_like(states[:, 0])
        moments = zip(by_states.transpose(1, 2).unbind(1), slopes.unbind(1), strict=True)
        for arrived, slope in reversed(list(moments)):
            slope.mul_(of_state.add_(arrived))
            multiply(slope, cell.by_state, of_state)
        cell.receive(by_time, states[:, :-1], slopes, slopes)
        back = cell.inputs_gradient(slopes) if ctx.needs_input_grad[0] else None
        return back, of_state, None, None, None
