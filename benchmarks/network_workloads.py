"""Networks of the kinds people bring, with random records (speed does not depend on them)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedveil.data.dataset import Examples
from workloads import Workload


class Block(nn.Module):
    """Two convolutions around which the input flows on."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(8, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(8, outputs)
        self.past = nn.Conv2d(inputs, outputs, 1, stride=stride) if stride > 1 or inputs != outputs else nn.Identity()
        self.bend = nn.SiLU()

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.bend(self.first_norm(self.first(inputs)))
        return self.bend(self.second_norm(self.second(hidden)) + self.past(inputs))  # type: ignore[no-any-return]


class Residual(nn.Module):
    """54 k parameters."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(8, 16), nn.SiLU())
        self.blocks = nn.Sequential(
            Block(16, 16, 1), Block(16, 32, 2), Block(32, 32, 1), nn.Conv2d(32, 44, 3, stride=2, padding=1)
        )
        self.head = nn.Linear(44, classes)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(pictures)).mean(dim=(2, 3)))  # type: ignore[no-any-return]


WORDS, LENGTH = 1000, 32


class Transformer(nn.Module):
    """d = 64, two layers, 166 k parameters."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 64), nn.Embedding(LENGTH, 64)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(64, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        values = self.words(tokens) + self.places(torch.arange(tokens.shape[1]).expand_as(tokens))
        for layer in self.layers:
            values = layer(values)
        return self.head(values.mean(dim=1))  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """An LSTM over 32 words, 57 k parameters."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 32)
        self.memory = nn.LSTM(32, 64, batch_first=True)
        self.head = nn.Linear(64, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.memory(self.words(tokens))
        return self.head(states[:, -1])  # type: ignore[no-any-return]


@dataclass(frozen=True)
class NetworkWorkload(Workload):
    """A workload with a network of its own; `words` says that records are tokens."""

    words: bool = False

    def network(self) -> nn.Module:
        torch.manual_seed(0)
        if self.model == "wide-mlp":
            return nn.Sequential(
                nn.Flatten(), nn.Linear(784, 784), nn.ReLU(), nn.Linear(784, 480), nn.ReLU(), nn.Linear(480, 10)
            )
        return {"residual": Residual, "transformer": Transformer, "lstm": Recurrent}[self.model](self.classes)

    def examples(self, count: int) -> Examples:
        if not self.words:
            return super().examples(count)
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randint(0, WORDS, (count, *self.shape), generator=generator)
        return Examples(inputs, torch.randint(0, self.classes, (count,), generator=generator))


NETWORKS = {
    "residual": NetworkWorkload("Residual net, GroupNorm and SiLU, 54 k, B = 5", (3, 32, 32), 10, "residual", {}, 5),
    "transformer": NetworkWorkload(
        "Transformer, d = 64, two layers, 166 k, B = 5", (LENGTH,), 4, "transformer", {}, 5, words=True
    ),
    "lstm": NetworkWorkload("LSTM, 57 k, B = 5", (LENGTH,), 4, "lstm", {}, 5, words=True),
    "wide-mlp": NetworkWorkload("MLP, 1 M parameters, B = 5", (1, 28, 28), 10, "wide-mlp", {}, 5),
}
