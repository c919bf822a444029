"""Plain training without a gradient for every example: the same sums, and the same examples rejected."""

from __future__ import annotations

import pytest
import torch
from layered_networks import CASES, CLASSES, Case
from torch import Tensor, nn

from fedveil.engine.general import General
from fedveil.engine.gradients import Batch
from fedveil.engine.plain import Plain
from fedveil.engine.whole_batches import WholeBatches

NAMES = ["convolution, padded", "group norm", "LSTM {'batch_first': True}", "transformer layer", "tied weights"]


def batch_for(case: Case) -> Batch:
    generator = torch.Generator().manual_seed(1)
    shape = (3, 4, *case.shape)
    inputs = torch.randint(0, case.words, shape) if case.words else torch.randn(shape, generator=generator)
    return Batch(inputs, torch.randint(0, CLASSES, (3, 4), generator=generator), torch.ones(3, 4))


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_plain_sums_are_those_of_single_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    model = case.make()
    general, plain, batch = General(model), Plain(model), batch_for(case)
    batch.weights[1, 2] = 0.0
    parameters = general.layout.vector(model) + 0.1 * torch.randn(3, general.layout.size)
    expected = plain.sums(parameters, batch, None)
    monkeypatch.setattr(General, "rows", None)  # no example's own gradient is asked for
    made = general.sums(parameters, batch, None)
    torch.testing.assert_close(made.total, expected.total, rtol=1e-5, atol=1e-5 * float(expected.total.abs().max()))
    torch.testing.assert_close(made.losses, expected.losses)
    assert made.rejected.tolist() == [0, 0, 0]


@torch.no_grad()
def test_an_example_that_is_not_finite_is_left_out_and_counted() -> None:
    case = CASES["group norm"]
    model = case.make()
    general, plain, batch = General(model), Plain(model), batch_for(case)
    parameters = general.layout.vector(model).expand(3, -1).contiguous()
    batch.inputs[1, 2] = float("nan")
    made, expected = general.sums(parameters, batch, None), plain.sums(parameters, batch, None)
    assert made.rejected.tolist() == expected.rejected.tolist() == [0, 1, 0]
    torch.testing.assert_close(made.total, expected.total, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(made.losses, expected.losses)


class Meeting(nn.Module):
    """Examples meet, though only when it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(5, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.dense(inputs - inputs.mean(0) / 2) if self.training else self.dense(inputs)


@torch.no_grad()
def test_where_examples_would_meet_they_are_computed_one_by_one() -> None:
    model = Meeting()
    general, plain = General(model), Plain(model)
    batch = batch_for(Case(Meeting, (5,)))
    parameters = general.layout.vector(model).expand(3, -1).contiguous()
    made, expected = general.sums(parameters, batch, None), plain.sums(parameters, batch, None)
    torch.testing.assert_close(made.total, expected.total, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_one_try_in_which_rounding_goes_over_a_bend_does_not_cost_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["group norm"]
    model = case.make()
    general, batch = General(model), batch_for(case)
    tried, right = [], WholeBatches._tried

    def first_differs(self: WholeBatches, parameters: Tensor, batch: Batch, number: int) -> bool:
        tried.append(number)
        return number > 0 and right(self, parameters, batch, number)

    monkeypatch.setattr(WholeBatches, "_tried", first_differs)
    monkeypatch.setattr(General, "rows", None)
    parameters = general.layout.vector(model).expand(3, -1).contiguous()
    assert torch.isfinite(general.sums(parameters, batch, None).total).all()
    assert tried == [0, 1]
