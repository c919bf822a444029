"""Kernels that are recorded and then run for a few clients at a time."""

from __future__ import annotations

import pytest
import torch

from fedveil.native.calls import VECTOR_WIDTHS, Lasting, NotRecorded, Program, recorded
from fedveil.native.small_layers import ConvolutionShape

pytestmark = pytest.mark.skipif(not VECTOR_WIDTHS, reason="no compiler, or a processor without AVX2")

SLOTS, INPUTS, OUTPUTS = 2, 5, 3
SIZE = INPUTS * OUTPUTS


def recorded_layers(clients: int, together: int, lanes: int) -> tuple[Program, torch.Tensor]:
    """A dense layer and a ReLU behind it, whose outputs last."""
    examples = (together, SLOTS)
    dense = ConvolutionShape.dense_layer(examples, SIZE, 0, -1, (INPUTS, OUTPUTS))
    relu = ConvolutionShape.numbers(examples, OUTPUTS)
    parameters, inputs = torch.empty(together, SIZE), torch.empty(together, SLOTS, INPUTS)
    outputs, bent = torch.empty(together, SLOTS, OUTPUTS), torch.empty(together, SLOTS, OUTPUTS)
    with recorded() as calls:
        dense.dense(parameters, inputs, outputs, lanes)
        relu.bend(outputs, outputs, bent, lanes)
    lasting = Lasting(clients, together)
    kept = lasting.keep(bent)
    return Program(calls, (parameters, inputs), lasting), kept


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
@pytest.mark.parametrize(("clients", "together"), [(1, 1), (5, 1), (5, 2), (6, 3), (4, 7)])
def test_a_program_gives_what_its_calls_give(clients: int, together: int, lanes: int) -> None:
    program, kept = recorded_layers(clients, together, lanes)
    for _ in range(2):  # the second time on other memory
        parameters, inputs = torch.randn(clients, SIZE), torch.randn(clients, SLOTS, INPUTS)
        program.run(clients, parameters, inputs)
        expected = (inputs @ parameters.view(clients, OUTPUTS, INPUTS).mT).relu()
        torch.testing.assert_close(kept, expected)


def test_nothing_is_run_while_it_is_recorded() -> None:
    values = torch.full((1, SLOTS, OUTPUTS), -3.0)
    with recorded() as calls:
        ConvolutionShape.numbers((1, SLOTS), OUTPUTS).bend(values, values, values, VECTOR_WIDTHS[0])
    assert len(calls) == 1
    assert bool((values == -3).all())


def test_what_is_computed_elsewhere_is_not_recorded() -> None:
    values = torch.ones(3, 2)
    with recorded():
        values.view(6).unsqueeze(0)[:, 1:]  # only another look at the same numbers
    computations = [lambda: values + 1, lambda: values.mT.contiguous(), values.zero_, lambda: bool(values[0, 0])]
    for compute in computations:
        with pytest.raises(NotRecorded), recorded():
            compute()
    assert torch.equal(values + 1, torch.full((3, 2), 2.0))


@pytest.mark.parametrize(
    "wrong",
    [torch.zeros(4, SLOTS, INPUTS), torch.zeros(5, SLOTS, INPUTS).double(), torch.zeros(INPUTS, SLOTS, 5).mT],
    ids=["too few", "another kind", "not contiguous"],
)
def test_memory_that_does_not_fit_is_refused_before_it_is_touched(wrong: torch.Tensor) -> None:
    program, _ = recorded_layers(5, 2, VECTOR_WIDTHS[0])
    with pytest.raises(ValueError, match="does not fit"):
        program.run(5, torch.zeros(5, SIZE), wrong)
