"""The fast differentiable gradients are the reference's, and so are their slopes."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from fedveil.attacks.inversion.differentiable import Differentiable, differentiable
from fedveil.engine.general import General
from fedveil.engine.gradients import Batch, Gradients
from fedveil.engine.plain import Plain
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.schedules import Constant
from fedveil.models.registry import build

NETWORKS = {
    "leakage": (lambda: build("leakage-cnn", (3, 9, 8), 5, seed=1), (3, 9, 8)),
    "strides, no bias": (
        lambda: build(
            "cnn", (2, 8, 8), 5, {"activation": "tanh", "bias": False, "hidden": [6], "centre": True}, seed=1
        ),
        (2, 8, 8),
    ),
    "dense": (lambda: build("mlp", (7,), 5, {"hidden": [6], "activation": "sigmoid"}, seed=1), (7,)),
    "relu": (lambda: build("mlp", (7,), 5, {"hidden": [6]}, seed=1), (7,)),
}


def make_batch(shape: tuple[int, ...], soft: bool = False) -> Batch:
    generator = torch.Generator().manual_seed(2)
    labels = torch.randint(0, 5, (3, 2), generator=generator)
    if soft:
        labels = torch.softmax(torch.randn(3, 2, 5, generator=generator), dim=-1)
    weights = torch.ones(3, 2)
    weights[1, 1] = 0
    return Batch(torch.rand(3, 2, *shape, generator=generator), labels, weights)


def slope(gradients: Gradients, start: Tensor, batch: Batch, clip: Clip | None = None) -> Tensor:
    leaf = batch.inputs.clone().requires_grad_(True)
    factors = None if clip is None else partial(clip.factors, bound=0.05)
    total = gradients.sums(start, Batch(leaf, batch.labels, batch.weights), factors).total
    weights = torch.linspace(-1, 1, total.numel()).view_as(total)
    (found,) = torch.autograd.grad((weights * total).sum() + total.square().sum(), leaf)
    return found


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("clip", [None, Clip(Constant(0.05), by="layer")])
def test_gradients_and_slopes_are_those_of_the_other_implementations(name: str, clip: Clip | None) -> None:
    make, shape = NETWORKS[name]
    model, batch = make(), make_batch(shape)
    fast = differentiable(model, shape)
    assert isinstance(fast, Differentiable)
    start = fast.layout.vector(model).expand(3, -1)
    factors = None if clip is None else partial(clip.factors, bound=0.05)
    ours, plain = fast.sums(start, batch, factors), Plain(model).sums(start, batch, factors)
    assert torch.allclose(ours.total, plain.total, rtol=1e-4, atol=1e-5)
    assert torch.allclose(ours.losses, plain.losses, rtol=1e-4)
    assert torch.allclose(fast.rows(start, batch).rows, Plain(model).rows(start, batch).rows, rtol=1e-4, atol=1e-5)
    reference = slope(General(model), start, batch, clip)
    assert torch.allclose(
        slope(fast, start, batch, clip), reference, rtol=1e-3, atol=1e-3 * float(reference.abs().max())
    )


def test_soft_labels_are_taken_as_they_are() -> None:
    make, shape = NETWORKS["leakage"]
    model, batch = make(), make_batch(shape, soft=True)
    fast, start = differentiable(model, shape), General(model).layout.vector(model).expand(3, -1)
    assert torch.allclose(
        fast.sums(start, batch, None).total, General(model).sums(start, batch, None).total, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_slopes_of_records_labels_and_own_parameters_are_those_of_autograd(name: str) -> None:
    make, shape = NETWORKS[name]
    model, batch = make(), make_batch(shape, soft=True)
    fast, general = differentiable(model, shape), General(model)
    noise = torch.randn(3, fast.layout.size, generator=torch.Generator().manual_seed(3))
    own = fast.layout.vector(model) + 0.1 * noise

    def slopes(gradients: Gradients, clip: Clip | None) -> tuple[Tensor, ...]:
        leaves = [part.clone().requires_grad_(True) for part in (batch.inputs, batch.labels, own)]
        factors = None if clip is None else partial(clip.factors, bound=0.05)
        # Distributions over classes sum to one: what their slope is in other directions, nobody asks.
        labels = leaves[1] - leaves[1].mean(dim=-1, keepdim=True) + 1 / leaves[1].shape[-1]
        total = gradients.sums(leaves[2], Batch(leaves[0], labels, batch.weights), factors).total
        weights = torch.linspace(-1, 1, total.numel()).view_as(total)
        return torch.autograd.grad((weights * total).sum() + total.square().sum(), leaves)

    for clip in (None, Clip(Constant(0.05), by="layer")):
        for ours, reference in zip(slopes(fast, clip), slopes(general, clip), strict=True):
            assert torch.allclose(ours, reference, rtol=1e-3, atol=1e-3 * float(reference.abs().max()))


def test_clients_with_models_of_their_own_are_computed_too() -> None:
    make, shape = NETWORKS["leakage"]
    model, batch = make(), make_batch(shape)
    fast = differentiable(model, shape)
    own = fast.layout.vector(model) + 0.1 * torch.randn(3, fast.layout.size, generator=torch.Generator().manual_seed(3))
    assert torch.allclose(fast.sums(own, batch, None).total, Plain(model).sums(own, batch, None).total, atol=1e-5)
    assert torch.allclose(fast.rows(own, batch).rows, Plain(model).rows(own, batch).rows, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_every_window_gives_the_slopes_of_autograd(size: int, stride: int, padding: int) -> None:
    torch.manual_seed(0)
    window = nn.Conv2d(2, 3, (size, 3), stride=(stride, 2), padding=(padding, 1))
    places = window(torch.zeros(1, 2, 9, 10)).numel()
    model = nn.Sequential(nn.Tanh(), window, nn.Sigmoid(), nn.Flatten(), nn.Linear(places, 5))
    shape = (2, 9, 10)
    batch = make_batch(shape)
    start = differentiable(model, shape).layout.vector(model).expand(3, -1)
    reference = slope(General(model), start, batch)
    ours = slope(differentiable(model, shape), start, batch)
    assert torch.allclose(ours, reference, rtol=1e-3, atol=1e-4 * float(reference.abs().max()))


def test_layers_it_does_not_know_go_to_the_general_implementation() -> None:
    assert isinstance(differentiable(build("fed-cdp-cnn", (1, 8, 8), 4, seed=0), (1, 8, 8)), General)
    assert isinstance(differentiable(nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), (3,)), General)


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


class Skipping(nn.Sequential):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + input


def twice_the_same_activation() -> nn.Module:
    bend = nn.Sigmoid()
    return nn.Sequential(nn.Linear(7, 6), bend, nn.Linear(6, 5), bend)


def twice_the_same_weights() -> nn.Module:
    dense = nn.Linear(5, 5)
    return nn.Sequential(nn.Linear(7, 5), dense, nn.Tanh(), dense)


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(7, 5))
    model[0].register_forward_hook(lambda module, inputs, output: 3 * output)
    return model


def parametrised() -> nn.Module:
    return nn.Sequential(nn.utils.parametrize.register_parametrization(nn.Linear(7, 5), "weight", nn.Tanh()))


SURPRISES = {
    "an activation used twice": (twice_the_same_activation, (7,)),
    "weights used twice": (twice_the_same_weights, (7,)),
    "a layer of another class": (lambda: nn.Sequential(Doubled(7, 5)), (7,)),
    "a row of another class": (lambda: Skipping(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 5)), (5,)),
    "rows in rows": (lambda: nn.Sequential(nn.Sequential(nn.Linear(7, 6), nn.Tanh()), nn.Linear(6, 5)), (7,)),
    "a hook": (hooked, (7,)),
    "weights made from others": (parametrised, (7,)),
    "a dense layer over pictures": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.Linear(6, 6), nn.Flatten(), nn.Linear(108, 5)),
        (2, 8, 8),
    ),
    "a lone layer": (lambda: nn.Linear(7, 5), (7,)),
}


@pytest.mark.parametrize("name", SURPRISES)
def test_the_attacked_network_is_the_trained_one_however_it_is_made(name: str) -> None:
    make, shape = SURPRISES[name]
    torch.manual_seed(0)
    model, batch = make(), make_batch(shape)
    general = General(model)
    start = general.layout.vector(model).expand(3, -1)
    ours, reference = (one.sums(start, batch, None).total for one in (differentiable(model, shape), general))
    assert torch.allclose(ours, reference, rtol=1e-4, atol=1e-5)
    assert torch.allclose(ours, Plain(model).sums(start, batch, None).total, rtol=1e-4, atol=1e-5)
