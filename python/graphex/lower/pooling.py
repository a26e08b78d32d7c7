"""Pooling as arithmetic on strided views, one for each element of the window: a chain that becomes one loop.

In the order of eager's loops, so that sums have its bits up to their precision and ties its indices. Windows of many
elements and symbolic sizes are left whole: the chain would be long, or its length unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .errors import Unsupported
from .movement import padded
from .registry import lowers
from .types import Spec, Value, compute_dtype, contiguous

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten

_LARGEST_WINDOW = 64
# A place in the windows' dimensions: for each window of the result, an element of it.
_INDEX = torch.int64


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


def _lines(x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> list[_Line]:
    if not x.dtype.is_floating_point:
        raise Unsupported("on integers")
    if math.prod(kernel) > _LARGEST_WINDOW:
        raise Unsupported(f"a window of {math.prod(kernel)} elements")
    if any(type(n) is not int for n in (*x.shape, *x.strides)):
        raise Unsupported("on symbolic sizes")
    count = len(kernel)

    def each(values: Any) -> list[int]:
        values = list(values)
        return values * count if len(values) == 1 else values

    lines = []
    for size, k, s, p, d in zip(
        x.shape[-count:], kernel, *map(each, (stride or kernel, padding, dilation)), strict=True
    ):
        rest = size + 2 * p - d * (k - 1) - 1
        outputs = (rest + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (outputs - 1) * s >= size + p:  # a window has to start inside
            outputs -= 1
        lines.append(_Line(size, k, s, p, d, outputs))
    return lines


def _in_its_order(x: Value, shape: Sequence[int], dtype: torch.dtype) -> Spec:
    """A dense Spec whose dimensions lie in memory in the order of x's."""
    strides, step = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=lambda d: (x.strides[d], -d)):
        strides[dim], step = step, step * max(shape[dim], 1)
    return Spec(dtype, tuple(shape), tuple(strides))


def _slices(lo: Lowering, x: Value, lines: list[_Line], fill: float) -> list[tuple[tuple[int, ...], Value]]:
    """For each offset in the window, row by row: the offset, and every window's element there."""
    pads = [n for line in reversed(lines) for n in (line.before, line.after)]
    if any(pads):
        planes = x.shape[: -len(lines)]
        shape = [*planes, *(line.before + line.size + line.after for line in lines)]
        x = padded(lo, x, pads, fill, _in_its_order(x, shape, x.dtype))
    shape, strides = list(x.shape), list(x.strides)
    offsets: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for dim, line in enumerate(lines, x.rank - len(lines)):
        starts = [at * line.dilation for at in range(line.kernel)]
        offsets = [((*o, s), skip + s * strides[dim]) for o, skip in offsets for s in starts]
        shape[dim], strides[dim] = line.outputs, strides[dim] * line.stride
    return [(offset, lo.view(x, shape, strides, skip)) for offset, skip in offsets]


class _Places:
    """Arithmetic on numbers of elements, one for each window along one pooled dimension or for each window."""

    def __init__(self, lo: Lowering, lines: list[_Line]) -> None:
        self.lo, self.lines = lo, lines

    def compute(self, op: str, a: Value, b: Value | int) -> Value:
        return self.lo.compute(op, [a, b if isinstance(b, Value) else self.lo.scalar(b, _INDEX)])

    def along(self, dim: int, start: int, step: int) -> Value:
        """start, start + step, ... for the windows along a pooled dimension, shaped to broadcast with the result."""
        made = self.lo.emit("iota", [], contiguous(_INDEX, [self.lines[dim].outputs]), start=start, step=step)
        return self.lo.reshape(made, [self.lines[dim].outputs, *[1] * (len(self.lines) - 1 - dim)])

    def starts(self, dim: int) -> Value:
        """Where each window's first element lies."""
        return self.along(dim, -self.lines[dim].before, self.lines[dim].stride)

    def first_inside(self, dim: int) -> Value:
        """Where each window's first element lies that isn't padding: eager's answer if nothing is larger than -inf."""
        line = self.lines[dim]
        if not line.before:
            return self.starts(dim)
        missing = self.compute("maximum", self.along(dim, line.before, -line.stride), 0)
        steps = self.compute("trunc_divide", self.compute("add", missing, line.dilation - 1), line.dilation)
        return self.compute("add", self.starts(dim), self.compute("mul", steps, line.dilation))

    def flat(self, place: Callable[[int], Value]) -> Value:
        """Places along each dimension as places in all of them."""
        flat = place(0)
        for dim, line in enumerate(self.lines[1:], 1):
            flat = self.compute("add", self.compute("mul", flat, line.size), place(dim))
        return flat

    def distance(self, offset: Sequence[int]) -> int:
        """How far apart two places are that differ by offset along each dimension."""
        flat = 0
        for line, part in zip(self.lines, offset, strict=True):
            flat = flat * line.size + part
        return flat

    def count(self, dim: int, include_pad: bool) -> Value | int:
        """How many elements of each window count along a dimension."""
        line = self.lines[dim]
        if not line.after and (include_pad or not line.before):
            return line.kernel
        start = self.starts(dim)
        end = self.compute("minimum", self.compute("add", start, line.kernel), line.size + line.before)
        if not include_pad:
            start, end = self.compute("maximum", start, 0), self.compute("minimum", end, line.size)
        return self.compute("sub", end, start)


@lowers(aten.avg_pool2d.default, aten.avg_pool3d.default)
def average_pool(
    lo: Lowering,
    node: fx.Node,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    lines = _lines(x, kernel_size, stride, padding, (1,), ceil_mode)
    wide = lo.cast(x, compute_dtype(x.dtype))
    out = lo.dense_out(node)
    like = replace(out, dtype=wide.dtype)
    total, *rest = (part for _, part in _slices(lo, wide, lines, 0.0))
    for part in rest:
        total = lo.emit("add", [total, part], like)
    divisor = _divisor(_Places(lo, lines), count_include_pad, wide.dtype, divisor_override)
    return lo.emit("div", [total, divisor], out)


def _divisor(places: _Places, include_pad: bool, dtype: torch.dtype, override: int | None) -> Value:
    """What each window's sum is divided by."""
    counts = [override] if override else [places.count(dim, include_pad) for dim in range(len(places.lines))]
    product = places.lo.scalar(math.prod(n for n in counts if isinstance(n, int)), _INDEX)
    for count in counts:
        product = places.compute("mul", count, product) if isinstance(count, Value) else product
    return places.lo.cast(product, dtype)


@lowers(aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default)
def max_pool(
    lo: Lowering,
    node: fx.Node,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    """Maxima, and where they are in the pooled dimensions."""
    lines = _lines(x, kernel_size, stride, padding, dilation, ceil_mode)
    places, parts = _Places(lo, lines), _slices(lo, x, lines, -math.inf)
    largest, index = lo.dense_out(node, 0), lo.dense_out(node, 1)
    flag, start = replace(largest, dtype=torch.bool), places.flat(places.starts)
    best, where = parts[0][1], lo.expand(places.flat(places.first_inside), index.shape)
    for offset, part in parts:
        better = lo.emit("logical_or", [lo.emit("gt", [part, best], flag), lo.emit("isnan", [part], flag)], flag)
        here = places.compute("add", start, places.distance(offset))
        best, where = lo.emit("where", [better, part, best], largest), lo.emit("where", [better, here, where], index)
    return best, where
