"""A flat vector and the named parameters are the same thing, and layers are counted as clipping counts them."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from fedveil.core.parameters import Layout


class Nested(nn.Module):
    """Parameters of its own before, and modules within modules."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)))
        self.head = nn.Linear(4, 2, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs * self.scale))


class Tied(nn.Module):
    """Encoder and decoder share one weight, as language models do."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(5, 3, bias=False)
        self.decoder = nn.Linear(5, 3)
        self.decoder.weight = self.encoder.weight

    def forward(self, inputs: Tensor) -> Tensor:
        return self.encoder(inputs) + self.decoder(inputs)


def flat_of(layout: Layout, *leading: int) -> Tensor:
    return torch.arange(layout.size * int(torch.tensor(leading).prod()), dtype=torch.float32).view(*leading, -1)


def test_a_weight_and_its_bias_are_one_group() -> None:
    layout = Layout.of(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3)))
    assert layout.names == ("0.weight", "0.bias", "2.weight", "2.bias")
    assert layout.groups == (0, 0, 1, 1)
    assert layout.group_count == 2
    assert layout.shapes == ((2, 1, 3, 3), (2,), (3, 8), (3,))


def test_sizes_offsets_and_groups_add_up_to_the_whole_vector() -> None:
    layout = Layout.of(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)))
    assert layout.sizes == (12, 3, 6, 2)
    assert layout.offsets == (0, 12, 15, 21, 23)
    assert layout.size == 23
    assert layout.group_slices == (slice(0, 15), slice(15, 23))


def test_nested_modules_are_layers_of_their_own_and_the_groups_tile_the_vector() -> None:
    model = Nested()
    layout = Layout.of(model)
    assert layout.names[0] == "scale"
    assert layout.group_count == 5  # scale, two dense layers, the norm, the head
    covered = [index for group in layout.group_slices for index in range(group.start, group.stop)]
    assert covered == list(range(layout.size))
    assert layout.size == sum(parameter.numel() for parameter in model.parameters())


def test_tied_weights_are_counted_and_stored_once() -> None:
    model = Tied()
    layout = Layout.of(model)
    assert layout.names == ("encoder.weight", "decoder.bias")
    assert layout.size == 18
    layout.load(model, flat_of(layout))
    assert model.decoder.weight is model.encoder.weight
    assert torch.equal(layout.vector(model), flat_of(layout))


def test_frozen_parameters_are_left_out_and_left_alone() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    layout = Layout.of(model)
    assert layout.names == ("0.bias", "1.weight", "1.bias")
    assert layout.groups == (0, 1, 1)
    layout.load(model, torch.zeros(layout.size))
    assert torch.equal(model[0].weight, before)
    assert not model[1].weight.any()


def test_a_model_without_parameters_has_an_empty_layout() -> None:
    layout = Layout.of(nn.ReLU())
    assert (layout.size, layout.group_count, layout.group_slices) == (0, 0, ())


@pytest.mark.parametrize("model", [Nested(), Tied(), nn.Conv2d(2, 3, 2)], ids=["nested", "tied", "conv"])
@pytest.mark.parametrize("leading", [(), (4,), (2, 3)], ids=["one", "clients", "clients and examples"])
def test_join_undoes_split(model: nn.Module, leading: tuple[int, ...]) -> None:
    layout = Layout.of(model)
    flat = flat_of(layout, *leading)
    named = layout.split(flat)
    for name, shape, _ in layout:
        assert tuple(named[name].shape) == (*leading, *shape)
    assert torch.equal(layout.join(named, batch_dims=len(leading)), flat)


@given(widths=st.lists(st.integers(1, 6), min_size=2, max_size=5), bias=st.booleans(), leading=st.integers(0, 2))
def test_join_undoes_split_for_any_dense_network(widths: list[int], bias: bool, leading: int) -> None:
    layers = [nn.Linear(a, b, bias=bias) for a, b in itertools.pairwise(widths)]
    layout = Layout.of(nn.Sequential(*layers))
    assert layout.group_count == len(layers)
    flat = flat_of(layout, *([2] * leading))
    assert torch.equal(layout.join(layout.split(flat), batch_dims=leading), flat)


def test_split_gives_views_into_the_vector() -> None:
    layout = Layout.of(nn.Linear(3, 2))
    flat = torch.zeros(layout.size)
    layout.split(flat)["bias"].fill_(7)
    assert flat.tolist() == [0] * 6 + [7, 7]


def test_split_refuses_a_vector_of_another_length() -> None:
    with pytest.raises(RuntimeError):
        Layout.of(nn.Linear(3, 2)).split(torch.zeros(9))


def test_loading_a_vector_puts_each_value_where_the_layout_says() -> None:
    model = nn.Linear(3, 2)
    layout = Layout.of(model)
    layout.load(model, flat_of(layout))
    assert model.weight.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert model.bias.tolist() == [6, 7]
    assert torch.equal(layout.vector(model), flat_of(layout))


def test_the_vector_is_a_detached_copy() -> None:
    model = nn.Linear(3, 2)
    vector = Layout.of(model).vector(model)
    assert not vector.requires_grad
    vector.zero_()
    assert model.weight.abs().sum() > 0


def test_the_vector_of_a_single_parameter_is_a_copy_too() -> None:
    model = nn.Linear(3, 2, bias=False)
    Layout.of(model).vector(model).zero_()
    assert model.weight.abs().sum() > 0


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)], ids=["one", "clients", "clients and examples"])
def test_a_parameter_that_is_a_single_number_survives_the_round_trip(leading: tuple[int, ...]) -> None:
    class Tempered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.temperature = nn.Parameter(torch.tensor(2.0))
            self.dense = nn.Linear(2, 2)

    layout = Layout.of(Tempered())
    flat = flat_of(layout, *leading)
    assert torch.equal(layout.join(layout.split(flat), batch_dims=len(leading)), flat)
