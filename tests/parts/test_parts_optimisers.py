"""Our optimisers make the steps that torch's own make."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.parts.optimisers import AdaGrad, Adam, Momentum, Optimiser, Sgd

Torch = Callable[[list[Tensor], float], torch.optim.Optimizer]

PAIRS: dict[str, tuple[Optimiser, Torch]] = {
    "sgd": (Sgd(), lambda p, lr: torch.optim.SGD(p, lr)),
    "momentum": (Momentum(), lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)),
    "other momentum": (Momentum(0.5), lambda p, lr: torch.optim.SGD(p, lr, momentum=0.5)),
    "no momentum": (Momentum(0.0), lambda p, lr: torch.optim.SGD(p, lr)),
    "adam": (Adam(), lambda p, lr: torch.optim.Adam(p, lr)),
    "other adam": (Adam(0.5, 0.9, 1e-3), lambda p, lr: torch.optim.Adam(p, lr, betas=(0.5, 0.9), eps=1e-3)),
    "adagrad": (AdaGrad(), lambda p, lr: torch.optim.Adagrad(p, lr)),
    "other adagrad": (AdaGrad(1e-2), lambda p, lr: torch.optim.Adagrad(p, lr, eps=1e-2)),
}


def gradients(steps: int, shape: tuple[int, ...], scale: float = 1.0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [scale * torch.randn(shape, generator=generator) for _ in range(steps)]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 100.0])
def test_many_steps_agree_with_torch(name: str, scale: float) -> None:
    ours, theirs = PAIRS[name]
    start = torch.linspace(-1, 1, 30)
    reference = start.clone().requires_grad_()
    optimiser = theirs([reference], 0.01)
    parameters, state = start.clone(), ours.initial(start)
    for step, gradient in enumerate(gradients(25, (30,), scale)):
        reference.grad = gradient.clone()
        optimiser.step()
        parameters, state = ours.apply(parameters, gradient, state, 0.01, step)
        torch.testing.assert_close(parameters, reference.detach(), rtol=1e-6, atol=1e-6 * max(scale, 1.0))


@pytest.mark.parametrize("name", PAIRS)
def test_a_changing_rate_agrees_with_torch(name: str) -> None:
    ours, theirs = PAIRS[name]
    start = torch.linspace(-1, 1, 12)
    reference = start.clone().requires_grad_()
    optimiser = theirs([reference], 1.0)
    parameters, state = start.clone(), ours.initial(start)
    for step, gradient in enumerate(gradients(8, (12,))):
        rate = 0.05 * 0.7**step
        optimiser.param_groups[0]["lr"] = rate
        reference.grad = gradient.clone()
        optimiser.step()
        parameters, state = ours.apply(parameters, gradient, state, rate, step)
    torch.testing.assert_close(parameters, reference.detach(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", PAIRS)
def test_clients_side_by_side_step_as_each_would_alone(name: str) -> None:
    ours, _ = PAIRS[name]
    start = torch.linspace(-1, 1, 10).expand(4, -1)
    together, state = start, ours.initial(start)
    alone = [(start[k], ours.initial(start[k])) for k in range(4)]
    for step, gradient in enumerate(gradients(6, (4, 10))):
        together, state = ours.apply(together, gradient, state, 0.1, step)
        alone = [ours.apply(p, gradient[k], s, 0.1, step) for k, (p, s) in enumerate(alone)]
    torch.testing.assert_close(together, torch.stack([p for p, _ in alone]), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", PAIRS)
def test_a_step_leaves_its_arguments_alone(name: str) -> None:
    ours, _ = PAIRS[name]
    parameters, gradient = torch.ones(5), torch.full((5,), 2.0)
    state = ours.initial(parameters)
    _, after = ours.apply(parameters, gradient, state, 0.1, 0)
    assert torch.equal(parameters, torch.ones(5))
    assert torch.equal(gradient, torch.full((5,), 2.0))
    assert all(not tensor.any() for tensor in state)
    assert len(after) == len(state)


@pytest.mark.parametrize("name", PAIRS)
def test_state_has_the_shape_of_the_parameters(name: str) -> None:
    ours, _ = PAIRS[name]
    assert all(tensor.shape == (3, 4) for tensor in ours.initial(torch.zeros(3, 4)))


def test_the_first_step_of_adam_is_the_rate_to_single_precision() -> None:
    gradient = torch.tensor([1.0, -3.0, 100.0])
    after, _ = Adam().apply(torch.zeros(3), gradient, Adam().initial(gradient), 1.0, 0)
    torch.testing.assert_close(after, -gradient.sign(), rtol=1e-6, atol=0)


def test_a_zero_gradient_moves_nothing_at_first() -> None:
    for ours, _ in PAIRS.values():
        parameters, _ = ours.apply(torch.ones(3), torch.zeros(3), ours.initial(torch.ones(3)), 0.1, 0)
        assert torch.equal(parameters, torch.ones(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Momentum(1.0),
        lambda: Momentum(-0.1),
        lambda: Momentum(float("nan")),
        lambda: Adam(beta1=1.0),
        lambda: Adam(beta2=1.0),
        lambda: Adam(epsilon=0.0),
        lambda: AdaGrad(epsilon=-1.0),
    ],
)
def test_fields_out_of_range_are_refused(make: Callable[[], Optimiser]) -> None:
    with pytest.raises(FedveilError, match="must be"):
        make()
