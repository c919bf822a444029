"""The hand-batched path against gradients taken one example at a time by automatic differentiation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import cross_entropy

from fedveil.core.norms import lengths
from fedveil.core.parameters import Layout
from fedveil.engine.fused import Fused
from fedveil.engine.fused import convolution as convolution_module
from fedveil.engine.fused import network as network_module
from fedveil.engine.fused.through_stages import GroupByGroup, StageByStage
from fedveil.engine.gradients import Batch, Factors, WatchedLimit
from fedveil.mechanisms.clip import Clip, Limit
from fedveil.native.calls import VECTOR_WIDTHS, NotRecorded

CLASSES = 4


ARRANGEMENTS = [(0, 1), *[(lanes, near) for lanes in VECTOR_WIDTHS[:1] for near in (1, 1 << 20)]]
"""Floats in a vector (none: PyTorch), and bytes of clients who go together: one by one, or all of a test's."""


@pytest.fixture(scope="module", autouse=True, params=ARRANGEMENTS, ids=str)
def lanes(request: pytest.FixtureRequest) -> Iterator[int]:
    """Every test runs on PyTorch alone, and with the kernels in C where there are some."""
    lanes, near = request.param
    with (
        patch.object(network_module, "VECTOR_WIDTHS", (lanes,) if lanes else ()),
        patch.object(network_module, "_NEAR", near),
    ):
        yield lanes


def clip(norms: Tensor) -> Tensor:
    return (0.3 / norms).clamp(max=1.0)


def watch(norms: Tensor, factors: Tensor) -> None:
    """Nothing that is not finite is shown, and nothing longer than the limit passes."""
    assert torch.isfinite(norms).all()
    assert (factors <= 1).all()
    assert (norms * factors).max() <= 0.3 * (1 + 1e-5)


FLAT, BY_LAYER = (WatchedLimit(Limit(0.3, by), watch) for by in ("flat", "layer"))

WITH_AND_WITHOUT_CLIPPING = pytest.mark.parametrize(
    "factors", [clip, FLAT, BY_LAYER, None], ids=["by a function", "flat", "by layer", "plain"]
)


def example(
    model: nn.Module, shape: tuple[int, ...], clients: int = 3, slots: int = 4, seed: int = 0
) -> tuple[Tensor, Batch]:
    generator = torch.Generator().manual_seed(seed)
    size = Layout.of(model).size
    parameters = 0.3 * torch.randn(clients, size, generator=generator)
    inputs = torch.randn(clients, slots, *shape, generator=generator)
    labels = torch.randint(CLASSES, (clients, slots), generator=generator)
    return parameters, Batch(inputs, labels, torch.ones(clients, slots))


def reference(model: nn.Module, parameters: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Rows `[K, B, P]`, losses `[K, B]` and norms `[K, B, M]`, in double precision."""
    layout = Layout.of(model)

    def loss(flat: Tensor, image: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(model, layout.split(flat), (image.unsqueeze(0),))
        return cross_entropy(logits, label.unsqueeze(0))

    one = vmap(vmap(grad_and_value(loss), in_dims=(None, 0, 0)))
    rows, losses = one(parameters.double(), batch.inputs.double(), batch.labels)
    present = batch.weights.double()
    rows, losses = rows * present.unsqueeze(-1), losses * present
    return rows, losses, torch.stack([rows[..., part].norm(dim=-1) for part in layout.group_slices], dim=-1)


def close(actual: Tensor, expected: Tensor) -> None:
    """Within 1e-5 of the largest entry: single entries may nearly cancel."""
    assert actual.shape == expected.shape
    scale = float(expected.abs().max()) if expected.numel() else 1.0
    torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-5 * scale + 1e-9)


def check(model: nn.Module, shape: tuple[int, ...], clients: int = 3, slots: int = 4) -> None:
    """Clipped sums, plain sums and rows all agree with the reference, also with a slot of padding."""
    fused = Fused.build(model, shape)
    assert fused is not None
    parameters, batch = example(model, shape, clients, slots)
    if slots > 1:
        batch.weights[0, -1] = 0.0
    rows, losses, norms = reference(model, parameters, batch)
    sizes = torch.tensor([part.stop - part.start for part in fused.layout.group_slices])
    for factors in (clip, FLAT, BY_LAYER, clip):  # the second time, memory is reused
        outcome = fused.sums(parameters, batch, factors)
        wanted = factors.limit(norms) if isinstance(factors, WatchedLimit) else factors(norms)
        scales = torch.repeat_interleave(wanted, sizes, dim=-1)
        close(outcome.total, (rows * scales.nan_to_num()).sum(dim=1))
        close(outcome.losses, losses.sum(dim=-1))
        assert outcome.norms is not None
        close(outcome.norms, norms)
        assert outcome.rejected.tolist() == [0] * clients
        plain = fused.sums(parameters, batch, None)
        close(plain.total, rows.sum(dim=1))
        close(plain.losses, losses.sum(dim=-1))
        assert plain.norms is None
        single = fused.rows(parameters, batch)
        close(single.rows, rows)
        close(single.losses, losses)
        close(single.norms, norms)


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(2, 5, 3, stride=2, padding=1),
        nn.Sigmoid(),
        nn.Conv2d(5, 6, 3, padding=1),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(6 * 25, CLASSES),
    )


SHAPE = (2, 9, 9)

ACTIVATIONS = [nn.ReLU(), nn.Sigmoid(), nn.Tanh(), nn.ELU(0.7), nn.GELU("tanh"), nn.Identity()]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_dense_network_agrees_with_reference(activation: nn.Module) -> None:
    check(nn.Sequential(nn.Linear(7, 6), activation, nn.Linear(6, CLASSES)), (7,))


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_convolutional_network_agrees_with_reference(activation: nn.Module) -> None:
    check(
        nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1),
            activation,
            nn.Conv2d(3, 5, 3, stride=2),
            activation,
            nn.Flatten(),
            nn.Linear(5 * 9, CLASSES),
        ),
        (2, 8, 7),
    )


@pytest.mark.parametrize("bias", [True, False])
def test_layers_with_and_without_bias_agree_with_reference(bias: bool) -> None:
    check(
        nn.Sequential(
            nn.Conv2d(1, 3, 3, bias=bias),
            nn.ReLU(),
            nn.Conv2d(3, 4, 2, bias=bias),
            nn.Flatten(),
            nn.Linear(4 * 16, 5, bias=bias),
            nn.Tanh(),
            nn.Linear(5, CLASSES, bias=bias),
        ),
        (1, 7, 7),
    )


@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.MaxPool2d((2, 3), stride=(1, 2), ceil_mode=True),
        nn.MaxPool2d(2, dilation=2, stride=1),
        nn.AvgPool2d(2),
        nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
        nn.AvgPool2d(2, ceil_mode=True, divisor_override=3),
    ],
    ids=str,
)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Sigmoid()], ids=str)
def test_pooling_agrees_with_reference(pool: nn.Module, channels: int, activation: nn.Module) -> None:
    front = nn.Sequential(nn.Conv2d(2, channels, 3, padding=1), activation, pool, nn.Conv2d(channels, 3, 2))
    features = front(torch.zeros(1, 2, 9, 9)).numel()
    check(nn.Sequential(front, nn.ReLU(), nn.Flatten(), nn.Linear(features, CLASSES)), (2, 9, 9))


@st.composite
def stacks(draw: st.DrawFn) -> tuple[nn.Sequential, tuple[int, ...]]:
    """A network of known layers in any order, and the shape of its records."""
    shape = draw(st.sampled_from([(1, 9, 9), (2, 8, 7), (3, 6, 6)]))
    values, layers = torch.zeros(1, *shape), list[nn.Module]()
    for _ in range(draw(st.integers(1, 6))):
        channels, smallest = values.shape[1], min(values.shape[2:])
        kernel, stride = draw(st.integers(1, min(3, smallest))), draw(st.integers(1, 2))
        layer = draw(
            st.sampled_from(
                [
                    nn.Conv2d(channels, draw(st.sampled_from([1, 3, 17])), kernel, stride, padding=kernel // 2),
                    nn.MaxPool2d(kernel, stride),
                    nn.AvgPool2d(kernel, stride),
                    *ACTIVATIONS[:3],
                ]
            )
        )
        layers.append(layer)
        values = layer(values)
    layers.append(nn.Flatten())
    for _ in range(draw(st.integers(0, 2))):
        layers += [nn.Linear(values.flatten(1).shape[1], 5), draw(st.sampled_from(ACTIVATIONS[:3]))]
        values = torch.zeros(1, 5)
    return nn.Sequential(*layers, nn.Linear(values.flatten(1).shape[1], CLASSES)), shape


@settings(deadline=None)
@given(stack=stacks(), clients=st.integers(1, 3), slots=st.integers(1, 3))
def test_known_layers_in_any_order_agree_with_reference(
    stack: tuple[nn.Sequential, tuple[int, ...]], clients: int, slots: int
) -> None:
    check(*stack, clients, slots)


@pytest.mark.parametrize("pool", [nn.MaxPool2d(2), nn.MaxPool2d(2, ceil_mode=True), nn.AvgPool2d(2)], ids=str)
def test_a_pool_whose_outputs_are_flattened_agrees_with_reference(pool: nn.Module) -> None:
    front = nn.Sequential(nn.Conv2d(2, 5, 3), nn.Sigmoid(), pool, nn.Flatten())
    features = front(torch.zeros(1, 2, 9, 8)).numel()
    check(nn.Sequential(front, nn.Linear(features, CLASSES)), (2, 9, 8))


@pytest.mark.parametrize(
    "front",
    [
        nn.Sequential(nn.Flatten(), nn.Linear(2 * 36, CLASSES)),
        nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(12, CLASSES)),
        nn.Sequential(nn.AvgPool2d(2), nn.Tanh(), nn.Flatten(), nn.Flatten(), nn.Linear(18, CLASSES)),
        nn.Sequential(nn.ReLU(), nn.Conv2d(2, CLASSES, 6), nn.Flatten(), nn.Dropout(0.0)),
        nn.Sequential(nn.Conv2d(2, 3, 6), nn.Flatten(), nn.Sigmoid(), nn.ReLU(), nn.Linear(3, CLASSES), nn.ELU()),
    ],
    ids=str,
)
def test_unusual_orders_of_layers_agree_with_reference(front: nn.Module) -> None:
    inputs = torch.ones(1, 2, 6, 6)
    before = inputs.clone()
    check(front, (2, 6, 6))
    assert torch.equal(inputs, before)


def test_a_single_dense_layer_is_a_network() -> None:
    check(nn.Linear(5, CLASSES), (5,))


def test_wide_convolution_agrees_with_reference() -> None:
    check(
        nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(4, 64, 5, padding=(2, 1)),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 6, CLASSES),
        ),
        (1, 6, 6),
        slots=2,
    )


small = st.integers(1, 3)


LARGEST_PATCHES = [0, 10**9]
"""Above which a gradient by the input is the library's work: always, never."""


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    first=st.tuples(small, small, small, small, st.integers(0, 3), st.integers(0, 2)),
    second=st.tuples(st.integers(1, 4), st.integers(1, 4), small, small, st.integers(0, 3), st.integers(0, 3)),
    size=st.tuples(st.integers(5, 9), st.integers(5, 9)),
    clients=st.integers(1, 3),
    slots=st.integers(1, 3),
    largest=st.sampled_from(LARGEST_PATCHES),
)
def test_any_kernel_stride_and_padding_agrees_with_reference(
    first: tuple[int, ...], second: tuple[int, ...], size: tuple[int, int], clients: int, slots: int, largest: int
) -> None:
    def convolution(inputs: int, outputs: int, shape: tuple[int, ...]) -> nn.Conv2d:
        return nn.Conv2d(inputs, outputs, shape[0:2], stride=shape[2:4], padding=shape[4:6])  # type: ignore[arg-type]

    front = nn.Sequential(convolution(2, 3, first), nn.Tanh(), convolution(3, 2, second), nn.Sigmoid())
    try:
        features = front(torch.zeros(1, 2, *size)).numel()
    except RuntimeError:  # the kernel is larger than what is left of the image
        return
    with patch.object(convolution_module, "_LARGE_PATCHES", largest):
        check(nn.Sequential(front, nn.Flatten(), nn.Linear(features, CLASSES)), (2, *size), clients, slots)


def wide() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(2, 6, 5, padding=2),
        nn.GELU("tanh"),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4, CLASSES),
    )


def dense() -> nn.Sequential:
    return nn.Sequential(nn.Linear(33, 17), nn.ELU(), nn.Linear(17, 9), nn.ReLU(), nn.Linear(9, CLASSES))


def usual() -> nn.Sequential:
    """A network of parts that all have kernels in C."""
    return nn.Sequential(
        nn.Conv2d(2, 7, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(7, 18, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(18 * 16, 19),
        nn.ReLU(),
        nn.Linear(19, CLASSES),
    )


def test_a_network_of_usual_parts_agrees_with_reference() -> None:
    check(usual(), SHAPE, clients=5)


@WITH_AND_WITHOUT_CLIPPING
def test_a_few_clients_at_a_time_through_all_stages_give_the_bits_of_stage_after_stage(
    factors: Factors | None, lanes: int
) -> None:
    if not lanes:
        pytest.skip("on PyTorch all clients go through every stage together")
    in_groups, by_stage = Fused.build(usual(), SHAPE), Fused.build(usual(), SHAPE)
    assert in_groups is not None
    assert by_stage is not None
    parameters, batch = example(usual(), SHAPE, clients=5)
    batch.weights[1, 2] = 0.0
    batch.inputs[3, 1] = float("nan")
    assert isinstance(in_groups._passes.of(5, 4), GroupByGroup)
    with patch.object(network_module, "GroupByGroup", side_effect=NotRecorded):
        assert isinstance(by_stage._passes.of(5, 4), StageByStage)
    first, second = (fused.sums(parameters, batch, factors) for fused in (in_groups, by_stage))
    assert torch.equal(first.losses, second.losses)
    if isinstance(factors, WatchedLimit):  # lengths over layers are not added up in the same order
        close(first.total, second.total.double())
    else:
        assert torch.equal(first.total, second.total)
    assert first.rejected.tolist() == [0, 0, 0, 1, 0]


def test_a_network_with_another_part_goes_stage_after_stage(lanes: int) -> None:
    fused = Fused.build(dense(), (33,))
    assert fused is not None
    assert isinstance(fused._passes.of(3, 4), StageByStage)


@pytest.mark.parametrize("slots", [1, 5])
@WITH_AND_WITHOUT_CLIPPING
@pytest.mark.parametrize("largest", LARGEST_PATCHES)
@pytest.mark.parametrize(
    ("model", "shape"),
    [(convolutional(), SHAPE), (wide(), SHAPE), (dense(), (33,)), (usual(), SHAPE)],
    ids=["small", "wide", "dense", "usual"],
)
def test_a_client_is_bit_identical_in_any_company(
    model: nn.Module,
    shape: tuple[int, ...],
    factors: Factors | None,
    slots: int,
    largest: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(convolution_module, "_LARGE_PATCHES", largest)
    fused = Fused.build(model, shape)
    assert fused is not None
    parameters, batch = example(model, shape, clients=25, slots=slots)
    batch.inputs[5, 0] = batch.inputs[13, 0] = float("nan")
    together = fused.sums(parameters, batch, factors)
    total = together.total.clone()
    for part in (slice(0, 1), slice(13, 14), slice(24, 25), slice(4, 7), slice(9, 25)):
        some = Batch(batch.inputs[part], batch.labels[part], batch.weights[part])
        apart = fused.sums(parameters[part].clone(), some, factors)
        assert torch.equal(apart.total, total[part])
        assert torch.equal(apart.losses, together.losses[part])
        if factors is not None:
            assert together.norms is not None
            assert apart.norms is not None
            assert torch.equal(apart.norms, together.norms[part])


@WITH_AND_WITHOUT_CLIPPING
def test_where_the_parameters_lie_in_memory_does_not_matter(factors: Factors | None) -> None:
    model = convolutional()
    fused = Fused.build(model, SHAPE)
    assert fused is not None
    parameters, batch = example(model, SHAPE)
    expected = fused.sums(parameters, batch, factors).total.clone()
    spread = torch.zeros(3, parameters.shape[1] + 5)
    spread[:, 3:-2] = parameters
    assert torch.equal(fused.sums(spread[:, 3:-2], batch, factors).total, expected)
    common = parameters[:1].expand(3, -1)
    alike = fused.sums(common, batch, factors).total.clone()
    assert torch.equal(alike, fused.sums(common.contiguous(), batch, factors).total)
    assert torch.equal(alike[0], expected[0])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
@WITH_AND_WITHOUT_CLIPPING
def test_an_example_that_is_not_finite_is_counted_and_contributes_zero(value: float, factors: Factors | None) -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 49, CLASSES))
    fused = Fused.build(model, SHAPE)
    assert fused is not None
    parameters, batch = example(model, SHAPE)
    healthy = fused.sums(parameters, batch, factors)
    expected, losses = healthy.total.clone(), healthy.losses.clone()
    without = batch.weights.clone()
    without[1, 2] = 0.0
    left_out = fused.sums(parameters, replace(batch, weights=without), factors)
    expected[1], losses[1] = left_out.total[1], left_out.losses[1]

    spoiled = replace(batch, inputs=batch.inputs.clone())
    spoiled.inputs[1, 2] = value
    outcome = fused.sums(parameters, spoiled, factors)
    assert outcome.rejected.tolist() == [0, 1, 0]
    close(outcome.total, expected.double())
    close(outcome.losses, losses.double())
    assert torch.equal(outcome.total[[0, 2]], expected[[0, 2]])
    if factors is not None:
        assert outcome.norms is not None
        assert outcome.norms[1, 2].tolist() == [0.0, 0.0]
    alone = fused.rows(parameters, spoiled)
    assert alone.rejected.tolist() == [0, 1, 0]
    assert not alone.rows[1, 2].any()
    assert torch.isfinite(alone.rows).all()
    # And nothing of it lingers in reused memory.
    again = fused.sums(parameters, batch, factors)
    assert torch.equal(again.total, healthy.total)
    assert again.rejected.tolist() == [0, 0, 0]


def test_clipping_sees_all_clients_even_when_one_is_not_finite() -> None:
    """Bounds may differ from client to client, so the factors are asked once, for everybody."""
    model = dense()
    fused = Fused.build(model, (33,))
    assert fused is not None
    parameters, batch = example(model, (33,))
    batch.inputs[2, 0] = float("nan")
    asked: list[Tensor] = []

    def by_client(norms: Tensor) -> Tensor:
        asked.append(norms)
        return torch.tensor([0.0, 0.5, 1.0]).view(3, 1, 1).expand_as(norms)

    outcome = fused.sums(parameters, batch, by_client)
    assert len(asked) == 1
    assert torch.isfinite(asked[0]).all()
    rows = fused.rows(parameters, batch).rows
    close(outcome.total, (rows.sum(dim=1) * torch.tensor([[0.0], [0.5], [1.0]])).double())


@WITH_AND_WITHOUT_CLIPPING
def test_padding_with_garbage_counts_for_nothing(factors: Factors | None) -> None:
    model = convolutional()
    fused = Fused.build(model, SHAPE)
    assert fused is not None
    parameters, batch = example(model, SHAPE)
    batch.weights[0, 1] = batch.weights[2] = 0.0
    expected = fused.sums(parameters, batch, factors)
    total, losses = expected.total.clone(), expected.losses
    for garbage in (1e4, 3e38):
        batch.inputs[0, 1] = batch.inputs[2] = garbage
        batch.labels[0, 1] = -100
        outcome = fused.sums(parameters, batch, factors)
        close(outcome.total, total.double())
        assert torch.equal(outcome.losses, losses)
        assert outcome.rejected.tolist() == [0, 0, 0]
        assert not outcome.total[2].any()
        if factors is not None:
            assert outcome.norms is not None
            assert not outcome.norms[0, 1].any()


def test_inputs_and_parameters_are_left_alone() -> None:
    for model, shape in ((convolutional(), SHAPE), (nn.Sequential(nn.ReLU(), nn.Linear(5, CLASSES)), (5,))):
        fused = Fused.build(model, shape)
        assert fused is not None
        parameters, batch = example(model, shape)
        before = parameters.clone(), batch.inputs.clone()
        fused.sums(parameters, batch, clip)
        assert torch.equal(parameters, before[0])
        assert torch.equal(batch.inputs, before[1])


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


def shared() -> nn.Module:
    one, two = nn.Linear(4, 4), nn.Linear(4, 4)
    two.weight = one.weight
    return nn.Sequential(one, two)


def repeated() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].weight.requires_grad_(False)
    return model


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4))
    model[0].register_forward_hook(lambda module, inputs, outputs: outputs * 2)
    return model


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(18, 4)), (1, 5, 5)),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.Flatten(), nn.Linear(18, 4)), (1, 5, 5)),
        (nn.Sequential(nn.Conv2d(1, 2, 3, dilation=2), nn.Flatten(), nn.Linear(2, 4)), (1, 5, 5)),
        (nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.Flatten(), nn.Linear(18, 4)), (2, 5, 5)),
        (nn.Sequential(nn.Conv2d(1, 2, 3, padding="same"), nn.Flatten(), nn.Linear(50, 4)), (1, 5, 5)),
        (
            nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), nn.Flatten(), nn.Linear(50, 4)),
            (1, 5, 5),
        ),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), (4,)),
        (nn.Sequential(nn.Linear(4, 4), nn.GELU()), (4,)),
        (nn.Sequential(Doubled(4, 4)), (4,)),
        (shared(), (4,)),
        (repeated(), (4,)),
        (frozen(), (4,)),
        (hooked(), (4,)),
        (nn.Sequential(nn.Linear(4, 4)).double(), (4,)),
        (nn.Sequential(nn.ReLU()), (4,)),
        (nn.Sequential(nn.Linear(4, 4)), (3, 4)),
        (nn.Sequential(nn.Conv2d(1, 2, 3)), (1, 5, 5)),
        (nn.Sequential(nn.Linear(4, 4)), (5,)),
        (nn.Sequential(nn.Embedding(4, 4)), (4,)),
    ],
    ids=lambda value: None if isinstance(value, tuple) else " ".join(str(value).split())[:60],
)
def test_unknown_parts_leave_the_model_to_the_general_path(model: nn.Module, shape: tuple[int, ...]) -> None:
    assert Fused.build(model, shape) is None


def test_recommended_clients_shrink_with_the_working_set() -> None:
    small_net, large_net = Fused.build(dense(), (33,)), Fused.build(wide(), SHAPE)
    assert small_net is not None
    assert large_net is not None
    assert small_net.recommended_clients(3) == 64
    assert 1 <= large_net.recommended_clients(64) < large_net.recommended_clients(16) < 64
    assert large_net.recommended_clients(2) < large_net.recommended_clients(2, noised=True) <= 64


def test_a_tiny_error_times_an_enormous_input_does_not_pass_for_zero() -> None:
    """The squares of 1e-22 vanish in single precision; the gradient 1e-22 · 1e18 does not."""
    from fedveil.engine.fused.dense import _bound

    rows = torch.tensor([[1e-22, -1e-22, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    bounds = _bound(rows, lengths(rows))
    assert 1.4e-22 <= float(bounds[0]) <= 2e-22
    assert bounds[1:].tolist() == [5.0, 0.0]


@pytest.mark.parametrize("bound", [1e-3, 1e-5])
def test_tiny_inputs_under_enormous_weights_are_clipped_too(bound: float) -> None:
    """Squares of the inputs vanish in single precision; what they are multiplied with does not."""
    model = nn.Sequential(nn.Linear(3136, 8, bias=False), nn.Tanh(), nn.Linear(8, 2, bias=False))
    with torch.no_grad():
        model[0].weight.zero_()
        model[2].weight.copy_(torch.tensor([[4e18], [0.0]]).expand(2, 8))
    fused = Fused.build(model, (3136,))
    assert fused is not None
    inputs = 2.5e-23 * torch.rand(1, 1, 3136, generator=torch.Generator().manual_seed(0))
    batch = Batch(inputs, torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, 1))
    for limit in (Clip(bound).limit(bound), Clip(bound, by="layer").limit(bound / 2)):
        for factors in (limit, WatchedLimit(limit, lambda norms, factors: None)):
            found = fused.sums(fused.layout.vector(model)[None], batch, factors)
            assert 0 < float(found.total.double().norm()) <= bound
