"""No row passes the clip, short rows are left as they are, and what is not finite becomes zero."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedveil.core.errors import FedveilError
from fedveil.core.norms import lengths
from fedveil.engine.fused import Fused
from fedveil.engine.general import General
from fedveil.engine.gradients import Batch
from fedveil.engine.plain import Plain
from fedveil.mechanisms.arithmetic import NORM_MARGIN as MARGIN
from fedveil.mechanisms.clip import Clip
from fedveil.mechanisms.schedules import Constant, Linear
from fedveil.models.registry import build

BOUNDS = st.floats(1e-3, 1e3)
NORMS = st.lists(st.floats(0, 1e6, width=32), min_size=1, max_size=6)


def scaled(clip: Clip, norms: list[float], bound: float) -> tuple[Tensor, Tensor]:
    """Norms of the layers before and after."""
    before = torch.tensor(norms)
    return before, before * clip.factors(before, bound)


@given(norms=NORMS, bound=BOUNDS)
def test_flat_no_row_is_longer_than_the_bound(norms: list[float], bound: float) -> None:
    _, after = scaled(Clip(1.0), norms, bound)
    assert after.double().norm().item() <= bound


@given(norms=NORMS, bound=BOUNDS)
def test_layer_no_layer_is_longer_than_the_bound_and_no_row_than_the_sensitivity(
    norms: list[float], bound: float
) -> None:
    clip = Clip(1.0, by="layer")
    _, after = scaled(clip, norms, bound)
    assert after.max().item() <= bound
    assert after.double().norm().item() <= clip.sensitivity(bound, len(norms))


@given(norms=NORMS, bound=BOUNDS)
def test_a_row_below_the_bound_is_left_as_it_is_but_for_the_last_bit(norms: list[float], bound: float) -> None:
    length = math.sqrt(sum(norm**2 for norm in norms))
    short = [norm * min(1.0, 0.99 * bound / length) if length else 0.0 for norm in norms]
    for by in ("flat", "layer"):
        factors = Clip(1.0, by=by).factors(torch.tensor(short), bound)
        assert factors.max() <= 1.0
        assert factors.min() >= 1.0 - 2**-23


@given(norms=NORMS, bound=BOUNDS)
def test_flat_scales_all_layers_alike_and_layer_each_by_itself(norms: list[float], bound: float) -> None:
    before = torch.tensor(norms)
    flat, layer = Clip(1.0).factors(before, bound), Clip(1.0, by="layer").factors(before, bound)
    assert len(set(flat.tolist())) == 1
    length = before.double().norm().item()
    least = bound * (1 - MARGIN)
    assert flat[0].item() == pytest.approx(min(1.0, least / length) if length else 1.0, rel=1e-5)
    assert layer.tolist() == pytest.approx([min(1.0, least / n) if n else 1.0 for n in before.tolist()], rel=1e-5)


@given(rows=st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=6, max_size=6), min_size=1, max_size=5))
def test_real_rows_are_clipped_to_the_bound_along_their_direction(rows: list[list[float]]) -> None:
    gradients = torch.tensor(rows)
    norms = torch.stack([gradients[:, :4].norm(dim=-1), gradients[:, 4:].norm(dim=-1)], dim=-1)
    factors = Clip(2.0).factors(norms, 2.0)
    clipped = torch.cat([gradients[:, :4] * factors[:, :1], gradients[:, 4:] * factors[:, 1:]], dim=-1)
    for before, after in zip(gradients.double(), clipped.double(), strict=True):
        assert after.norm() <= 2.0
        assert torch.allclose(before * after.norm(), after * before.norm(), rtol=1e-4, atol=1e-3)


def stubborn_rows(size: int) -> list[Tensor]:
    """Rows whose norm in single precision is far off: each summand is rounded the same way, or lost altogether."""
    generator = torch.Generator().manual_seed(size)
    equal = [torch.full((size,), float(1 + torch.rand((), generator=generator))) for _ in range(12)]
    lost = torch.full((size,), 2.0**-12.5 * 0.999)
    lost[:64] = 1.0
    mixed = torch.exp(20 * torch.rand(size, generator=generator) - 10)
    return [*equal, lost, mixed, torch.randn(size, generator=generator)]


@pytest.mark.parametrize("size", [1, 100, 9_814, 65_536, 1_000_000])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e11])
def test_in_real_numbers_no_row_is_longer_than_the_bound(size: int, scale: float) -> None:
    """The norm of what is released, in double precision; the layout of the engine: a slice of a longer row."""
    for row in stubborn_rows(size):
        rows = torch.zeros(2, size + 3)
        rows[:, 3:] = row * scale
        layer = rows[:, 3:]
        norms = lengths(layer).unsqueeze(-1)
        true = layer[0].double().norm().item()
        for bound in (true * 0.3, true * (1 - 1e-3), true * (1 - 1e-7), true):
            after = (layer * Clip(1.0).factors(norms, bound)).double().norm(dim=-1).max().item()
            assert bound * (1 - 2 * MARGIN) <= after <= bound


@pytest.mark.parametrize("path", ["plain", "general", "fused"])
@pytest.mark.parametrize("by", ["flat", "layer"])
def test_every_implementation_keeps_each_record_within_the_sensitivity_in_real_numbers(path: str, by: str) -> None:
    generator = torch.Generator().manual_seed(5)
    shape, clip, bound, records = (1, 16, 16), Clip(1.0, by=by), 0.05, 40
    model = build("cnn", shape, 4, seed=1)
    gradients = {"plain": Plain, "general": General, "fused": lambda m: Fused.build(m, shape)}[path](model)
    assert gradients is not None
    scales = torch.logspace(-3, 6, records).view(-1, 1, 1, 1, 1)
    inputs = torch.rand(records, 1, *shape, generator=generator) * scales
    batch = Batch(inputs, torch.randint(4, (records, 1), generator=generator), torch.ones(records, 1))
    parameters = gradients.layout.vector(model).expand(records, -1).contiguous()
    total = gradients.sums(parameters, batch, partial(clip.factors, bound=bound)).total.double()
    if by == "layer":
        parts = torch.stack([total[:, part].norm(dim=-1) for part in gradients.layout.group_slices])
        assert parts.max().item() <= bound
    longest = total.norm(dim=-1).max().item()
    sensitivity = clip.sensitivity(bound, gradients.layout.group_count)
    assert sensitivity * (1 - 2 * MARGIN) <= longest <= sensitivity


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("by", ["flat", "layer"])
def test_a_row_with_one_layer_that_is_not_finite_becomes_zero_as_a_whole(bad: float, by: str) -> None:
    norms = torch.tensor([[1.0, bad, 3.0], [1.0, 1.0, 1.0]])
    factors = Clip(10.0, by=by).factors(norms, 10.0)
    assert factors.tolist() == [[0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("by", ["flat", "layer"])
def test_a_zero_row_stays_zero_without_nan(by: str) -> None:
    assert Clip(1.0, by=by).factors(torch.zeros(2, 3), 0.5).tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("by", ["flat", "layer"])
def test_a_norm_too_large_to_be_squared_still_cannot_pass(by: str) -> None:
    norms = torch.tensor([3e38, 3e38])
    after = norms * Clip(1.0, by=by).factors(norms, 1.0)
    assert after.max() <= 1


def test_sensitivity_is_the_bound_for_flat_and_grows_with_the_root_of_the_layers_for_layer() -> None:
    assert Clip(4.0).sensitivity(4.0, 9) == 4.0
    assert Clip(4.0, by="layer").sensitivity(4.0, 9) == 12.0
    assert Clip(4.0, by="layer").sensitivity(4.0, 1) == 4.0
    assert Clip(4.0, by="layer").sensitivity(2.0, 3) == pytest.approx(2 * math.sqrt(3))


def test_the_sensitivity_per_layer_is_reached_by_a_row_that_is_too_long_everywhere() -> None:
    clip = Clip(4.0, by="layer")
    norms = torch.full((5,), 1000.0)
    after = norms * clip.factors(norms, 4.0)
    assert after.norm().item() == pytest.approx(clip.sensitivity(4.0, 5) * (1 - MARGIN), rel=1e-6)


def test_the_bound_follows_its_schedule_and_may_be_a_number() -> None:
    assert Clip(3).bound == Constant(3.0)
    falling = Clip(Linear(6.0, 2.0), by="layer")
    assert [falling.at(round, 3) for round in range(3)] == [6.0, 4.0, 2.0]


@pytest.mark.parametrize("bound", [0, -1.0, math.nan, math.inf])
def test_a_bound_that_is_not_positive_is_refused(bound: float) -> None:
    with pytest.raises(FedveilError, match="positive"):
        Clip(bound)


def test_another_way_of_clipping_is_refused() -> None:
    with pytest.raises(FedveilError, match=r"by must be 'flat' or 'layer', not 'rows'"):
        Clip(1.0, by="rows")


@pytest.mark.parametrize("by", ["flat", "layer"])
def test_a_bound_too_small_for_single_precision_is_refused(by: str) -> None:
    with pytest.raises(FedveilError, match="positive"):
        Clip(1e-60, by=by)
