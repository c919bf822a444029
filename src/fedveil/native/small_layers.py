"""The kernels for convolutions of small networks (`layer_kernels.c`), with their memory checked before they touch it.

They are there where a compiler was when fedveil was installed and the processor has AVX2 or AVX-512. Whoever finds
`VECTOR_WIDTHS` empty computes with PyTorch; the results agree to rounding.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedveil.native.calls import VECTOR_WIDTHS, Call, call

MOST_TAPS = 1 << 16
"""Weights of one filter, at most."""

SPARE, MOST_ROWS = 128, 5
"""Floats behind an image, and kernel rows at a time, as in the C file."""


@dataclass(frozen=True)
class ConvolutionShape:
    """The sizes of a call: K clients with their own parameters `[K, size]` and B examples (`slots`) each.

    The fields are those of `Shape` in the C file, in its order. Inputs are channels last unless `planar`; outputs are.
    """

    clients: int
    slots: int
    size: int
    weight: int  # where the weights begin
    bias: int  # where the biases begin; −1 without
    channels: int
    filters: int
    height: int
    width: int
    kernel_height: int
    kernel_width: int
    stride_height: int
    stride_width: int
    padding_height: int
    padding_width: int
    out_height: int
    out_width: int
    planar: bool
    brief: bool  # kernel rows are short: gradients do not leave out zeros
    relu: bool  # outputs below zero are zero
    skip_height: int = 0  # pixels that a convolution leaves out at the edge
    skip_width: int = 0
    step_height: int = 1  # a convolution's outputs are every so many pixels of whole images, from a place on
    step_width: int = 1
    place_height: int = 0
    place_width: int = 0
    whole_height: int = 0  # 0: they are whole images
    whole_width: int = 0
    by_filter: int = 0  # how far apart a convolution's weights lie; 0: as a tensor [filters, channels, height, width]
    by_channel: int = 0
    by_row: int = 0
    by_column: int = 0

    def __post_init__(self) -> None:
        reach = (
            self.skip_height + (self.out_height - 1) * self.stride_height + self.kernel_height,
            self.skip_width + (self.out_width - 1) * self.stride_width + self.kernel_width,
        )
        last = (
            reach[0] <= self.height + 2 * self.padding_height,
            reach[1] <= self.width + 2 * self.padding_width,
            self.place_height + (self.out_height - 1) * self.step_height < self._whole[0],
            self.place_width + (self.out_width - 1) * self.step_width < self._whole[1],
            min(astuple(self)[20:22] + astuple(self)[24:26]) >= 0 < min(self.step_height, self.step_width),
        )
        inside = self.weight + self.filters * self.taps <= self.size and self.bias + self.filters <= self.size
        if self._of_view:
            inside = self.weight == self._last * (min(self.by_row, self.by_column) < 0)
        positive = all(number > 0 for number in (*astuple(self)[:2], *astuple(self)[5:13], *astuple(self)[15:17]))
        whole = min(self.weight, self.padding_height, self.padding_width) >= 0 and self.taps <= MOST_TAPS
        if not (all(last) and inside and positive and whole):
            raise ValueError(f"no convolution: {self}")

    @staticmethod
    def dense_layer(
        examples: tuple[int, int], size: int, weight: int, bias: int, layer: tuple[int, int]
    ) -> ConvolutionShape:
        """A dense layer of (inputs, outputs) for (clients, slots): each example is an image of one pixel.

        Not several of them one image: kernels write zeros past the end of a pixel, and zero times infinity is none.
        """
        sizes = (1, 1, 1, 1, 1, 1, 0, 0, 1, 1)
        return ConvolutionShape(*examples, size, weight, bias, *layer, *sizes, False, False, False)

    @staticmethod
    def max_pool(
        examples: tuple[int, int],
        channels: int,
        sizes: tuple[int, int],
        kernel: tuple[int, int],
        stride: tuple[int, int],
    ) -> ConvolutionShape:
        """A max pool of channels-last images, without a border, for (clients, slots)."""
        output = (sizes[0] - kernel[0]) // stride[0] + 1, (sizes[1] - kernel[1]) // stride[1] + 1
        size = channels * channels * kernel[0] * kernel[1]
        return ConvolutionShape(
            *examples, size, 0, -1, channels, channels, *sizes, *kernel, *stride, 0, 0, *output, False, False, False
        )

    @staticmethod
    def numbers(examples: tuple[int, int], count: int) -> ConvolutionShape:
        """So many numbers of each example, one by one."""
        return ConvolutionShape(*examples, 1, 0, -1, 1, 1, 1, count, 1, 1, 1, 1, 0, 0, 1, count, False, False, False)

    @staticmethod
    def images(examples: tuple[int, int], channels: int, sizes: tuple[int, int]) -> ConvolutionShape:
        """Images as they are."""
        rest = (*sizes, 1, 1, 1, 1, 0, 0, *sizes)
        return ConvolutionShape(*examples, channels**2, 0, -1, channels, channels, *rest, False, False, False)

    @property
    def _of_view(self) -> bool:
        """Whether weights lie apart, in a view that is compared when a kernel is called."""
        return self.by_filter > 0

    @property
    def _last(self) -> int:
        """How far the last weight of a kernel lies behind its first, for one channel."""
        return (self.kernel_height - 1) * abs(self.by_row) + (self.kernel_width - 1) * abs(self.by_column)

    @cached_property
    def _view(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and strides of the view."""
        sizes = self.clients, self.filters, self.channels, self.kernel_height, self.kernel_width
        return sizes, (self.size, self.by_filter, self.by_channel, abs(self.by_row), abs(self.by_column))

    @property
    def _whole(self) -> tuple[int, int]:
        """The sizes of the images that outputs are part of."""
        return self.whole_height or self.out_height, self.whole_width or self.out_width

    @property
    def taps(self) -> int:
        return self.channels * self.kernel_height * self.kernel_width

    @cached_property
    def gradient_size(self) -> int:
        """Numbers in one example's gradient."""
        return self.filters * (self.taps + (self.bias >= 0))

    @cached_property
    def _numbers(self) -> bytes:
        area = self.kernel_height * self.kernel_width
        usual = astuple(self)[-4:] if self._of_view else (self.taps, area, self.kernel_width, 1)
        return np.array((*astuple(self)[:-6], *self._whole, *usual), np.int32).tobytes()

    @cached_property
    def _counts(self) -> dict[str, int]:
        examples = self.clients * self.slots
        return {
            "P": self.clients * self.size,
            "I": examples * self.channels * self.height * self.width,
            "O": examples * self.filters * self._whole[0] * self._whole[1],
            "G": examples * self.gradient_size,
            "N": examples,
            "n": examples,
            "L": examples,
            "W": self.width,
            "R": 2,
        }

    @cached_property
    def _room(self) -> NDArray[np.float32]:
        """Memory for whatever a kernel keeps while it runs, at most."""
        pixels, lines = self.out_height * self.out_width, self.height + 2 * self.padding_height
        wide, depth = _up(self.filters), min(_up(self.channels), self.channels * 4 // 3 + 1)
        images = lines * (self.width + 2 * self.padding_width) * depth + 2 * SPARE
        matrix = (wide + 1) * (self.kernel_height + MOST_ROWS) * (self.kernel_width * depth + SPARE)
        rest = 4 * (pixels + self.taps + wide) + 1024
        return np.empty(self.slots * (images + pixels * (1 + 2 * wide)) + matrix + rest, np.float32)

    def seen_through(self, kernels: Tensor, *, turned: bool = False) -> ConvolutionShape:
        """The same with kernels `[K, filters, channels, height, width]` that need not lie side by side.

        With `turned` the last is taken for the first, along both axes.
        """
        return _seen_through(self, kernels.stride(), turned)

    def convolve(self, parameters: Tensor, inputs: Tensor, outputs: Tensor, lanes: int) -> None:
        """Write the outputs."""
        self._run(0, lanes, "VIO" if self._of_view else "PIO", parameters, inputs, outputs)

    def reverse(self, parameters: Tensor, outputs: Tensor, delta: Tensor, result: Tensor, lanes: int) -> None:
        """Write the derivative by the inputs, channels last, from that by the outputs."""
        self._run(1, lanes, "POOI", parameters, outputs, delta, result)

    def gradients(
        self, inputs: Tensor, outputs: Tensor, delta: Tensor, norms: Tensor, gradients: Tensor, lanes: int
    ) -> None:
        """Write every example's gradient by weights and biases, in the kernels' order, and its norm.

        The squares of 1,024 numbers are added in single precision, in at least eight running sums, and these in double
        precision: a norm is off by less than 1e-5 of itself.
        """
        self._run(2, lanes, "IOONG", inputs, outputs, delta, norms, gradients)

    def summed(self, inputs: Tensor, outputs: Tensor, delta: Tensor, total: Tensor, lanes: int) -> None:
        """Write the sum of each client's gradients into its places in `total` `[K, size]`."""
        self._run(2, lanes, "IOOnP", inputs, outputs, delta, None, total)

    def collect(self, gradients: Tensor, factors: Tensor, total: Tensor, lanes: int) -> None:
        """Write the sum of each client's gradients times their factors, added in their order, in single precision."""
        self._run(3, lanes, "GNP", gradients, factors, total)

    def dense(self, parameters: Tensor, inputs: Tensor, outputs: Tensor, lanes: int) -> None:
        """Write the outputs of a dense layer: inputs are channels, outputs are filters of a single pixel."""
        self._run(4, lanes, "PIO", parameters, inputs, outputs)

    def dense_back(self, parameters: Tensor, delta: Tensor, result: Tensor, lanes: int) -> None:
        """Write the derivative by the inputs of a dense layer, from that by the outputs."""
        self._run(7, lanes, "POI", parameters, delta, result)

    def dense_norms(self, inputs: Tensor, delta: Tensor, norms: Tensor, lanes: int) -> None:
        """Write the norm of every example's gradient by a dense layer's weights and biases.

        Squares are added in double precision: a norm is off by less than 1e-7 of itself, and the squares of tiny
        numbers do not vanish.
        """
        self._run(8, lanes, "ION", inputs, delta, norms)

    def outer(self, inputs: Tensor, delta: Tensor, total: Tensor, lanes: int, factors: Tensor | None = None) -> None:
        """Write the sum of a dense layer's gradients, products of `delta` times factors and inputs, in their order."""
        self._run(5, lanes, "IOPN", inputs, delta, total, factors)

    def pool(self, inputs: Tensor, outputs: Tensor, winners: Tensor, lanes: int) -> None:
        """Write the largest number of each window, channel by channel, and its place in the window."""
        self._run(6, lanes, "IOO", inputs, outputs, winners)

    def unpool(self, result: Tensor, outputs: Tensor, winners: Tensor, delta: Tensor, lanes: int) -> None:
        """Write the derivative by a pool's inputs."""
        self._run(6, lanes, "IOOO", result, outputs, winners, delta)

    def classes(
        self,
        outputs: Tensor,
        labels: Tensor,
        weights: Tensor,
        losses: Tensor,
        delta: Tensor,
        shares: Tensor | None,
        lanes: int,
    ) -> None:
        """Write the cross-entropy of every example's outputs and its derivative by them; zeros where a weight is 0.

        `shares` are weights of the classes. A label that is no class gives what is not a number.
        """
        self._run(10, lanes, "ILNNOW", outputs, labels, weights, losses, delta, shares)

    def lengthen(self, lengths: Tensor, norms: Tensor, lanes: int) -> None:
        """Write the lengths of gradients up to one more layer with these norms; without `relu` it is the first."""
        self._run(15, lanes, "NN", norms, lengths)

    def clip(
        self,
        norms: Tensor,
        lengths: Tensor,
        weights: Tensor,
        losses: Tensor,
        limit: Tensor,
        factors: Tensor,
        lanes: int,
    ) -> None:
        """Write min(1, limit / length) of every example; zeros where a weight is 0, or a length or a loss not finite.

        `limit` has a second number: where it is not 0 a layer's own norm counts as the length.
        """
        self._run(15, lanes, "NNNNNR", norms, lengths, factors, weights, losses, limit)

    def bend(self, values: Tensor, outputs: Tensor, result: Tensor, lanes: int) -> None:
        """Write values with zeros where outputs are not positive: a ReLU of `values` themselves, or the way back."""
        self._run(9, lanes, "IOO", values, outputs, result)

    def turn(self, inputs: Tensor, outputs: Tensor, lanes: int) -> None:
        """Write channels-last images as `[C, H, W]`; with `planar` the way back."""
        self._run(11, lanes, "IO", inputs, outputs)

    def _run(self, kernel: int, lanes: int, kinds: str, *memory: Tensor | None) -> None:
        if lanes not in VECTOR_WIDTHS:
            raise ValueError(f"this machine has no vectors of {lanes} floats")
        for kind, tensor in zip(kinds, memory, strict=True):
            if tensor is None:
                continue
            known = tensor.dtype == (torch.int64 if kind == "L" else torch.float32)
            if kind == "V":
                fits = (tensor.shape, tensor.stride()) == self._view
            else:
                fits = tensor.numel() == self._counts[kind] and tensor.is_contiguous()
            if not (fits and known):
                raise ValueError(f"memory of shape {tuple(tensor.shape)} does not fit {self}")
        call(Call(kernel, lanes, self.clients, self._numbers, self._room, memory))


@lru_cache(maxsize=512)
def sizes_of(**numbers: int) -> bytes:
    """`Shape` of the C file, for kernels that need no more of it than these fields of `ConvolutionShape`."""
    return np.array([numbers.get(field.name, 0) for field in fields(ConvolutionShape)], np.int32).tobytes()


@lru_cache(maxsize=256)
def _seen_through(shape: ConvolutionShape, strides: tuple[int, ...], turned: bool) -> ConvolutionShape:
    size, by_filter, by_channel, by_row, by_column = strides
    side, last = (-1 if turned else 1), (shape.kernel_height - 1) * by_row + (shape.kernel_width - 1) * by_column
    return replace(
        shape,
        size=size,
        weight=last if turned else 0,
        by_filter=by_filter,
        by_channel=by_channel,
        by_row=side * by_row,
        by_column=side * by_column,
    )


def _up(count: int) -> int:
    return -(-count // 16) * 16
