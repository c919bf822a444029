"""Small networks as factories `(input_shape, classes, **options) -> nn.Module`; none has batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

from fedveil.core.checks import count, within
from fedveil.core.errors import FedveilError

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
}


class Rescale(nn.Module):
    """(x − shift)·scale with public constants: centred inputs train faster, and no statistic of the data is used."""

    def __init__(self, shift: float, scale: float) -> None:
        super().__init__()
        self.shift, self.scale = shift, scale

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs - self.shift) * self.scale


def activation_layer(name: str) -> nn.Module:
    if name not in ACTIVATIONS:
        raise FedveilError(f"model.options.activation: {name!r} is not one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]()


def dense_layers(inputs: int, hidden: Sequence[int], classes: int, activation: str, bias: bool) -> list[nn.Module]:
    """Linear layers with activations between them; the last one gives the logits."""
    for width in hidden:
        count("hidden", width)
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width, bias=bias), activation_layer(activation)]
        inputs = width
    return [*layers, nn.Linear(inputs, classes, bias=bias)]


def mlp(
    input_shape: Sequence[int],
    classes: int,
    *,
    hidden: Sequence[int] = (64, 32),
    activation: str = "relu",
    bias: bool = True,
) -> nn.Module:
    """A fully connected network; `hidden=[]` is a linear model."""
    flatten = [nn.Flatten()] if len(input_shape) > 1 else []
    return nn.Sequential(*flatten, *dense_layers(prod(input_shape), hidden, classes, activation, bias))


def cnn(
    input_shape: Sequence[int],
    classes: int,
    *,
    channels: Sequence[int] = (12, 12),
    kernel: int = 5,
    padding: int = 2,
    strides: Sequence[int] = (2, 2),
    pools: Sequence[int] = (1, 1),
    hidden: Sequence[int] = (),
    activation: str = "relu",
    bias: bool = True,
    dropout: float = 0.0,
    centre: bool = False,
) -> nn.Module:
    """Convolutions, each with an activation and (where its pool is above 1) max-pooling, then dense layers.

    `centre` moves pixels from [0, 1] to [−2, 2] first.
    """
    if len(input_shape) != 3:
        raise FedveilError(
            f"model: a convolutional network needs images, but the records have shape {list(input_shape)};"
            " model.name=mlp takes any"
        )
    within("dropout", dropout, 0, 1)
    if not len(channels) == len(strides) == len(pools):
        raise FedveilError("model.options: channels, strides and pools must have the same length")
    layers: list[nn.Module] = [Rescale(0.5, 4.0)] if centre else []
    depth = input_shape[0]
    for width, stride, pool in zip(channels, strides, pools, strict=True):
        layers += [
            nn.Conv2d(depth, width, kernel, stride=stride, padding=padding, bias=bias),
            activation_layer(activation),
        ]
        layers += [nn.MaxPool2d(pool)] if pool > 1 else []
        depth = width
    layers += [nn.Flatten()]
    layers += [nn.Dropout(dropout)] if dropout > 0 else []
    with torch.no_grad():
        features = nn.Sequential(*layers)(torch.zeros(1, *input_shape)).shape[1]
    return nn.Sequential(*layers, *dense_layers(features, hidden, classes, activation, bias))


def fed_cdp_cnn(input_shape: Sequence[int], classes: int, *, kernel: int = 3, dropout: float = 0.0) -> nn.Module:
    """Fed-CDP's image network: two convolutions (32 and 64 channels) with pooling, one dense layer, no biases.

    The authors' code has dropout before the dense layer; it is off unless asked for.
    """
    return cnn(
        input_shape,
        classes,
        channels=(32, 64),
        kernel=kernel,
        padding=kernel // 2,
        strides=(1, 1),
        pools=(2, 2),
        bias=False,
        dropout=dropout,
    )


def leakage_cnn(input_shape: Sequence[int], classes: int) -> nn.Module:
    """The network of the gradient-leakage attacks: four 5×5 convolutions of 12 channels, weights uniform in ±0.5."""
    network = cnn(input_shape, classes, channels=(12,) * 4, strides=(2, 2, 1, 1), pools=(1,) * 4, activation="sigmoid")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.uniform_(-0.5, 0.5)
    return network


def prifedsync_mnist(input_shape: Sequence[int], classes: int) -> nn.Module:
    """PriFedSync's MNIST network: 3×3 convolutions of 32 and 64 channels, pooling, dense 128."""
    return cnn(
        input_shape,
        classes,
        channels=(32, 64),
        kernel=3,
        padding=0,
        strides=(1, 1),
        pools=(1, 2),
        hidden=(128,),
    )


def prifedsync_cifar(input_shape: Sequence[int], classes: int) -> nn.Module:
    """PriFedSync's CIFAR-10 network: 3×3 convolutions of 32, 64 and 64 channels, dense 64."""
    return cnn(
        input_shape,
        classes,
        channels=(32, 64, 64),
        kernel=3,
        padding=0,
        strides=(1, 1, 1),
        pools=(2, 2, 1),
        hidden=(64,),
    )


def geyer_mlp(input_shape: Sequence[int], classes: int) -> nn.Module:
    """Geyer et al.: hidden layers of 600 and 100, no biases."""
    return mlp(input_shape, classes, hidden=(600, 100), bias=False)
