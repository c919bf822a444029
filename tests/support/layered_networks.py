"""Networks of the kinds people bring, small, with the shape of a record and how many words there are (0: numbers)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 3


class Written(nn.Module):
    """A network whose forward is a function of its parts."""

    def __init__(self, run: Callable[[Any, Tensor], Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.run = run
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.run(self, inputs)


@dataclass(frozen=True)
class Case:
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    words: int = 0


def pictures(**options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        return Written(
            lambda net, x: net.head(net.two(net.one(x).relu()).tanh().mean((2, 3))),
            one=nn.Conv2d(2, 4, 3, **options),
            two=nn.Conv2d(4, 6, 3, **options),
            head=nn.Linear(6, CLASSES),
        )

    return make


def normed(norm: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        return Written(
            lambda net, x: net.head(net.norm(functional.silu(net.body(x))).square().mean((2, 3))),
            body=nn.Conv2d(2, 4, 3, bias=False),
            norm=norm(),
            head=nn.Linear(4, CLASSES),
        )

    return make


def recurrent(kind: type[nn.RNNBase], **options: Any) -> Callable[[], nn.Module]:
    def run(net: Any, x: Tensor) -> Tensor:
        first = net.body.batch_first
        states, last = net.body(x if first else x.transpose(0, 1))
        last = last[1] if isinstance(last, tuple) else last
        return net.head(states.mean(1 if first else 0)) + net.tail(last[-1])  # type: ignore[no-any-return]

    def make() -> nn.Module:
        width = 12 if options.get("bidirectional") else 6
        body = kind(5, 6, **options)  # type: ignore[call-arg, arg-type]
        return Written(run, body=body, head=nn.Linear(width, CLASSES), tail=nn.Linear(6, CLASSES))

    return make


def over_time(**parts: Callable[[], nn.Module]) -> Callable[[Callable[[Any, Tensor], Tensor]], Callable[[], nn.Module]]:
    return lambda run: lambda: Written(run, **{name: make() for name, make in parts.items()})


def head(width: int) -> Callable[[], nn.Module]:
    return lambda: nn.Linear(width, CLASSES)


def tied() -> nn.Module:
    net = Written(
        lambda net, x: net.head(net.out(net.words(x).tanh()).mean(1)),
        words=nn.Embedding(9, 5),
        out=nn.Linear(5, 9, bias=False),
        head=nn.Linear(9, CLASSES),
    )
    net.out.weight = net.words.weight
    return net


def frozen_body(make: Callable[[], nn.Module], name: str) -> Callable[[], nn.Module]:
    def frozen() -> nn.Module:
        net = make()
        for path, parameter in net.named_parameters():
            parameter.requires_grad_(not path.startswith(name))
        return net

    return frozen


class Loose(nn.Module):
    """Parameters that sit in no known part."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))
        self.dense, self.bend = nn.Linear(5, CLASSES), nn.PReLU()

    def forward(self, inputs: Tensor) -> Tensor:
        values = inputs.to(next(self.parameters()).device) * self.scale
        return self.bend(self.dense(values)) * self.dense.weight.shape[0]  # type: ignore[no-any-return]


class FirstState(nn.Module):
    """A recurrent part that begins with what another part made."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.gated = nn.Linear(5, 6), nn.GRU(5, 6, batch_first=True)
        self.long, self.head = nn.LSTM(5, 6, batch_first=True), nn.Linear(6, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        state = self.start(inputs[:, 0]).unsqueeze(0)
        zeros = torch.zeros(1, inputs.shape[0], 6)
        return self.head(self.gated(inputs, state)[0][:, -1] + self.long(inputs, (state, zeros))[0].mean(1))  # type: ignore[no-any-return]


def attention(**options: Any) -> nn.Module:
    return nn.MultiheadAttention(8, 2, **options)


SEQUENCE = (6, 8)
mean_of_layer = over_time(layer=lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), head=head(8))
of_two = over_time(one=lambda: nn.Linear(5, 5), two=head(5))
causal = nn.Transformer.generate_square_subsequent_mask(6)

CASES: dict[str, Case] = {
    "linear over features": Case(lambda: nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, CLASSES)), (5,)),
    "linear over time": Case(of_two(lambda net, x: net.two(net.one(x).relu().mean(1))), (6, 5)),
    "wide linear over time": Case(
        over_time(one=lambda: nn.Linear(60, 70, bias=False), two=head(70))(
            lambda net, x: net.two(net.one(x).relu().mean(1))
        ),
        (2, 60),
    ),
    "convolution": Case(pictures(), (2, 9, 9)),
    "convolution, padded": Case(pictures(padding=1), (2, 9, 8)),
    "convolution, wide padding": Case(pictures(padding=3), (2, 5, 5)),
    "convolution, strided": Case(pictures(stride=2, padding=1), (2, 9, 8)),
    "convolution, dilated": Case(pictures(dilation=2), (2, 9, 9)),
    "convolution, same": Case(pictures(padding="same"), (2, 6, 5)),
    "convolution, circular": Case(pictures(padding=1, padding_mode="circular"), (2, 6, 5)),
    "convolution, no bias": Case(pictures(bias=False), (2, 7, 7)),
    "convolution, groups": Case(pictures(groups=2), (2, 7, 7)),
    "convolution, large": Case(
        over_time(one=lambda: nn.Conv2d(2, 40, 3), two=lambda: nn.Conv2d(40, 60, 2), head=head(60))(
            lambda net, x: net.head(net.two(net.one(x).relu()).tanh().mean((2, 3)))
        ),
        (2, 4, 4),
    ),
    "convolution, flattened by view": Case(
        over_time(one=lambda: nn.Conv2d(1, 4, 3), head=head(144))(
            lambda net, x: net.head(net.one(x).relu().view(x.shape[0], -1))
        ),
        (1, 8, 8),
    ),
    "convolution of lines": Case(
        over_time(one=lambda: nn.Conv1d(2, 4, 3, padding=1), two=lambda: nn.Conv1d(4, 6, 3, stride=2), head=head(6))(
            lambda net, x: net.head(net.two(net.one(x).relu()).tanh().mean(2))
        ),
        (2, 9),
    ),
    "group norm": Case(normed(lambda: nn.GroupNorm(2, 4)), (2, 6, 6)),
    "instance norm": Case(normed(lambda: nn.InstanceNorm2d(4, affine=True)), (2, 6, 6)),
    "instance norm of lines": Case(
        over_time(
            one=lambda: nn.Conv1d(2, 4, 3, bias=False), norm=lambda: nn.InstanceNorm1d(4, affine=True), head=head(4)
        )(lambda net, x: net.head(net.norm(net.one(x)).square().mean(2))),
        (2, 8),
    ),
    "group norm first": Case(
        over_time(norm=lambda: nn.GroupNorm(2, 4), head=head(16))(lambda net, x: net.head(net.norm(x).flatten(1))),
        (4, 2, 2),
    ),
    "layer norm": Case(
        over_time(one=lambda: nn.Linear(5, 7), norm=lambda: nn.LayerNorm(7), head=head(7))(
            lambda net, x: net.head(net.norm(net.one(x)).relu().mean(1))
        ),
        (6, 5),
    ),
    "layer norm over two axes": Case(
        over_time(one=lambda: nn.Linear(5, 7), norm=lambda: nn.LayerNorm((6, 7), bias=False), head=head(7))(
            lambda net, x: net.head(net.norm(net.one(x)).relu().mean(1))
        ),
        (6, 5),
    ),
    "embedding of words and places": Case(
        over_time(words=lambda: nn.Embedding(9, 5, padding_idx=2), places=lambda: nn.Embedding(6, 5), head=head(5))(
            lambda net, x: net.head((net.words(x) + net.places(torch.arange(6))).tanh().mean(1))
        ),
        (6,),
        9,
    ),
    **{
        f"{kind.__name__} {options}": Case(recurrent(kind, **options), (4, 5))
        for kind in (nn.LSTM, nn.GRU, nn.RNN)
        for options in (
            {"batch_first": True},
            {"bias": False},
            {"num_layers": 2, "bidirectional": True, "batch_first": True},
        )
    },
    "RNN with ReLU": Case(recurrent(nn.RNN, nonlinearity="relu"), (4, 5)),
    "recurrent with a first state": Case(FirstState, (4, 5)),
    "attention": Case(
        over_time(look=lambda: attention(batch_first=True), head=head(8))(
            lambda net, x: net.head(net.look(x, x, x)[0].mean(1))
        ),
        SEQUENCE,
    ),
    "attention to others": Case(
        over_time(look=lambda: attention(batch_first=True), head=head(8))(
            lambda net, x: net.head(net.look(x[:, :3], x, 2 * x)[0].mean(1))
        ),
        SEQUENCE,
    ),
    "attention, time first, masked": Case(
        over_time(look=lambda: attention(bias=False), head=head(8))(
            lambda net, x: net.head(net.look(*(x.transpose(0, 1),) * 3, attn_mask=causal)[0].mean(0))
        ),
        SEQUENCE,
    ),
    "attention of another width": Case(
        over_time(look=lambda: attention(batch_first=True, kdim=4, vdim=4), head=head(8))(
            lambda net, x: net.head(net.look(x, x[..., :4], x[..., 4:])[0].mean(1))
        ),
        SEQUENCE,
    ),
    "transformer layer": Case(mean_of_layer(lambda net, x: net.head(net.layer(x).mean(1))), SEQUENCE),
    "transformer layer, norm first": Case(
        over_time(
            layer=lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True),
            head=head(8),
        )(lambda net, x: net.head(net.layer(x).mean(1))),
        SEQUENCE,
    ),
    "transformer decoder layer": Case(
        over_time(layer=lambda: nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True), head=head(8))(
            lambda net, x: net.head(net.layer(x, x / 2).mean(1))
        ),
        SEQUENCE,
    ),
    "a part called twice": Case(of_two(lambda net, x: net.two(net.one(net.one(x).relu()))), (5,)),
    "a layer called twice": Case(mean_of_layer(lambda net, x: net.head(net.layer(net.layer(x)).mean(1))), SEQUENCE),
    "tied weights": Case(tied, (6,), 9),
    "weights used outside of their part": Case(
        of_two(lambda net, x: net.two(functional.linear(x, net.one.weight).tanh())), (5,)
    ),
    "loose parameters": Case(Loose, (5,)),
    "frozen recurrent part": Case(frozen_body(recurrent(nn.GRU, batch_first=True), "body"), (4, 5)),
    "frozen bias": Case(frozen_body(pictures(), "one.bias"), (2, 7, 7)),
    "unused part": Case(of_two(lambda net, x: net.two(x)), (5,)),
    "what a mean over the batch would mix": Case(
        of_two(lambda net, x: net.two(net.one(x) - 0.5 * net.one(x).tanh().mean(0))), (5,)
    ),
}
