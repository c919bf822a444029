"""Convolutions for many clients: patches, channels last, and one matrix product for each client.

One client's patches are made in one buffer that all layers share, which stays in the cache, and are made again when
the gradient is computed. Where they would not stay there, the library convolves; only rows need patches then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.engine.layered import direct_kernels
from fedveil.engine.layered.contributions import Formed, Streamed, too_large
from fedveil.engine.layered.held import Held
from fedveil.engine.layered.step import LeafStep, outside

LARGE_PATCHES = 1 << 17
"""Numbers in one client's patches from which on the library's convolution is faster than a product (measured)."""

TwoAxes = tuple[int, int]
ONES = (1, 1)


@dataclass(frozen=True)
class Window:
    """A kernel, how far it moves, what stands around the picture, and how far its points lie apart."""

    kernel: TwoAxes
    stride: TwoAxes = ONES
    padding: TwoAxes = (0, 0)
    spread: TwoAxes = ONES

    def places(self, height: int, width: int) -> TwoAxes:
        """How often it fits."""
        down, across = (
            (size + 2 * pad - apart * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, pad, apart in zip(
                (height, width), self.kernel, self.stride, self.padding, self.spread, strict=True
            )
        )
        return down, across

    @property
    def mirrored(self) -> Window | None:
        """The window that takes gradients of outputs to gradients of inputs, where that is a convolution too."""
        pads = self.kernel[0] - 1 - self.padding[0], self.kernel[1] - 1 - self.padding[1]
        if self.stride != ONES or self.spread != ONES or min(pads) < 0:
            return None
        return Window(self.kernel, padding=pads)


class Patches:
    """The windows of one client's pictures `[S, H, W, C]`, as a matrix `[S·places, window]` in shared memory."""

    def __init__(self, step: LeafStep, like: Tensor, size: tuple[int, ...], window: Window) -> None:
        pictures, height, width, channels = size
        pads, (down, across) = window.padding, window.stride
        tall, wide = height + 2 * pads[0], width + 2 * pads[1]
        padded = step.arena.scratch(like, "padded", pictures, tall, wide, channels, border=pads)
        self._inner = padded[:, pads[0] : pads[0] + height, pads[1] : pads[1] + width]
        line, (first, second) = wide * channels, window.spread
        self._windows = padded.as_strided(
            (pictures, *window.places(height, width), *window.kernel, channels),
            (tall * line, down * line, across * channels, first * line, second * channels, 1),
        )
        self.matrix = step.arena.scratch(
            like, "patches", self._windows.shape[:3].numel(), self._windows.shape[3:].numel()
        )
        self._filled = self.matrix.view(self._windows.shape)

    def of(self, pictures: Tensor) -> Tensor:
        """The patches of these pictures `[S, H, W, C]`; overwritten by the next call."""
        self._inner.copy_(pictures)
        self._filled.copy_(self._windows)
        return self.matrix


class Convolving:
    """One use of a convolution's weights."""

    def __init__(self, leaf: Held, window: Window) -> None:
        self.step, self.window, self.direct = leaf.step, window, False
        kernels = leaf.weights("weight")
        if kernels.dim() == 4:  # one axis
            kernels = kernels.unsqueeze(3)
        self.kernels = kernels  # [K, O, C, h, w]
        self.weight, self.bias = leaf.trained("weight"), leaf.trained("bias")
        self.constant = leaf.weights("bias") if "bias" in leaf.names else None

    def large(self, pictures: Tensor) -> bool:
        """Whether patches of one client's pictures, of `[K, S, H, W, C]`, are too many for the cache."""
        down, across = self.window.places(*pictures.shape[2:4])
        return pictures.shape[1] * down * across * self.kernels[0, 0].numel() > LARGE_PATCHES

    @property
    def for_library(self) -> Tensor:
        """The kernels `[K, O, C, h, w]`, each client's channels last in memory."""
        return self.kernels.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)

    def library_backward(self, pictures: Tensor, delta: Tensor, inputs: bool, weights: bool) -> Iterator[Any]:
        """Gradients by one client's pictures and by its kernels, client after client."""
        window = self.window
        settings = ([*window.stride], [*window.padding], [*window.spread], False, [0, 0], 1, [inputs, weights, False])
        for own, g, kernel in zip(pictures, delta, self.for_library, strict=True):
            yield torch.ops.aten.convolution_backward(
                g.permute(0, 3, 1, 2), own.permute(0, 3, 1, 2), kernel, None, *settings
            )

    def __call__(self, pictures: Tensor) -> Tensor:
        """`[N, …, C, H, W]` to `[N, …, O, H', W']`."""
        step = self.step
        inputs = pictures.movedim(-3, -1)
        own = inputs.reshape(step.clients, -1, *inputs.shape[-3:])
        self.direct = direct_kernels.takes(own, self.kernels, self.window)
        own = own.contiguous() if self.direct else own
        made: Tensor = _Convolution.apply(own, step.anchor, self)  # type: ignore[no-untyped-call]
        return step.laid_out(made.view(*pictures.shape[:-3], *made.shape[2:]).movedim(-1, -3))

    def receive(self, pictures: Tensor, delta: Tensor) -> None:
        """The gradient by the weights, of inputs `[K, S, H, W, C]` and gradients of outputs `[K, S, H', W', O]`."""
        step, (count, _, *_rest, filters) = self.step, delta.shape
        if self.bias is not None:
            step.receive_rows(self.bias, delta.reshape(count, step.slots, -1, filters).sum(dim=2))
        if self.weight is None:
            return
        if self.direct and (step.plain or pictures.shape[1] == step.slots):
            self._receive_directly(self.weight, pictures, delta)
            return
        if step.plain and self.large(pictures):
            summed = self.library_backward(pictures, delta, inputs=False, weights=True)
            step.receive_sum(self.weight, torch.stack([by_kernel for _, by_kernel, _ in summed]))
            return
        patches = Patches(step, pictures, pictures.shape[1:], self.window)
        size = patches.matrix.shape[-1]
        order = (0, 3, 1, 2)
        shape = (filters, *self.window.kernel, pictures.shape[-1])
        per_example = delta.reshape(count, step.slots, -1, filters)
        places = per_example.shape[2]
        if step.plain:
            total = step.arena.take(delta, count, 1, filters * size)
            for own, out, g in zip(pictures, total, delta.reshape(count, -1, filters), strict=True):
                torch.mm(g.t(), patches.of(own), out=out.view(filters, size))
            step.receive(self.weight, Formed(total, shape, order))
        elif too_large(places, size, filters):
            kept = step.arena.take(delta, count, step.slots, places, size)
            for own, out in zip(pictures, kept, strict=True):
                out.copy_(patches.of(own).view(out.shape))
            step.receive(self.weight, Streamed(kept, per_example, shape, order))
        else:
            rows = step.arena.take(delta, count, step.slots, filters * size)
            for own, out, g in zip(pictures, rows, per_example, strict=True):
                windows = patches.of(own).view(step.slots, places, size)
                torch.bmm(g.mT, windows, out=out.view(step.slots, filters, size))
            step.receive(self.weight, Formed(rows, shape, order))

    def _receive_directly(self, weight: str, pictures: Tensor, delta: Tensor) -> None:
        step, (count, _, *_rest, filters) = self.step, delta.shape
        size = self.kernels[0].numel()
        if step.plain:
            total = step.arena.take(delta, count, size)
            direct_kernels.summed(pictures, delta, self.window, total)
            step.receive(weight, Formed(total.unsqueeze(1)))
            return
        rows, norms = step.arena.take(delta, count, step.slots, size), step.arena.take(delta, count, step.slots)
        direct_kernels.rows(pictures, delta, self.window, norms, rows)
        step.receive(weight, Formed(rows, (*self.window.kernel, pictures.shape[-1], filters), (3, 2, 0, 1)))

    def inputs_gradient(self, delta: Tensor, shape: torch.Size) -> Tensor:
        """`[K, S, H, W, C]` from `[K, S, H', W', O]`."""
        count, pictures, height, width, channels = shape
        filters = delta.shape[-1]
        out = self.step.arena.take(delta, *shape)
        if self.direct:
            direct_kernels.by_inputs(delta, self.kernels, self.window, out)
            return out
        if count and self.large(out):
            made = self.library_backward(out, delta, inputs=True, weights=False)
            for result, (by_input, _, _) in zip(out, made, strict=True):
                result.copy_(by_input.permute(0, 2, 3, 1))
            return out
        mirrored = self.window.mirrored
        if mirrored is not None:
            kernels = self.kernels.flip(3, 4).permute(0, 3, 4, 1, 2).reshape(count, -1, channels)
            patches = Patches(self.step, delta, delta.shape[1:], mirrored)
            for own, kernel, result in zip(delta, kernels, out, strict=True):
                torch.mm(patches.of(own), kernel, out=result.view(-1, channels))
            return out
        kernels = self.kernels.permute(0, 1, 3, 4, 2).reshape(count, filters, -1)
        (down, across), (top, left) = self.window.stride, self.window.padding
        around = self.step.arena.scratch(delta, "around", pictures, height + 2 * top, width + 2 * left, channels)
        inner = around[:, top : top + height, left : left + width]
        rows, columns = delta.shape[2:4]
        patch = self.step.arena.scratch(delta, "patches", pictures * rows * columns, kernels.shape[-1])
        windows = patch.view(pictures, rows, columns, *self.window.kernel, channels)
        for own, kernel, result in zip(delta, kernels, out, strict=True):
            torch.mm(own.reshape(-1, filters), kernel, out=patch)
            around.zero_()
            for i in range(self.window.kernel[0]):
                for j in range(self.window.kernel[1]):
                    first, second = i * self.window.spread[0], j * self.window.spread[1]
                    around[
                        :,
                        first : first + (rows - 1) * down + 1 : down,
                        second : second + (columns - 1) * across + 1 : across,
                    ].add_(windows[:, :, :, i, j])
            result.copy_(inner)
        return out


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pictures: Tensor, anchor: Tensor, use: Convolving) -> Tensor:
        step, count, window = use.step, len(pictures), use.window
        filters, places = use.kernels.shape[1], window.places(*pictures.shape[2:4])
        out = step.arena.take(pictures, *pictures.shape[:2], *places, filters)
        flat = out.view(count, -1, filters)
        if use.direct:
            direct_kernels.convolved(pictures, use.kernels, window, out)
        elif use.large(pictures):
            settings = (None, window.stride, window.padding, window.spread)
            for own, kernel, result in zip(pictures, use.for_library, out, strict=True):
                result.copy_(torch.conv2d(own.permute(0, 3, 1, 2), kernel, *settings).permute(0, 2, 3, 1))
        else:
            patches = Patches(step, pictures, pictures.shape[1:], window)
            kernels = use.kernels.permute(0, 3, 4, 2, 1).reshape(count, -1, filters)
            for own, kernel, result in zip(pictures, kernels, flat, strict=True):
                torch.mm(patches.of(own), kernel, out=result)
        if use.constant is not None:
            flat.add_(use.constant.unsqueeze(1))
        ctx.use, ctx.pictures = use, pictures
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        use, delta = ctx.use, gradient.contiguous()
        use.receive(ctx.pictures, delta)
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return use.inputs_gradient(delta, ctx.pictures.shape), None, None


class HeldConvolution(Held, nn.Conv2d):
    """`nn.Conv2d` with one group of channels; whatever is not zero padding is put around the pictures first."""

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[-3] != self.in_channels:
            raise self.refuse(f"it takes {self.in_channels} channels, not {input.shape[-3]}")
        return outside(self.step, self._convolved, input)  # type: ignore[no-any-return]

    def _convolved(self, pictures: Tensor) -> Tensor:
        pads = self.padding
        if self.padding_mode != "zeros" or isinstance(pads, str):
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            around = functional.pad(pictures.flatten(0, -4), self._reversed_padding_repeated_twice, mode)
            pictures, pads = around.view(*pictures.shape[:-2], *around.shape[-2:]), (0, 0)
        window = Window(_two(self.kernel_size), _two(self.stride), _two(pads), _two(self.dilation))
        return Convolving(self, window)(pictures)


class HeldSequenceConvolution(Held, nn.Conv1d):
    """`nn.Conv1d`: pictures of one line."""

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[-2] != self.in_channels:
            raise self.refuse(f"it takes {self.in_channels} channels, not {input.shape[-2]}")
        return outside(self.step, self._convolved, input)  # type: ignore[no-any-return]

    def _convolved(self, lines: Tensor) -> Tensor:
        pads = self.padding
        if self.padding_mode != "zeros" or isinstance(pads, str):
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            around = functional.pad(lines.flatten(0, -3), self._reversed_padding_repeated_twice, mode)
            lines, pads = around.view(*lines.shape[:-1], around.shape[-1]), (0,)
        window = Window((1, self.kernel_size[0]), (1, self.stride[0]), (0, pads[0]), (1, self.dilation[0]))
        return Convolving(self, window)(lines.unsqueeze(-2)).squeeze(-2)


def _two(values: tuple[int, ...]) -> TwoAxes:
    first, second = values
    return first, second
