"""A user's own network, from its factory to the published model, and what is said of it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
import torch

from fedveil.core.errors import FedveilError
from fedveil.data.dataset import Dataset, from_tensors
from fedveil.runs.explain import explain
from fedveil.runs.run import run

FACTORIES = """
import torch
from torch import nn

class Words(nn.Module):
    def __init__(self, body, width, classes):
        super().__init__()
        self.words, self.body, self.head = nn.Embedding(20, 8), body, nn.Linear(width, classes)

    def forward(self, tokens):
        values = self.body(self.words(tokens))
        values = values[0] if isinstance(values, tuple) else values
        return self.head(values.mean(1))

class Looking(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)

    def forward(self, values):
        return self.look(values, values, values)

class Grouped(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.mix, self.head = nn.Conv1d(8, 8, 3, groups=2), nn.Linear(8, classes)

    def forward(self, tokens):
        return self.head(self.mix(self.words(tokens).transpose(1, 2)).mean(2))

class Choosing(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.words, self.head = nn.Embedding(20, 8), nn.Linear(8, classes)

    def forward(self, tokens):
        outputs = self.head(self.words(tokens).mean(1))
        return outputs * 2 if self.training and outputs.sum() > 100 else outputs

def layer(shape, classes):
    return Words(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), 8, classes)

def encoder(shape, classes):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, norm_first=True)
    return Words(nn.TransformerEncoder(layer, 2), 8, classes)

def gru(shape, classes):
    return Words(nn.GRU(8, 6, num_layers=2, dropout=0.1, batch_first=True), 6, classes)

def attention(shape, classes):
    return Words(Looking(), 8, classes)
"""

FEW = {"data.clients": 4, "data.records": 12, "data.partition": "random", "cohort.size": 3, "stop.rounds": 2}
SMALL = {**FEW, "batch.size": 3, "local.steps": 2}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_networks_of_a_user.py").write_text(FACTORIES)
    sys.path.insert(0, str(folder))
    return "own_networks_of_a_user"


def sentences() -> Dataset:
    generator = torch.Generator().manual_seed(0)
    words, labels = torch.randint(0, 20, (60, 5), generator=generator), torch.arange(60) % 3
    return from_tensors("sentences", (words[:48], labels[:48]), (words[48:], labels[48:]), 3)


@pytest.mark.parametrize("factory", ["layer", "encoder", "gru", "attention"])
@pytest.mark.parametrize("method", ["fed-cdp", "fedavg"])
def test_standard_modules_train_from_end_to_end_without_a_word_from_torch(
    own: str, factory: str, method: str, tmp_path: Path
) -> None:
    settings = {**SMALL, "model.name": f"{own}:{factory}"}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = run(method, settings, seed=1, out=tmp_path / "run", workers=1, dataset=sentences())
    assert [str(each.message) for each in said if "torch" in str(each.filename)] == []
    assert result.rounds == 2


def test_it_is_said_which_part_is_taken_example_by_example_and_why(own: str) -> None:
    _, lines = explain("fed-cdp", {**SMALL, "model.name": f"{own}:Grouped"}, dataset=sentences())
    place = lines.index("Gradients of many clients are computed at once, part by part (layered path).")
    assert lines[place + 1] == "  'mix' is taken example by example (Conv1d: 2 groups of channels)."


def test_a_network_that_goes_by_its_values_is_refused_before_a_round_is_paid_for(own: str, tmp_path: Path) -> None:
    settings = {**SMALL, "model.name": f"{own}:Choosing"}
    with pytest.raises(FedveilError, match=r"^model: it can't be vectorised over clients and examples"):
        run("fed-cdp", settings, seed=1, out=tmp_path / "run", workers=1, dataset=sentences())


def test_words_that_the_network_does_not_know_are_refused_before_a_round_is_paid_for(own: str, tmp_path: Path) -> None:
    words = torch.arange(21).repeat(15)[:300].view(60, 5)
    unknown = from_tensors("unknown", (words[:48], torch.arange(48) % 3), (words[48:], torch.arange(12) % 3), 3)
    settings = {**SMALL, "model.name": f"{own}:layer"}
    with pytest.raises(FedveilError, match=r"does not take all tokens, which go up to 20 \(an embedding of n words"):
        run("fed-cdp", settings, seed=1, out=tmp_path / "run", workers=1, dataset=unknown)
