"""A convolution's window over channels-last pictures, in one form for every stride.

A picture is cut into blocks of stride × stride pixels, and a block's pixels become its channels. On blocks every
convolution has stride 1: its patches are a few long runs of memory, and going back is a convolution again (of the
errors, with the kernel turned), which needs no scattered additions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Kernel:
    """The window of one convolution over pictures of one size."""

    channels: int
    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    picture: tuple[int, int]
    places: tuple[int, int]  # outputs along each side
    reach: tuple[int, int]  # of the kernel, in blocks

    @staticmethod
    def of(layer: nn.Conv2d, picture: torch.Size) -> Kernel:
        assert not isinstance(layer.padding, str)
        return _kernel(layer.in_channels, *map(_pair, (layer.kernel_size, layer.stride, layer.padding, picture)))

    @cached_property
    def blocks(self) -> tuple[int, int]:
        return self.places[0] + self.reach[0] - 1, self.places[1] + self.reach[1] - 1

    @cached_property
    def used(self) -> tuple[int, int]:
        """How much of the picture the windows touch."""
        (high, wide), (down, along) = self.blocks, self.stride
        rows, columns = self.picture
        return min(rows, high * down - self.padding[0]), min(columns, wide * along - self.padding[1])

    def forward(self, weight: Tensor) -> Tensor:
        """Kernels `[…, out, in, *size]` as matrices that patches are multiplied with: `[…, patch, out]`."""
        leading = weight.shape[:-4]
        order = [len(leading) + axis for axis in (2, 3, 1, 0)]
        whole = weight.permute(*range(len(leading)), *order)  # channels to the end first: the rest are long runs
        if self.stride != (1, 1):
            (high, wide), (down, along) = self.reach, self.stride
            whole = functional.pad(whole, (0, 0, 0, 0, 0, wide * along - self.size[1], 0, high * down - self.size[0]))
            whole = whole.reshape(*leading, high, down, wide, along, *whole.shape[-2:]).transpose(-4, -5)
        return whole.reshape(*leading, -1, weight.shape[-4])

    def weight(self, products: Tensor) -> Tensor:
        """The way back: `[groups, out, patch]` as kernels `[groups, out, in, *size]`."""
        (high, wide), (down, along), leading = self.reach, self.stride, products.shape[:2]
        parts = products.view(*leading, high, wide, down, along, self.channels).transpose(3, 4)
        whole = parts.reshape(*leading, high * down, wide * along, self.channels)
        return whole[:, :, : self.size[0], : self.size[1]].permute(0, 1, 4, 2, 3)

    def turned(self, matrix: Tensor) -> Tensor:
        """From `forward`'s matrix the one of the way back: `[…, patch of errors, channels of a block]`."""
        reach = self.reach[0] * self.reach[1]
        parts = matrix.view(*matrix.shape[:-2], reach, -1, matrix.shape[-1]).flip(-3).mT
        return parts.reshape(*matrix.shape[:-2], -1, matrix.shape[-2] // reach)

    def patches(self, pictures: Tensor) -> Tensor:
        """`[N, places, patch]` of pictures `[N, rows, columns, channels]`."""
        (high, wide), (down, along), (top, left) = self.blocks, self.stride, self.padding
        rows, columns = self.used
        count, channels = len(pictures), pictures.shape[3]
        padded = pictures.new_zeros(count, high * down, wide * along, channels)
        padded[:, top : top + rows, left : left + columns] = pictures[:, :rows, :columns]
        if self.stride != (1, 1):
            padded = padded.view(count, high, down, wide, along, channels).transpose(2, 3)
        return patches(padded.reshape(count, high, wide, -1), self.reach)

    @cached_property
    def inner(self) -> tuple[range, range]:
        """The blocks in which there are pixels, not only padding."""
        ends = [self.padding[d] + self.used[d] for d in (0, 1)]
        rows, columns = (range(self.padding[d] // self.stride[d], -(-ends[d] // self.stride[d])) for d in (0, 1))
        return rows, columns

    def padded(self, errors: Tensor) -> Tensor:
        """Errors `[N, *places, out]` with margins, so that there is a patch of them for every inner block."""
        return functional.pad(errors, self._margins)

    @cached_property
    def _margins(self) -> list[int]:
        margins = [0, 0]
        for d in (1, 0):  # as `pad` wants them
            margins += [self.reach[d] - 1 - self.inner[d].start, self.inner[d].stop - self.places[d]]
        return margins

    def as_kernel(self, turned: Tensor) -> Tensor:
        """A turned matrix as the kernel `[channels of a block, out, *reach]` of a convolution."""
        return turned.view(*self.reach, -1, turned.shape[1]).permute(3, 2, 0, 1)

    def gathered(self, blocks: Tensor) -> Tensor:
        """Pictures `[N, rows, columns, channels]` of inner blocks, however they are grouped."""
        (rows, columns), (down, along) = self.inner, self.stride
        parts = blocks.view(-1, len(rows), len(columns), down, along, self.channels).transpose(2, 3)
        full = parts.reshape(len(parts), len(rows) * down, len(columns) * along, self.channels)
        top, left = self.padding[0] - rows.start * down, self.padding[1] - columns.start * along
        inside = full[:, top : top + self.used[0], left : left + self.used[1]]
        unused = (0, 0, 0, self.picture[1] - self.used[1], 0, self.picture[0] - self.used[0])
        return functional.pad(inside, unused) if any(unused) else inside


def patches(pictures: Tensor, reach: tuple[int, int]) -> Tensor:
    """`[N, places, patch]`: every window of `reach` at stride 1, copied from contiguous pictures."""
    count, rows, columns, channels = pictures.shape
    places = (rows - reach[0] + 1, columns - reach[1] + 1)
    image, row, column, _ = pictures.stride()
    shape, strides = (count, *places, reach[0], reach[1] * channels), (image, row, column, row, 1)
    return pictures.as_strided(shape, strides).reshape(count, places[0] * places[1], -1)


def convolved(
    pictures: Tensor, weight: Tensor, stride: tuple[int, int] = (1, 1), padding: tuple[int, int] = (0, 0)
) -> Tensor:
    """The library's convolution, on channels-last pictures."""
    return functional.conv2d(pictures.permute(0, 3, 1, 2), weight, None, stride, padding).permute(0, 2, 3, 1)


@lru_cache
def _kernel(
    channels: int, size: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], picture: tuple[int, int]
) -> Kernel:
    places = [(picture[d] + 2 * padding[d] - size[d]) // stride[d] + 1 for d in (0, 1)]
    reach = [-(-size[d] // stride[d]) for d in (0, 1)]
    return Kernel(channels, size, stride, padding, picture, _pair(places), _pair(reach))


def _pair(sizes: tuple[int, ...] | list[int] | torch.Size) -> tuple[int, int]:
    return sizes[0], sizes[1]
