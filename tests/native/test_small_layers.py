"""The kernels for layers of small networks against PyTorch, on every width of vectors that this machine has."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, cross_entropy, max_pool2d

from fedveil.native.calls import VECTOR_WIDTHS
from fedveil.native.small_layers import ConvolutionShape

CLIENTS, SLOTS = 3, 4

pytestmark = pytest.mark.skipif(not VECTOR_WIDTHS, reason="no compiler, or a processor without AVX2")

SHAPES = [  # channels, filters, size, kernel, stride, padding
    (1, 12, (9, 8), (5, 5), (2, 2), (2, 2)),
    (3, 7, (11, 6), (3, 2), (2, 1), (1, 0)),
    (12, 12, (7, 7), (5, 5), (2, 2), (2, 2)),
    (17, 33, (5, 6), (3, 3), (1, 1), (1, 1)),
    (40, 5, (4, 4), (4, 4), (3, 3), (3, 3)),
    (105, 64, (1, 1), (1, 1), (1, 1), (0, 0)),
    (64, 34, (4, 5), (3, 3), (1, 1), (1, 1)),  # weights are taken a kernel row or two at a time
]


def shape_of(
    channels: int,
    filters: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    *,
    planar: bool = False,
    brief: bool = False,
    relu: bool = True,
    bias: bool = True,
) -> ConvolutionShape:
    out = tuple((s + 2 * p - k) // d + 1 for s, p, k, d in zip(size, padding, kernel, stride, strict=True))
    weights, before = channels * filters * math.prod(kernel), 5
    where = before + weights if bias else -1
    total = before + weights + filters * bias + 3
    flags = (planar, brief, relu)
    sizes = (*size, *kernel, *stride, *padding, *out)
    return ConvolutionShape(CLIENTS, SLOTS, total, before, where, channels, filters, *sizes, *flags)


class Example:
    """Random parameters, inputs and deltas, and what PyTorch makes of them in double precision."""

    def __init__(self, shape: ConvolutionShape, lanes: int) -> None:
        self.shape, self.lanes = shape, lanes
        generator = torch.Generator().manual_seed(3)
        self.parameters = torch.randn(CLIENTS, shape.size, generator=generator)
        planes = (CLIENTS, SLOTS, shape.channels, shape.height, shape.width)
        self.inputs = torch.randn(planes, generator=generator)
        outputs = (CLIENTS, SLOTS, shape.out_height, shape.out_width, shape.filters)
        sparse = torch.rand(outputs, generator=generator) < 0.4
        self.delta = torch.randn(outputs, generator=generator) * sparse
        self.outputs = torch.full(outputs, 7.0)
        self.arranged = self.inputs if shape.planar else self.inputs.permute(0, 1, 3, 4, 2).contiguous()
        shape.convolve(self.parameters, self.arranged, self.outputs, lanes)

    def expected(self, client: int, slot: int) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs, the derivative by the input, the gradient `[P]`."""
        shape = self.shape
        own = self.parameters[client].double().requires_grad_()
        image = self.inputs[client, slot : slot + 1].double().requires_grad_()
        weights = own[shape.weight : shape.weight + shape.filters * shape.taps]
        kernel = weights.view(shape.filters, shape.channels, shape.kernel_height, shape.kernel_width)
        bias = None if shape.bias < 0 else own[shape.bias : shape.bias + shape.filters]
        stride = (shape.stride_height, shape.stride_width)
        out = conv2d(image, kernel, bias, stride, (shape.padding_height, shape.padding_width))
        out = out.relu() if shape.relu else out
        delta = self.delta[client, slot].permute(2, 0, 1).unsqueeze(0).double()
        by_image, row = torch.autograd.grad(out, [image, own], delta)
        return out.detach()[0].permute(1, 2, 0), by_image[0].permute(1, 2, 0), row

    def rows(self) -> Tensor:
        return torch.stack([torch.stack([self.expected(k, b)[2] for b in range(SLOTS)]) for k in range(CLIENTS)])


def close(mine: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(mine.double(), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max() + 1e-9))


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
@pytest.mark.parametrize(("planar", "brief"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_a_convolution_forwards_and_backwards(
    sizes: tuple[int, int, tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]],
    planar: bool,
    brief: bool,
    relu: bool,
    lanes: int,
) -> None:
    shape = shape_of(*sizes, planar=planar, brief=brief, relu=relu)
    example = Example(shape, lanes)
    by_inputs = torch.full((CLIENTS, SLOTS, shape.height, shape.width, shape.channels), 7.0)
    shape.reverse(example.parameters, example.outputs, example.delta, by_inputs, lanes)
    gradients = torch.full((CLIENTS, SLOTS, shape.gradient_size), 7.0)
    norms = torch.empty(CLIENTS, SLOTS)
    shape.gradients(example.arranged, example.outputs, example.delta, norms, gradients, lanes)
    factors, total = torch.rand(CLIENTS, SLOTS), torch.zeros(CLIENTS, shape.size)
    shape.collect(gradients, factors, total, lanes)
    plain = torch.zeros(CLIENTS, shape.size)
    shape.summed(example.arranged, example.outputs, example.delta, plain, lanes)
    rows = example.rows()
    for k in range(CLIENTS):
        for b in range(SLOTS):
            out, image, _ = example.expected(k, b)
            close(example.outputs[k, b], out)
            close(by_inputs[k, b], image)
    close(norms, rows.norm(dim=-1))
    close(total, (rows * factors.unsqueeze(-1)).sum(dim=1))
    close(plain, rows.sum(dim=1))


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
def test_a_convolution_without_biases_writes_only_its_own_places(lanes: int) -> None:
    shape = shape_of(3, 7, (6, 6), (3, 3), (1, 1), (1, 1), bias=False)
    example = Example(shape, lanes)
    total = torch.full((CLIENTS, shape.size), 7.0)
    shape.summed(example.arranged, example.outputs, example.delta, total, lanes)
    assert (total[:, : shape.weight] == 7).all()
    assert (total[:, shape.weight + shape.filters * shape.taps :] == 7).all()


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
def test_an_example_has_the_same_bits_in_any_slot_and_company(lanes: int) -> None:
    shape = shape_of(12, 12, (7, 7), (5, 5), (2, 2), (2, 2))
    example = Example(shape, lanes)
    alone = replace(shape, clients=1, slots=1)
    for k, b in ((0, 0), (1, 3), (2, 2)):
        outputs = torch.empty_like(example.outputs[k, b])
        alone.convolve(example.parameters[k], example.arranged[k, b], outputs, lanes)
        assert torch.equal(outputs, example.outputs[k, b])
        results = []
        for which, images, delta, out in (
            (shape, example.arranged, example.delta, example.outputs),
            (alone, example.arranged[k, b], example.delta[k, b], outputs),
        ):
            gradients, norms = (
                torch.empty(which.clients, which.slots, shape.gradient_size),
                torch.empty(which.clients, which.slots),
            )
            which.gradients(images, out, delta, norms, gradients, lanes)
            place = (k, b) if which is shape else (0, 0)
            results.append((gradients[place], norms[place]))
        assert torch.equal(results[0][0], results[1][0])
        assert torch.equal(results[0][1], results[1][1])


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_stays_with_its_example_and_is_never_lost(value: float, lanes: int) -> None:
    shape = shape_of(3, 7, (6, 6), (3, 3), (1, 1), (1, 1))
    example = Example(shape, lanes)
    example.arranged[1, 2, 4, 4, 1] = value
    example.delta[1, 2] = 0.0  # not even zero derivatives make it disappear
    example.delta[0, 1, 2, 2, 3] = value
    gradients, norms = torch.empty(CLIENTS, SLOTS, shape.gradient_size), torch.empty(CLIENTS, SLOTS)
    shape.gradients(example.arranged, example.outputs.fill_(1.0), example.delta, norms, gradients, lanes)
    spoiled = ~torch.isfinite(norms)
    assert spoiled.nonzero().tolist() == [[0, 1], [1, 2]]
    assert torch.isfinite(gradients[~spoiled]).all()
    by_inputs = torch.empty_like(example.arranged)
    shape.reverse(example.parameters, example.outputs, example.delta, by_inputs, lanes)
    assert torch.isfinite(by_inputs[1:]).all()
    assert torch.isfinite(by_inputs[0, 2:]).all()
    total = torch.empty(CLIENTS, shape.size)
    shape.summed(example.arranged, example.outputs, example.delta, total, lanes)
    assert [bool(torch.isfinite(row[shape.weight : -3]).all()) for row in total] == [False, False, True]


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
@pytest.mark.parametrize("slots", [1, 5, 12])
@pytest.mark.parametrize(("inputs", "outputs"), [(105, 64), (5, 1), (588, 10)])
def test_a_dense_layer(inputs: int, outputs: int, slots: int, lanes: int) -> None:
    size = inputs * outputs + outputs
    shape = ConvolutionShape.dense_layer((CLIENTS, slots), size, 0, inputs * outputs, (inputs, outputs))
    parameters, records = torch.randn(CLIENTS, size), torch.randn(CLIENTS, slots, inputs)
    delta, result = torch.randn(CLIENTS, slots, outputs), torch.empty(CLIENTS, slots, outputs)
    weights = parameters[:, : inputs * outputs].view(CLIENTS, outputs, inputs).double()
    shape.dense(parameters, records, result, lanes)
    close(result, records.double() @ weights.mT + parameters[:, None, -outputs:])
    by_inputs, total = torch.empty_like(records), torch.empty(CLIENTS, size)
    shape.dense_back(parameters, delta, by_inputs, lanes)
    close(by_inputs, delta.double() @ weights)
    shape.outer(records, delta, total, lanes)
    close(total[:, :-outputs], (delta.double().mT @ records.double()).flatten(1))
    close(total[:, -outputs:], delta.double().sum(dim=1))
    delta[0, -1, 0] = math.inf
    shape.dense_back(parameters, delta, by_inputs, lanes)
    assert torch.isfinite(by_inputs[0, :-1]).all()
    assert not torch.isfinite(by_inputs[0, -1]).any()


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
@pytest.mark.parametrize("bias", [True, False])
def test_norms_of_a_dense_layer_miss_neither_tiny_nor_infinite_numbers(bias: bool, lanes: int) -> None:
    inputs, outputs = 21, 10
    size = inputs * outputs + outputs
    shape = ConvolutionShape.dense_layer((1, 5), size, 0, inputs * outputs if bias else -1, (inputs, outputs))
    records, delta, norms = torch.randn(1, 5, inputs), torch.randn(1, 5, outputs), torch.empty(1, 5)
    records[0, 1] *= 1e30
    delta[0, 1] *= 1e-30  # its square is 0 in single precision, its gradient is one like any other
    records[0, 2, 20] = math.nan
    records[0, 3, 0], delta[0, 3] = math.inf, 0.0
    shape.dense_norms(records, delta, norms, lanes)
    lengths = (records.double().square().sum(dim=-1) + bias).sqrt() * delta.double().norm(dim=-1)
    fine = torch.tensor([True, True, False, False, True])
    assert torch.equal(torch.isfinite(norms[0]), fine)
    torch.testing.assert_close(norms[0, fine].double(), lengths[0, fine], rtol=1e-7, atol=0.0)


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
def test_an_example_of_a_dense_layer_has_the_same_bits_in_any_slot_and_company(lanes: int) -> None:
    inputs, outputs, slots = 37, 11, 13
    size = inputs * outputs + outputs
    parameters, records, deltas = torch.randn(1, size), torch.randn(slots, inputs), torch.randn(slots, outputs)

    def computed(chosen: list[int]) -> tuple[Tensor, Tensor]:
        shape = ConvolutionShape.dense_layer((1, len(chosen)), size, 0, inputs * outputs, (inputs, outputs))
        result, by_inputs = torch.empty(1, len(chosen), outputs), torch.empty(1, len(chosen), inputs)
        shape.dense(parameters, records[chosen], result, lanes)
        shape.dense_back(parameters, deltas[chosen], by_inputs, lanes)
        return result[0], by_inputs[0]

    forwards, backwards = computed(list(range(slots)))
    for chosen in ([7], [12, 0], [3, 1, 2], [0, 5, 10, 4, 9, 8], list(reversed(range(slots)))):
        result, by_inputs = computed(chosen)
        assert torch.equal(result, forwards[chosen])
        assert torch.equal(by_inputs, backwards[chosen])


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
@pytest.mark.parametrize(("kernel", "stride"), [((2, 2), (2, 2)), ((3, 2), (2, 1)), ((1, 4), (1, 3))])
def test_a_max_pool_picks_what_the_library_picks(kernel: tuple[int, int], stride: tuple[int, int], lanes: int) -> None:
    images = torch.randint(-2, 3, (CLIENTS * SLOTS, 19, 8, 9)).float()  # with ties
    images[0, 0, 1, 1] = math.nan
    images.requires_grad_()
    out = max_pool2d(images, kernel, stride)
    delta = torch.randn(out.shape)
    (expected,) = torch.autograd.grad(out, images, delta)
    shape = ConvolutionShape.max_pool((CLIENTS, SLOTS), 19, (8, 9), kernel, stride)
    last = images.detach().permute(0, 2, 3, 1).contiguous()
    outputs, winners = torch.empty(2, *out.permute(0, 2, 3, 1).shape)
    shape.pool(last, outputs, winners, lanes)
    torch.testing.assert_close(outputs.permute(0, 3, 1, 2), out.detach(), equal_nan=True, rtol=0, atol=0)
    result = torch.empty_like(last)
    shape.unpool(result, outputs, winners, delta.permute(0, 2, 3, 1).contiguous(), lanes)
    torch.testing.assert_close(result.permute(0, 3, 1, 2), expected)


def test_memory_that_does_not_fit_is_not_touched() -> None:
    shape = shape_of(3, 7, (6, 6), (3, 3), (1, 1), (1, 1))
    example = Example(shape, VECTOR_WIDTHS[0])
    good = (example.parameters, example.arranged, example.outputs)
    for bad in (
        (example.parameters[:2], *good[1:]),
        (example.parameters.double(), *good[1:]),
        (good[0], example.arranged.transpose(2, 3), good[2]),
    ):
        with pytest.raises(ValueError, match="does not fit"):
            shape.convolve(*bad, VECTOR_WIDTHS[0])
    with pytest.raises(ValueError, match="no vectors"):
        shape.convolve(*good, 3)
    with pytest.raises(ValueError, match="no convolution"):
        replace(shape, out_height=7)
    with pytest.raises(ValueError, match="no convolution"):
        replace(shape, size=shape.size - 20)


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
@pytest.mark.parametrize("shares", [None, [0.5, 2.0, 1.0, 3.0, 0.25]], ids=["alike", "weighted"])
def test_cross_entropy_and_its_derivative_are_pytorchs(shares: list[float] | None, lanes: int) -> None:
    outputs = (8 * torch.randn(CLIENTS, SLOTS, 5)).requires_grad_()
    labels = torch.randint(5, (CLIENTS, SLOTS))
    by_class = None if shares is None else torch.tensor(shares)
    expected = cross_entropy(outputs.flatten(0, 1), labels.flatten(), by_class, reduction="none").view(CLIENTS, SLOTS)
    (slope,) = torch.autograd.grad(expected.sum(), outputs)
    weights, losses, delta = torch.ones(CLIENTS, SLOTS), torch.empty(CLIENTS, SLOTS), torch.empty(CLIENTS, SLOTS, 5)
    weights[1, 2], labels[1, 2] = 0.0, -7  # padding may carry any label
    shape = ConvolutionShape.numbers((CLIENTS, SLOTS), 5)
    shape.classes(outputs.detach(), labels, weights, losses, delta, by_class, lanes)
    torch.testing.assert_close(losses, expected.detach() * weights)
    torch.testing.assert_close(delta, slope * weights.unsqueeze(-1))


@pytest.mark.parametrize("label", [-1, 5, 2**40])
def test_a_label_that_is_no_class_gives_no_number(label: int) -> None:
    losses, delta = torch.zeros(1, 1), torch.zeros(1, 1, 5)
    shape, weights = ConvolutionShape.numbers((1, 1), 5), torch.ones(1, 1)
    shape.classes(torch.randn(1, 1, 5), torch.tensor([[label]]), weights, losses, delta, None, VECTOR_WIDTHS[0])
    assert bool(losses.isnan().all())
    assert bool(delta.isnan().all())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_outputs_that_are_not_finite_give_a_loss_that_is_none(value: float) -> None:
    outputs, labels = torch.full((1, 1, 3), value), torch.zeros(1, 1, dtype=torch.int64)
    losses, delta = torch.zeros(1, 1), torch.zeros(1, 1, 3)
    shape = ConvolutionShape.numbers((1, 1), 3)
    shape.classes(outputs, labels, torch.ones(1, 1), losses, delta, None, VECTOR_WIDTHS[0])
    assert bool(losses.isnan().all())


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
@pytest.mark.parametrize(("channels", "sizes"), [(1, (1, 1)), (3, (4, 5)), (33, (1, 17))])
def test_images_are_turned_and_turned_back(channels: int, sizes: tuple[int, int], lanes: int) -> None:
    images = torch.randn(CLIENTS, SLOTS, sizes[0] * sizes[1], channels)
    planes, back = images.mT.contiguous(), torch.empty_like(images)
    shape = ConvolutionShape.images((CLIENTS, SLOTS), channels, sizes)
    planes.zero_()
    shape.turn(images, planes, lanes)
    replace(shape, planar=True).turn(planes, back, lanes)
    assert torch.equal(planes, images.mT)
    assert torch.equal(back, images)


@pytest.mark.parametrize("lanes", VECTOR_WIDTHS)
@pytest.mark.parametrize("count", [1, 15, 33])
def test_a_relu_and_its_way_back_keep_what_is_not_a_number(count: int, lanes: int) -> None:
    values, delta = torch.randn(CLIENTS, SLOTS, count), torch.randn(CLIENTS, SLOTS, count)
    values[0, 0, 0] = math.nan
    outputs, shape = torch.empty_like(values), ConvolutionShape.numbers((CLIENTS, SLOTS), count)
    shape.bend(values, values, outputs, lanes)
    torch.testing.assert_close(outputs, values.relu(), equal_nan=True)
    result = torch.empty_like(delta)
    shape.bend(delta, outputs, result, lanes)
    assert torch.equal(result, torch.where(outputs <= 0, 0.0, delta))
