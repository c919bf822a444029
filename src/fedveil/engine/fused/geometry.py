"""The arithmetic of a convolution: which pixels meet which weights, and the same seen from the input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

Pair = tuple[int, int]


@dataclass(frozen=True)
class Reverse:
    """One axis of the input gradient in sub-pixel form.

    Padded input position s·q + φ receives from outputs q - t through the weights φ + s·t: for every phase φ a
    convolution of stride 1 with at most ⌈k/s⌉ taps over the output's derivative. The phases share windows.
    """

    taps: int  # T = ⌈k/s⌉
    count: int  # how many q are needed to cover the input
    first_output: int  # the output position in the first place of the padded derivative (may be negative)
    skip: int  # positions to cut off in front, where the padding is not a multiple of the stride

    @staticmethod
    def of(size: int, kernel: int, stride: int, padding: int) -> Reverse:
        taps = -(-kernel // stride)
        first, last = padding // stride, (padding + size - 1) // stride
        return Reverse(taps, last - first + 1, first - (taps - 1), padding - first * stride)

    @property
    def extent(self) -> int:
        """Length of the padded derivative."""
        return self.count + self.taps - 1


@dataclass(frozen=True)
class Geometry:
    """Sizes of a convolution, (height, width) each."""

    channels: int
    filters: int
    size: Pair
    kernel: Pair
    stride: Pair
    padding: Pair

    @cached_property
    def output(self) -> Pair:
        height, width = (
            (size + 2 * padding - kernel) // stride + 1
            for size, padding, kernel, stride in zip(self.size, self.padding, self.kernel, self.stride, strict=True)
        )
        return height, width

    @property
    def padded(self) -> Pair:
        return self.size[0] + 2 * self.padding[0], self.size[1] + 2 * self.padding[1]

    @cached_property
    def pixels(self) -> int:
        """Number of output positions."""
        return self.output[0] * self.output[1]

    @cached_property
    def area(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @cached_property
    def taps(self) -> int:
        """Weights of one filter."""
        return self.channels * self.area

    @cached_property
    def reverse(self) -> tuple[Reverse, Reverse]:
        rows, columns = (
            Reverse.of(self.size[axis], self.kernel[axis], self.stride[axis], self.padding[axis]) for axis in (0, 1)
        )
        return rows, columns

    def inside(self, padded: Tensor, first_axis: int) -> Tensor:
        """The view of a padded image without its border."""
        return padded.narrow(first_axis, self.padding[0], self.size[0]).narrow(
            first_axis + 1, self.padding[1], self.size[1]
        )


def window_view(image: Tensor, window: Pair, stride: Pair, count: Pair) -> Tensor:
    """All windows of channels-last images `[K, B, H, W, C]` as a view `[K, B, *count, height, width · C]`."""
    clients, slots, _, _, channels = image.shape
    by_client, by_slot, by_row, by_column, _ = image.stride()
    return image.as_strided(
        (clients, slots, *count, window[0], window[1] * channels),
        (by_client, by_slot, stride[0] * by_row, stride[1] * by_column, by_row, 1),
        image.storage_offset(),
    )
