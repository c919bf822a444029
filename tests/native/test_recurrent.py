"""An LSTM's moments, forwards and back, against PyTorch's own, on every width of vectors and without kernels."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedveil.native import recurrent
from fedveil.native.calls import VECTOR_WIDTHS
from fedveil.native.recurrent import ROOM_PARTS, remember, remember_back

WIDTHS = [0, *VECTOR_WIDTHS]
sizes = st.integers(1, 5)


def lstm(inputs: Tensor, state: Tensor, memory: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All states `[K, T, S, H]`, and the last state and memory, from what comes in at the gates."""
    states = []
    for moment in inputs.unbind(1):
        enter, keep, new, leave = (moment + state @ weights.mT).chunk(4, dim=-1)
        memory = keep.sigmoid() * memory + enter.sigmoid() * new.tanh()
        state = leave.sigmoid() * memory.tanh()
        states.append(state)
    return torch.stack(states, dim=1), state, memory


def room_of(gates: Tensor, state: Tensor, memory: Tensor) -> Tensor:
    count, times, sequences, width = gates.shape
    room = torch.full((count, ROOM_PARTS, times + 1, sequences, width // 4), float("nan"))
    room[:, 0, 0], room[:, 1, 0] = state, memory
    return room


@pytest.mark.parametrize("lanes", WIDTHS)
@given(sizes, sizes, sizes, st.integers(1, 40), st.sampled_from([0.1, 1.0, 20.0]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_states_and_derivatives_are_those_of_autograd(
    lanes: int, count: int, times: int, sequences: int, hidden: int, large: float, apart: bool
) -> None:
    generator = torch.Generator().manual_seed(hidden)
    inputs = large * torch.randn(count, times, sequences, 4 * hidden, generator=generator)
    state, memory = torch.randn(2, count, sequences, hidden, generator=generator)
    parameters = torch.randn(count, 4 * hidden * hidden + apart, generator=generator) / hidden**0.5
    weights = parameters[:, : 4 * hidden * hidden].view(count, 4 * hidden, hidden)
    arrived = torch.randn(count, times, sequences, hidden, generator=generator)
    by_last = torch.randn(2, count, sequences, hidden, generator=generator)

    leaves = [each.double().requires_grad_() for each in (inputs, state, memory)]
    states, last, held = lstm(*leaves, weights.double())
    worth = (states * arrived).sum() + (last * by_last[0]).sum() + (held * by_last[1]).sum()
    expected = torch.autograd.grad(worth, leaves)

    gates, room, slopes = inputs.clone(), room_of(inputs, state, memory), torch.full_like(inputs, float("nan"))
    ends = by_last.transpose(0, 1).contiguous()
    with patch.object(recurrent, "VECTOR_WIDTHS", (lanes,) if lanes else ()):
        remember(gates, weights.mT.contiguous(), room)
        remember_back(gates, room, arrived, weights, slopes, ends)
    assert torch.allclose(room[:, 0, 1:].double(), states, rtol=0, atol=1e-5)
    assert torch.allclose(room[:, 1, -1].double(), held, rtol=1e-5, atol=1e-5)
    for made, wanted in zip((slopes, ends[:, 0], ends[:, 1]), expected, strict=True):
        assert torch.allclose(made.double(), wanted, rtol=0, atol=2e-5 * max(float(wanted.abs().max()), 1.0))


@pytest.mark.parametrize("lanes", WIDTHS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_stays_in_its_own_sequence(lanes: int, bad: float) -> None:
    inputs, zeros = torch.zeros(1, 2, 3, 4 * 5), torch.zeros(1, 3, 5)
    inputs[0, 0, 1, 12] = bad  # a gate of what is new
    gates, room = inputs.clone(), room_of(inputs, zeros, zeros)
    with patch.object(recurrent, "VECTOR_WIDTHS", (lanes,) if lanes else ()):
        remember(gates, torch.eye(5).repeat(1, 4).unsqueeze(0), room)
    states, _, _ = lstm(inputs.double(), zeros.double(), zeros.double(), torch.eye(5).repeat(4, 1).double())
    assert torch.allclose(room[:, 0, 1:].double(), states, atol=1e-6, equal_nan=True)
    assert bool(room[0, 0, 1:, [0, 2]].isfinite().all())


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
def test_a_client_has_the_same_bits_in_any_company(lanes: int) -> None:
    inputs, (state, memory), weights = torch.randn(4, 3, 6, 36), torch.randn(2, 4, 6, 9), torch.randn(4, 9, 36)
    rooms = []
    with patch.object(recurrent, "VECTOR_WIDTHS", (lanes,)):
        for own in (slice(0, 4), slice(2, 3)):
            rooms.append(room_of(inputs[own], state[own], memory[own]))
            remember(inputs[own].clone(), weights[own].contiguous(), rooms[-1])
    assert torch.equal(rooms[0][2:3, 0], rooms[1][:, 0])


MEMORY = {
    "gates": (2, 3, 4, 20),
    "matrix": (2, 5, 20),
    "room": (2, ROOM_PARTS, 4, 4, 5),
    "arrived": (2, 3, 4, 5),
    "weights": (2, 20, 5),
    "slopes": (2, 3, 4, 20),
    "ends": (2, 2, 4, 5),
}


def memory_but(wrong: str, *names: str) -> list[Tensor]:
    """Memory of these names that fits, but for one."""
    return [torch.zeros(MEMORY[name])[:, name == wrong :] for name in names]


@pytest.mark.parametrize("wrong", ["matrix", "room"])
def test_memory_that_does_not_fit_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is needed"):
        remember(*memory_but(wrong, "gates", "matrix", "room"))


@pytest.mark.parametrize("wrong", ["room", "arrived", "weights", "slopes", "ends"])
def test_memory_that_does_not_fit_on_the_way_back_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is needed"):
        remember_back(*memory_but(wrong, "gates", "room", "arrived", "weights", "slopes", "ends"))
