"""The linear model on fixed features: what is trained, what is stored, what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedveil.core.errors import FedveilError
from fedveil.core.parameters import Layout
from fedveil.models.registry import build, fixed_part
from fedveil.models.scattering import OUTPUTS, _stored, make_basis


def test_only_the_last_layer_is_trained_and_it_begins_at_zero() -> None:
    model = build("scattering", (1, 28, 28), 10, seed=0)
    layout = Layout.of(model)
    assert layout.names == ("head.weight", "head.bias")
    assert layout.vector(model).abs().max() == 0


def test_colours_take_the_plain_basis_only() -> None:
    with pytest.raises(FedveilError, match=r"^model.options.basis: .*plain"):
        build("scattering", (3, 32, 32), 10, {"basis": "strokes"}, seed=0)
    model = build("scattering", (3, 32, 32), 10, seed=0)
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize(
    ("shape", "options", "problem"),
    [
        ((30,), {}, "needs pictures"),
        ((1, 28, 28), {"basis": "letters"}, r"model.options.basis"),
        ((1, 28, 28), {"outputs": OUTPUTS + 1}, rf"model.options.outputs: must be at most {OUTPUTS}"),
        ((1, 28, 28), {"outputs": 0}, r"model.options.outputs"),
    ],
)
def test_what_it_cannot_take_is_refused(shape: tuple[int, ...], options: dict[str, object], problem: str) -> None:
    with pytest.raises(FedveilError, match=problem):
        build("scattering", shape, 10, options, seed=0)


def test_the_fixed_part_and_the_rest_are_the_whole_model() -> None:
    model = build("scattering", (1, 28, 28), 10, seed=0)
    nn.init.normal_(model.head.weight)  # type: ignore[union-attr, arg-type]
    parts = fixed_part(model)
    assert parts is not None
    features, rest = parts
    pictures = torch.rand(3, 1, 28, 28)
    assert torch.equal(rest(features(pictures)), model(pictures))
    assert Layout.of(rest) == Layout.of(model)


def test_a_network_that_trains_from_the_first_layer_has_no_fixed_part() -> None:
    assert fixed_part(build("cnn", (1, 28, 28), 10, seed=0)) is None
    assert fixed_part(nn.Linear(3, 2)) is None


@pytest.mark.slow
def test_the_stored_basis_is_what_the_code_makes() -> None:
    mean, directions = _stored()
    made_mean, made = make_basis()
    torch.testing.assert_close(mean, made_mean, atol=1e-3, rtol=1e-3)
    # Neighbouring directions may swap on another machine; the space they span may not turn.
    angles = torch.linalg.svdvals(torch.linalg.qr(directions).Q.T @ torch.linalg.qr(made).Q)
    assert angles.mean() > 0.99
