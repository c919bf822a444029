"""The linear model on fixed features: what is trained, what is stored, what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedveil.core.errors import FedveilError
from fedveil.core.parameters import Layout
from fedveil.models.features import Projected, Scattering
from fedveil.models.registry import build, fixed_part
from fedveil.models.scattering import (
    COLOUR_OUTPUTS,
    GREY_OUTPUTS,
    OUTPUTS,
    _stored,
    _stored_scenes,
    make_basis,
    make_scenes,
)
from fedveil.models.scenes import leaves, silhouettes
from fedveil.models.strokes import characters


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
    ("shape", "outputs"), [((1, 28, 28), OUTPUTS + GREY_OUTPUTS), ((3, 32, 32), COLOUR_OUTPUTS), ((1, 40, 20), 384)]
)
def test_scenes_suit_grey_and_coloured_pictures_of_any_size(shape: tuple[int, ...], outputs: int) -> None:
    model = build("scattering", shape, 10, {"basis": "scenes"}, seed=0)
    parts = fixed_part(model)
    assert parts is not None
    features = parts[0](torch.rand(4, *shape))
    assert features.shape == (4, outputs + 1)
    assert bool((features[:, -1] > 0).all())  # in place of a bias
    assert Layout.of(model).names == ("head.weight",)
    torch.testing.assert_close(features.norm(dim=1), torch.ones(4))


def test_strokes_beside_scenes_do_not_see_where_silhouettes_lie() -> None:
    features = build("scattering", (1, 28, 28), 10, {"basis": "scenes"}, seed=0).features  # type: ignore[union-attr]
    things = functional.normalize(features(silhouettes(200, 28, seed=9))[:, :OUTPUTS], dim=1)
    seeing = Projected(Scattering((1, 28, 28)), *_stored())(silhouettes(200, 28, seed=9))
    assert things.mean(dim=0).norm() < seeing.mean(dim=0).norm()


def test_drawn_characters_are_seen_as_strokes_and_scenes_and_silhouettes_are_not() -> None:
    features = build("scattering", (1, 28, 28), 10, {"basis": "scenes"}, seed=0).features.first  # type: ignore[union-attr]

    def share(pictures: torch.Tensor) -> float:
        return float(features(pictures)[:, :OUTPUTS].square().sum(dim=1).mean())

    assert share(characters(50, 4, seed=9)) > 0.9
    assert share(silhouettes(200, 28, seed=9)) < 0.1
    assert share(leaves(200, 1, 28, seed=9)) < 0.1


@pytest.mark.parametrize(
    ("shape", "options", "problem"),
    [
        ((30,), {}, "needs pictures"),
        ((1, 28, 28), {"basis": "letters"}, r"model.options.basis"),
        ((2, 28, 28), {"basis": "scenes"}, r"model.options.basis: scenes are grey or have 3 colours, not 2"),
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


@pytest.mark.slow
def test_the_stored_scenes_are_what_the_code_makes() -> None:
    stored, made = _stored_scenes(), make_scenes()
    assert stored.keys() == made.keys()
    for name in ("grey.mean", "grey.offset", "grey.threshold", "colour.mean"):
        torch.testing.assert_close(stored[name], made[name], atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(stored["grey.gate"], made["grey.gate"], atol=1e-2, rtol=1e-2)
    for name in ("grey.directions", "colour.directions"):
        angles = torch.linalg.svdvals(torch.linalg.qr(stored[name]).Q.T @ torch.linalg.qr(made[name]).Q)
        assert angles.mean() > 0.99
