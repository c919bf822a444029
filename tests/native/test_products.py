"""Products of small matrices against PyTorch's."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedveil.native import products
from fedveil.native.calls import VECTOR_WIDTHS
from fedveil.native.products import multiply, turned

sizes = st.integers(1, 11) | st.integers(30, 70)


def laid_out(count: int, rows: int, columns: int, *, turned: bool, apart: int, generator: torch.Generator) -> Tensor:
    """A random matrix for each client, in memory that has gaps between clients, or with its axes exchanged."""
    shape = (count, columns, rows) if turned else (count, rows, columns)
    memory = torch.randn(count, shape[1] * shape[2] + apart, generator=generator)
    matrices = memory[:, : shape[1] * shape[2]].view(shape)
    return matrices.mT if turned else matrices


@pytest.mark.parametrize("lanes", [0, *VECTOR_WIDTHS])
@given(st.integers(1, 4), sizes, sizes, sizes, st.booleans(), st.booleans(), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_products_are_those_of_pytorch_wherever_matrices_lie(
    lanes: int, count: int, rows: int, terms: int, columns: int, turned: bool, add: bool, apart: int
) -> None:
    generator = torch.Generator().manual_seed(rows * 10_000 + columns)
    first = laid_out(count, rows, terms, turned=turned, apart=apart, generator=generator)
    second = laid_out(count, terms, columns, turned=False, apart=apart, generator=generator)
    room = torch.randn(count, rows + 1, columns, generator=generator)
    before, out = room.clone(), room[:, :rows]
    expected = first.double() @ second.double() + (before[:, :rows].double() if add else 0)
    with patch.object(products, "VECTOR_WIDTHS", (lanes,) if lanes else ()):
        assert multiply(first, second, out, add=add) is out
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-4)
    assert torch.equal(room[:, rows], before[:, rows])


@pytest.mark.parametrize("lanes", [0, *VECTOR_WIDTHS])
@given(st.integers(1, 4), sizes, sizes, sizes, st.booleans(), st.integers(0, 3), st.booleans())
@settings(max_examples=60, deadline=None)
def test_weights_of_a_layer_may_lie_as_a_layer_has_them(
    lanes: int, count: int, rows: int, terms: int, columns: int, add: bool, apart: int, shared: bool
) -> None:
    generator = torch.Generator().manual_seed(rows * 10_000 + columns)
    first = torch.randn(count, rows, terms, generator=generator)
    weights = laid_out(count, columns, terms, turned=False, apart=apart, generator=generator)
    weights = weights[:1].expand(count, -1, -1) if shared else weights
    out = torch.randn(count, rows, columns, generator=generator)
    expected = first.double() @ weights.mT.double() + (out.double() if add else 0)
    with patch.object(products, "VECTOR_WIDTHS", (lanes,) if lanes else ()):
        assert multiply(first, weights.mT, out, add=add) is out
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-4)


def test_matrices_in_another_order_are_left_to_pytorch() -> None:
    first, second = torch.randn(2, 3, 4), torch.randn(2, 4, 10)[..., ::2]
    torch.testing.assert_close(multiply(first, second, torch.empty(2, 3, 5)), first @ second)


@pytest.mark.parametrize("shape", [(3, 4), (200, 300)])
def test_a_matrix_is_turned_round(shape: tuple[int, int]) -> None:
    matrices = torch.randn(2, *shape)
    assert torch.equal(turned(matrices, torch.empty(2, *shape[::-1])), matrices.mT)


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
def test_a_client_has_the_same_bits_in_any_company(lanes: int) -> None:
    first, second = torch.randn(5, 7, 33), torch.randn(5, 33, 41)
    with patch.object(products, "VECTOR_WIDTHS", (lanes,)):
        together = multiply(first, second, torch.empty(5, 7, 41))
        alone = multiply(first[3:4], second[3:4], torch.empty(1, 7, 41))
    assert torch.equal(together[3:4], alone)


@pytest.mark.skipif(not VECTOR_WIDTHS, reason="no compiler, or a processor without AVX2")
def test_what_is_not_a_number_stays_none() -> None:
    first, second = torch.zeros(1, 2, 3), torch.full((1, 3, 2), float("inf"))
    assert bool(multiply(first, second, torch.empty(1, 2, 2)).isnan().all())


@pytest.mark.skipif(not VECTOR_WIDTHS, reason="no compiler, or a processor without AVX2")
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 5), (2, 2, 5)], ids=str)
def test_a_result_of_another_shape_is_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="is not"):
        multiply(torch.ones(2, 3, 4), torch.ones(2, 4, 5), torch.empty(shape))
