"""Named networks have the shapes of the papers; networks that private training cannot take are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from fedveil.core.errors import FedveilError
from fedveil.core.parameters import Layout
from fedveil.models.registry import MODELS, build, check, find

MNIST, CIFAR = (1, 28, 28), (3, 32, 32)

# Written out: (inputs·kernel² + bias)·outputs for a convolution, (inputs + bias)·outputs for a dense layer.
COUNTS = [
    ("mlp", (105,), 2, {}, 105 * 64 + 64 + 64 * 32 + 32 + 32 * 2 + 2),
    ("mlp", MNIST, 10, {"hidden": []}, 784 * 10 + 10),
    ("mlp", (30,), 2, {"hidden": [5], "bias": False, "activation": "tanh"}, 30 * 5 + 5 * 2),
    ("cnn", MNIST, 10, {}, 25 * 12 + 12 + 12 * 25 * 12 + 12 + 7 * 7 * 12 * 10 + 10),
    ("cnn", CIFAR, 10, {}, 3 * 25 * 12 + 12 + 12 * 25 * 12 + 12 + 8 * 8 * 12 * 10 + 10),
    ("cnn", CIFAR, 62, {}, 3 * 25 * 12 + 12 + 12 * 25 * 12 + 12 + 8 * 8 * 12 * 62 + 62),
    (
        "cnn",
        (1, 8, 8),
        3,
        {"channels": [4], "kernel": 3, "padding": 1, "strides": [1], "pools": [2], "hidden": [7], "dropout": 0.5},
        9 * 4 + 4 + 4 * 16 * 7 + 7 + 7 * 3 + 3,
    ),
    ("fed-cdp-cnn", MNIST, 10, {}, 9 * 32 + 32 * 9 * 64 + 7 * 7 * 64 * 10),
    ("fed-cdp-cnn", CIFAR, 10, {"kernel": 5}, 3 * 25 * 32 + 32 * 25 * 64 + 8 * 8 * 64 * 10),
    ("leakage-cnn", MNIST, 10, {}, 25 * 12 + 12 + 3 * (12 * 25 * 12 + 12) + 588 * 10 + 10),
    ("leakage-cnn", CIFAR, 62, {}, 3 * 25 * 12 + 12 + 3 * (12 * 25 * 12 + 12) + 768 * 62 + 62),
    ("prifedsync-mnist", MNIST, 10, {}, 9 * 32 + 32 + 32 * 9 * 64 + 64 + 12 * 12 * 64 * 128 + 128 + 128 * 10 + 10),
    (
        "prifedsync-cifar",
        CIFAR,
        10,
        {},
        27 * 32 + 32 + 32 * 9 * 64 + 64 + 64 * 9 * 64 + 64 + 4 * 4 * 64 * 64 + 64 + 64 * 10 + 10,
    ),
    ("geyer-mlp", MNIST, 10, {}, 784 * 600 + 600 * 100 + 100 * 10),
    ("scattering", MNIST, 10, {"outputs": 50}, 50 * 10 + 10),
    ("linear", (5,), 3, {}, 6 * 3),
    ("scattering", CIFAR, 10, {}, ((3 + 2 * 8) * 49 + 64 * 9) * 10 + 10),
]


@pytest.mark.parametrize(("name", "shape", "classes", "options", "parameters"), COUNTS)
def test_a_named_network_has_the_parameters_counted_by_hand_and_gives_logits(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, object], parameters: int
) -> None:
    model = build(name, shape, classes, options, seed=1)
    assert Layout.of(model).size == parameters
    assert model(torch.rand(2, *shape)).shape == (2, classes)
    assert model.training


def test_every_registered_name_is_counted_above() -> None:
    assert {name for name, *_ in COUNTS} == set(MODELS)


@pytest.mark.parametrize(
    ("name", "layers"), [("cnn", 3), ("fed-cdp-cnn", 3), ("leakage-cnn", 5), ("prifedsync-mnist", 4), ("geyer-mlp", 3)]
)
def test_a_layer_is_counted_once_with_its_bias(name: str, layers: int) -> None:
    assert Layout.of(build(name, MNIST, 10, seed=1)).group_count == layers


def test_the_attack_network_has_all_weights_uniform_within_a_half() -> None:
    model = build("leakage-cnn", MNIST, 10, seed=1)
    values = Layout.of(model).vector(model)
    assert 0.49 < values.abs().max() <= 0.5
    assert values.var().item() == pytest.approx(1 / 12, rel=0.05)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    one, same, other = (build("cnn", MNIST, 10, seed=seed) for seed in (5, 5, 6))
    layout = Layout.of(one)
    assert torch.equal(layout.vector(one), layout.vector(same))
    assert not torch.equal(layout.vector(one), layout.vector(other))


@pytest.mark.parametrize("name", ["cnn", "leakage-cnn"])
def test_the_callers_random_state_is_left_alone_and_has_no_say(name: str) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = build(name, MNIST, 10, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    two = build(name, MNIST, 10, seed=5)
    assert torch.equal(Layout.of(one).vector(one), Layout.of(two).vector(two))


# Factories of the user's own

FACTORIES = """
import torch
from torch import nn
from fedveil.models.features import FixedFeatures

def fine(shape, classes, *, width=4):
    return nn.Sequential(nn.Linear(shape[0], width), nn.GroupNorm(2, width), nn.Linear(width, classes))

def batch_norm(shape, classes):
    return nn.Sequential(nn.Linear(shape[0], 4), nn.Sequential(nn.BatchNorm1d(4)), nn.Linear(4, classes))

def gru(shape, classes):
    return nn.Sequential(nn.GRU(shape[0], classes))

def wide(shape, classes):
    return nn.Linear(shape[0], classes + 1)

def one_output(shape, classes):
    return nn.Sequential(nn.Linear(shape[0], classes), nn.Flatten(0))

def narrow(shape, classes):
    return nn.Linear(shape[0] + 1, classes)

class Mixing(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.dense = nn.Linear(shape[0], classes)

    def forward(self, inputs):
        return self.dense(inputs - inputs.mean(0))

class Cumulative(Mixing):
    def forward(self, inputs):
        return self.dense(inputs).cumsum(0)

class Pair(Mixing):
    def forward(self, inputs):
        return self.dense(inputs), inputs

class Dicing(Mixing):
    def forward(self, inputs):
        torch.rand(1)
        return self.dense(inputs)

class Remembering(Mixing):
    memory = 0.0

    def forward(self, inputs):
        if self.training:
            self.memory = 0.9 * self.memory + 0.1 * inputs.detach()[0]
        return self.dense(inputs - self.memory)

class Collecting(FixedFeatures):
    def __init__(self, shape):
        super().__init__()
        self.register_buffer("peak", torch.zeros(shape))

    def forward(self, inputs):
        self.peak = torch.maximum(self.peak, inputs.amax(0))
        return inputs

def collecting(shape, classes):
    return nn.Sequential(Collecting(shape), nn.Linear(shape[0], classes))

def spectral(shape, classes):
    first = nn.utils.parametrizations.spectral_norm(nn.Linear(shape[0], 64))
    return nn.Sequential(first, nn.Linear(64, classes))

class Auxiliary(Mixing):
    def forward(self, inputs):
        return (self.dense(inputs), inputs) if self.training else self.dense(inputs)

def dropout(shape, classes):
    return nn.Sequential(nn.Dropout(0.5), nn.Linear(shape[0], classes))

def lazy(shape, classes):
    return nn.LazyLinear(classes)

def frozen(shape, classes):
    return nn.Linear(shape[0], classes).requires_grad_(False)

class Half(Mixing):
    def __init__(self, shape, classes):
        super().__init__(shape, classes)
        self.bfloat16()

    def forward(self, inputs):
        return self.dense(inputs.bfloat16()).float()

def raising(shape, classes):
    raise RuntimeError("no such luck")

def nothing(shape, classes):
    return None

def no_arguments():
    return nn.Linear(6, 3)

def two_lines(shape, classes):
    raise ValueError("first line\\nsecond line")

number = 3
"""


@pytest.fixture
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module of factories in the current directory."""
    (tmp_path / "registry_factories.py").write_text(FACTORIES)
    (tmp_path / "registry_broken.py").write_text("1 / 0\n")
    (tmp_path / "registry_syntax.py").write_text("def factory(:\n")
    (tmp_path / "registry_needs.py").write_text("import a_module_that_nobody_has\n")
    package = tmp_path / "registry_package" / "inner"
    package.mkdir(parents=True)
    (package / "networks.py").write_text(FACTORIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield "registry_factories"
    for name in set(sys.modules) - before:
        if name.startswith("registry_"):
            del sys.modules[name]


def refusal(name: str, shape: tuple[int, ...] = (6,), options: dict[str, object] | None = None) -> str:
    with pytest.raises(FedveilError) as caught:
        build(name, shape, 3, options, seed=1)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("module", ["registry_factories", "registry_package.inner.networks"])
def test_a_factory_from_the_current_directory_is_built_with_its_options(factories: str, module: str) -> None:
    model = build(f"{module}:fine", (6,), 3, {"width": 8}, seed=1)
    assert Layout.of(model).size == 6 * 8 + 8 + 16 + 8 * 3 + 3


def test_the_same_seed_gives_a_users_network_the_same_weights(factories: str) -> None:
    one, two = (build(f"{factories}:fine", (6,), 3, seed=4) for _ in range(2))
    assert torch.equal(Layout.of(one).vector(one), Layout.of(two).vector(two))


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("batch_norm", "has BatchNorm1d at '1.0', which mixes the examples of a batch"),
        ("gru", "gives a tuple, not a tensor of logits"),
        ("wide", "gives outputs of shape [3, 4] for 3 records, not [3, 3]"),
        ("one_output", "gives outputs of shape [9] for 3 records, not [3, 3]"),
        ("narrow", "does not take records of shape [6]: RuntimeError"),
        ("no_arguments", "must take (input_shape, classes) (too many positional arguments)"),
        ("Mixing", "mixes the examples of a batch"),
        ("frozen", "has no trainable parameter"),
        ("Half", "has parameters of bfloat16 at 'dense.weight'"),
        ("raising", "could not be built: RuntimeError: no such luck"),
        ("nothing", "made a NoneType, not a torch.nn.Module"),
        ("number", "is not a function or class that makes a model"),
        ("missing", "can't be imported"),
    ],
)
def test_a_network_that_cannot_be_trained_is_refused_in_one_clear_line(
    factories: str, factory: str, words: str
) -> None:
    message = refusal(f"{factories}:{factory}")
    assert words in message
    assert f"{factories}:{factory}" in message
    assert message.startswith("model")


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.LazyBatchNorm1d])
def test_every_kind_of_batch_normalisation_is_refused_with_the_way_out(norm: type[nn.Module]) -> None:
    layer = norm() if norm is nn.LazyBatchNorm1d else norm(3)
    with pytest.raises(FedveilError, match=r"use GroupNorm or LayerNorm$"):
        check(nn.Sequential(nn.Linear(3, 3), layer), (3,), 3, "mine")


@pytest.mark.parametrize("name", ["registry_nowhere:factory", "registry_needs:factory", "registry_factories:"])
def test_a_module_that_cannot_be_imported_is_refused(factories: str, name: str) -> None:
    assert refusal(name).startswith(f"model.name: {name!r} can't be imported")


def test_an_unknown_name_lists_the_networks() -> None:
    message = refusal("resnet")
    assert all(name in message for name in MODELS)
    assert message.startswith("model.name: there is no model 'resnet'")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        (
            "mlp",
            {"hiden": [3]},
            "model.options: mlp takes no such options (got an unexpected keyword argument 'hiden')",
        ),
        ("mlp", {"classes": 3}, "model.options: mlp takes no such options"),
        ("mlp", {"activation": "swish"}, "model.options.activation: 'swish' is not one of relu"),
        ("mlp", {"hidden": "ab"}, "model.options.hidden: must be a positive whole number"),
        ("mlp", {"hidden": 3}, "model: mlp could not be built"),
        ("mlp", {"hidden": [-1]}, "model.options.hidden: must be a positive whole number"),
        ("cnn", {"channels": [4]}, "model.options: channels, strides and pools must have the same length"),
        ("cnn", {"dropout": 2.0}, "model.options.dropout: must be at least 0"),
        ("cnn", {"padding": 0, "kernel": 9}, "model: cnn could not be built"),
        ("geyer-mlp", {"hidden": [3]}, "model.options: geyer-mlp takes no such options"),
    ],
)
def test_options_that_do_not_fit_are_refused(name: str, options: dict[str, object], words: str) -> None:
    assert refusal(name, (1, 8, 8), options).startswith(words)


@pytest.mark.parametrize("name", ["cnn", "fed-cdp-cnn", "leakage-cnn", "prifedsync-mnist", "prifedsync-cifar"])
def test_a_convolutional_network_refuses_records_that_are_no_images(name: str) -> None:
    words = "model: a convolutional network needs images, but the records have shape [30]; model.name=mlp takes any"
    assert refusal(name, (30,)) == words


def test_checking_leaves_the_network_in_the_mode_it_was_in() -> None:
    for training in (True, False):
        model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).train(training)
        check(model, (3,), 3, "mine")
        assert model.training is training
        assert all(module.training is training for module in model.modules())


def test_finding_a_named_network_does_not_touch_the_search_path() -> None:
    before = list(sys.path)
    assert find("mlp") is MODELS["mlp"]
    assert sys.path == before


# Networks that do what none should


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("Remembering", "answers one record differently after it has seen another"),
        ("collecting", "changes '0.peak' when it is called"),
        ("spectral", "changes '0.parametrizations.weight.0._u' when it is called"),
        ("Auxiliary", "gives a tuple in training"),
    ],
)
def test_a_network_that_remembers_records_is_refused(factories: str, factory: str, words: str) -> None:
    assert words in refusal(f"{factories}:{factory}")


@pytest.mark.parametrize("factory", ["dropout", "lazy", "Dicing"])
def test_a_network_that_only_draws_remembers_nothing(factories: str, factory: str) -> None:
    assert Layout.of(build(f"{factories}:{factory}", (6,), 3, seed=1)).size == 6 * 3 + 3


def test_a_network_that_gives_a_tuple_is_refused_in_one_line(factories: str) -> None:
    refusal(f"{factories}:Pair")


def test_lazy_layers_have_weights_from_the_seed_too(factories: str) -> None:
    weights = []
    for state in (1, 2):
        torch.manual_seed(state)
        weights.append(build(f"{factories}:lazy", (6,), 3, seed=5).weight.detach())
    assert torch.equal(*weights)


def test_a_network_that_draws_when_it_is_called_leaves_the_callers_random_state_alone(factories: str) -> None:
    before = torch.get_rng_state()
    build(f"{factories}:Dicing", (6,), 3, seed=5)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_network_whose_later_examples_see_the_earlier_ones_is_refused(factories: str) -> None:
    assert "mixes the examples" in refusal(f"{factories}:Cumulative")


@pytest.mark.parametrize(
    "name", ["registry_broken:factory", "registry_syntax:factory", ":factory", ".relative:factory", "builtins:dict"]
)
def test_a_module_that_fails_while_it_is_imported_is_refused_in_one_line(factories: str, name: str) -> None:
    assert refusal(name).startswith("model")


def test_a_factory_that_fails_with_a_long_story_is_refused_in_one_line(factories: str) -> None:
    refusal(f"{factories}:two_lines")
