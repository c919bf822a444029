"""The number of layers of a network that need not be built is that of the network as it is built."""

from __future__ import annotations

import pytest

from fedveil.core.parameters import Layout
from fedveil.models.layer_counts import known_layers
from fedveil.models.registry import MODELS, build

PICTURES = [(1, 28, 28), (3, 32, 32), (1, 28, 40)]


@pytest.mark.parametrize("name", MODELS)
def test_known_layers_are_those_that_are_built(name: str) -> None:
    for shape in [*PICTURES, (30,)]:
        for options in ({}, {"basis": "scenes"}) if name == "scattering" else ({},):
            known = known_layers(name, shape, options)
            if known is not None:
                assert known == Layout.of(build(name, shape, 10, options, seed=0)).group_count


@pytest.mark.parametrize("name", MODELS)
def test_they_are_known_of_every_network_of_ours(name: str) -> None:
    assert known_layers(name, (1, 28, 28), {}) is not None


def test_what_may_differ_or_be_refused_is_left_to_the_network_itself() -> None:
    assert known_layers("cnn", (30,), {}) is None
    assert known_layers("scattering", (1, 16, 16), {}) is None
    assert known_layers("mlp", (30,), {"hidden": [5]}) is None
    assert known_layers("scattering", (1, 28, 28), {"basis": "nothing"}) is None
    assert known_layers("package.module:factory", (30,), {}) is None
