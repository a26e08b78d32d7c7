"""Pooling as arithmetic on strided slices, one for each element of the window: a chain that becomes one loop.

In the order of eager's loops, so that sums have its bits up to their precision and ties its indices. Windows of many
elements and symbolic sizes are left whole (NotImplemented): the chain would be long, or its length unknown.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

_LARGEST_WINDOW = 64


@dataclass
class _Line:
    """The windows along one dimension."""

    size: int
    kernel: int
    stride: int
    before: int  # padding
    dilation: int
    outputs: int

    @property
    def after(self) -> int:
        """Elements that the last window reads beyond the end."""
        return max(
            (self.outputs - 1) * self.stride + self.dilation * (self.kernel - 1) + 1 - self.before - self.size, 0
        )

    @property
    def span(self) -> int:
        """The length of a slice that has each window's element of one offset."""
        return (self.outputs - 1) * self.stride + 1


def _lines(x: torch.Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> list[_Line]:
    count = len(kernel)

    def each(values: Any) -> list[int]:
        values = list(values)
        return values * count if len(values) == 1 else values

    sizes = list(x.shape[-count:])
    lines = []
    for size, k, s, p, d in zip(sizes, kernel, each(stride or kernel), each(padding), each(dilation), strict=True):
        rest = size + 2 * p - d * (k - 1) - 1
        outputs = (rest + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (outputs - 1) * s >= size + p:  # a window has to start inside
            outputs -= 1
        lines.append(_Line(size, k, s, p, d, outputs))
    return lines


def _fits(x: torch.Tensor, kernel: Sequence[int]) -> bool:
    return math.prod(kernel) <= _LARGEST_WINDOW and all(type(n) is int for n in x.shape)


def _slices(x: torch.Tensor, lines: list[_Line], fill: float) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """For each offset in the window, row by row: the offset, and every window's element there."""
    padding = [n for line in reversed(lines) for n in (line.before, line.after)]
    padded = torch.constant_pad_nd(x, padding, fill) if any(padding) else x
    for offset in itertools.product(*(range(line.kernel) for line in lines)):
        part = padded
        for dim, (line, at) in enumerate(zip(lines, offset, strict=True), x.dim() - len(lines)):
            start = at * line.dilation
            part = torch.ops.aten.slice(part, dim, start, start + line.span, line.stride)
        yield offset, part


def _shaped(line: int, lines: list[_Line], values: torch.Tensor) -> torch.Tensor:
    """A tensor along one of the pooled dimensions, to broadcast with the result."""
    return values.view(-1, *[1] * (len(lines) - 1 - line))


def _starts(line: _Line) -> torch.Tensor:
    return torch.arange(line.outputs) * line.stride - line.before


def _counts(lines: list[_Line], include_pad: bool) -> int | torch.Tensor:
    """How many elements each window's sum is divided by."""
    count: int | torch.Tensor = 1
    for i, line in enumerate(lines):
        if not line.after and (include_pad or not line.before):
            count = count * line.kernel
            continue
        start = _starts(line)
        end = (start + line.kernel).clamp(max=line.size + line.before)
        if not include_pad:
            start, end = start.clamp(min=0), end.clamp(max=line.size)
        count = count * _shaped(i, lines, end - start)
    return count


def average_pool(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> torch.Tensor:
    """aten.avg_pool2d and avg_pool3d, whose kernel_size has an item for each pooled dimension."""
    if not x.dtype.is_floating_point or not _fits(x, kernel_size):
        return NotImplemented
    lines = _lines(x, kernel_size, stride, padding, (1,), ceil_mode)
    wide = x.to(torch.float32) if x.dtype.itemsize == 2 else x
    parts = [part for _, part in _slices(wide, lines, 0.0)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    result = (total / (divisor_override or _counts(lines, count_include_pad))).to(x.dtype)
    return result.contiguous(memory_format=suggest_memory_format(x)) if len(kernel_size) == 2 else result.contiguous()


def max_pool(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.max_pool2d_with_indices and max_pool3d_with_indices: maxima, and where they are in the pooled dimensions."""
    if not x.dtype.is_floating_point or not _fits(x, kernel_size):
        return NotImplemented
    lines = _lines(x, kernel_size, stride, padding, dilation, ceil_mode)
    best = where = None
    for offset, part in _slices(x, lines, -math.inf):
        position = _position(lines, offset)
        if best is None:
            best, where = part, _first_inside(lines).expand(part.shape)
        better = (part > best) | part.isnan()
        best, where = torch.where(better, part, best), torch.where(better, position, where)
    layout = suggest_memory_format(x)
    return best.contiguous(memory_format=layout), where.contiguous(memory_format=layout)


def _position(lines: list[_Line], offset: tuple[int, ...]) -> torch.Tensor:
    """Where the element at this offset of each window lies in the pooled dimensions."""
    flat: Any = 0
    for i, (line, at) in enumerate(zip(lines, offset, strict=True)):
        flat = flat * line.size + _shaped(i, lines, _starts(line) + at * line.dilation)
    return flat


def _first_inside(lines: list[_Line]) -> torch.Tensor:
    """Where each window's first element lies that isn't padding: eager's answer if nothing is larger than -inf."""
    flat: Any = 0
    for i, line in enumerate(lines):
        start = _starts(line)
        skipped = (-start).clamp(min=0) + (line.dilation - 1)
        inside = start + torch.div(skipped, line.dilation, rounding_mode="trunc") * line.dilation
        flat = flat * line.size + _shaped(i, lines, inside)
    return flat


def max_unpool(x: torch.Tensor, indices: torch.Tensor, output_size: Sequence[int], *_: Any) -> torch.Tensor:
    """aten.max_unpool2d and max_unpool3d: each maximum where it came from, zeros elsewhere.

    An index outside of its plane, an error in eager, becomes one outside of the result, an IndexError.
    """
    planes = x.shape[: -len(output_size)]
    shape, size = [*planes, *output_size], math.prod(output_size)
    starts = (torch.arange(math.prod(planes)) * size).view(*planes, *[1] * len(output_size))
    flat = torch.where((indices >= 0) & (indices < size), indices + starts, math.prod(shape))
    made = torch.index_put(x.new_zeros(shape).view(-1), [flat.reshape(-1)], x.reshape(-1)).view(shape)
    return made.contiguous(memory_format=suggest_memory_format(x)) if len(output_size) == 2 else made
