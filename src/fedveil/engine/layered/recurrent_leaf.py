"""Recurrent networks of several layers and both directions, from their cells."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fedveil.engine.layered.dropout_leaf import dropped
from fedveil.engine.layered.held import Held
from fedveil.engine.layered.recurrent_cells import CellWeights, GatedUnits, LongShort, Simple
from fedveil.engine.layered.step import outside


class HeldRecurrent(Held, nn.RNNBase):
    """What `nn.LSTM`, `nn.GRU` and `nn.RNN` have in common: `memories` is how many states a layer hands on."""

    memories = 1

    def run(self, cell: CellWeights, inputs: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """All outputs `[K, S, T, H]` and the states `[K, S, H]` after the last moment."""
        raise NotImplementedError

    def forward(self, input: Any, hx: Any = None) -> Any:
        if not isinstance(input, Tensor):
            raise self.refuse("sequences of different lengths (packed)")
        if input.dim() not in (2, 3) or input.shape[-1] != self.input_size:
            raise self.refuse(f"it takes sequences of {self.input_size} numbers")
        first = () if hx is None else (hx,) if isinstance(hx, Tensor) else tuple(hx)
        alone = input.dim() == 2
        if alone:
            input, first = input.unsqueeze(1), tuple(state.unsqueeze(1) for state in first)
        swap = alone or not self.batch_first
        made, *last = outside(self.step, self._layers, input.transpose(0, 1) if swap else input, *first)
        made = made.transpose(0, 1) if swap else made
        if alone:
            made, last = made.squeeze(1), [state.squeeze(1) for state in last]
        return made, last[0] if self.memories == 1 else tuple(last)

    def _layers(self, inputs: Tensor, *first: Tensor) -> tuple[Tensor, ...]:
        """Outputs `[N, M, T, …]` and last states `[N, layers, M, H]`, for sequences `[N, M, T, E]`."""
        step, (examples, sequences, times, _) = self.step, inputs.shape
        directions = 2 if self.bidirectional else 1
        own = (step.clients, step.slots * sequences)
        if not first:
            zeros = inputs.new_zeros(examples, self.num_layers * directions, sequences, self.hidden_size)
            first = (zeros,) * self.memories
        values, last = inputs.reshape(*own, times, -1), []
        for layer in range(self.num_layers):
            if layer and self.dropout > 0 and self.training:
                whole = values.reshape(examples, sequences, times, -1)
                values = dropped(step, whole, self.dropout).reshape(*own, times, -1)
            made = []
            for direction in range(directions):
                index = layer * directions + direction
                states = [state[:, index].reshape(*own, -1) for state in first]
                cell = CellWeights(self, f"l{layer}" + ("_reverse" if direction else ""))
                outputs, after = self.run(cell, values.flip(2) if direction else values, states)
                made.append(outputs.flip(2) if direction else outputs)
                last.append(after)
            values = torch.cat(made, dim=-1) if directions > 1 else made[0]
        shape = (examples, sequences, -1)
        finals = (torch.stack([after[each].reshape(shape) for after in last], 1) for each in range(self.memories))
        return values.reshape(examples, sequences, times, -1), *finals


class HeldLstm(HeldRecurrent, nn.LSTM):
    memories = 2

    def run(self, cell: CellWeights, inputs: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        outputs, memory = LongShort.apply(inputs, *states, self.step.anchor, cell)  # type: ignore[no-untyped-call]
        return outputs, [outputs[:, :, -1], memory]


class HeldGru(HeldRecurrent, nn.GRU):
    def run(self, cell: CellWeights, inputs: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        outputs = GatedUnits.apply(inputs, *states, self.step.anchor, cell)  # type: ignore[no-untyped-call]
        return outputs, [outputs[:, :, -1]]


class HeldRnn(HeldRecurrent, nn.RNN):
    def run(self, cell: CellWeights, inputs: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        relu = self.nonlinearity == "relu"
        outputs = Simple.apply(inputs, *states, self.step.anchor, cell, relu)  # type: ignore[no-untyped-call]
        return outputs, [outputs[:, :, -1]]
