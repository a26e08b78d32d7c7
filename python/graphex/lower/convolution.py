"""Convolution as a matrix product over the windows laid out as columns; by channels alone as a chain of products.

The result has eager's layout, row-major or channels last. A window of one element is its own column: nothing is copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .errors import Unsupported
from .exprs import Size, contiguous_strides, product, same, to_size
from .movement import padded
from .registry import lowers
from .types import Spec, Value, contiguous

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten

_LONGEST_CHAIN = 64
_LONG_RUN = 8  # neighbours in a window that are worth being copied together
# Eager has a direct kernel for f32, faster for large windows that overlap much; for other types it is slow on AVX2.
_FEW_COLUMNS = 1 << 17  # elements
_MOST_COLUMNS = 1 << 25  # of any type: what the columns may take
_MOST_OVERLAP = 4
_LONGEST_CHAIN_OF_F32 = 9


@dataclass
class _Windows:
    """The windows of [N, C, spatial...]: for each kernel and each output position, an element of x."""

    x: Value
    kernel: tuple[Size, ...]
    stride: list[int]
    dilation: list[int]
    outputs: tuple[Size, ...]

    @property
    def steps(self) -> list[Size]:
        """Strides from one window to the next, for each spatial dimension."""
        return [to_size(n * s) for n, s in zip(self.stride, self.x.strides[2:], strict=True)]

    @property
    def inside(self) -> list[Size]:
        """Strides from one element of a window to the next."""
        return [to_size(n * s) for n, s in zip(self.dilation, self.x.strides[2:], strict=True)]


def _each(values: Sequence[Any], count: int) -> list[int]:
    values = list(values)
    return values * count if len(values) == 1 else values


def _moved(out: Spec) -> Spec:
    """A Spec of [N, C, spatial...] as [N, spatial..., C]."""
    order = [0, *range(2, out.rank), 1]
    return Spec(out.dtype, tuple(out.shape[d] for d in order), tuple(out.strides[d] for d in order))


def _padded(lo: Lowering, x: Value, padding: list[int], channels_last: bool) -> Value:
    """x within zeros, in the order of the result's memory."""
    if not any(padding):
        return x
    order = [0, *range(2, x.rank), 1] if channels_last else list(range(x.rank))
    moved = lo.permute(x, order)
    sides = [0, 0, *padding]
    shape = [to_size(x.shape[d] + 2 * sides[d]) for d in order]
    pads = [sides[d] for d in reversed(order) for _ in range(2)]
    made = padded(lo, moved, pads, 0.0, contiguous(x.dtype, shape))
    return lo.permute(made, [order.index(d) for d in range(x.rank)])


@lowers(aten.convolution.default)
def convolution(
    lo: Lowering,
    node: fx.Node,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    out = lo.dense_out(node)
    spatial = out.rank - 2
    if transposed:
        raise Unsupported("transposed")
    if not out.dtype.is_floating_point:
        raise Unsupported("on integers")
    if any(same(n, 0) for n in (*x.shape, *out.shape, *weight.shape)):
        raise Unsupported("of no elements")
    channels_last = not out.is_contiguous()
    if channels_last and not _moved(out).is_contiguous():
        raise Unsupported("a result that is neither row-major nor channels last")
    x = _padded(lo, x, _each(padding, spatial), channels_last)
    windows = _Windows(x, weight.shape[2:], _each(stride, spatial), _each(dilation, spatial), out.shape[2:])
    taps = product(weight.shape[2:])
    columns = product([taps, x.shape[0], x.shape[1], *windows.outputs])
    by_channel = same(weight.shape[1], 1) and type(taps) is int and taps <= _LONGEST_CHAIN
    _leave_what_eager_does_better(x.dtype, windows, taps, columns, by_channel)
    if by_channel:
        return _by_channel(lo, windows, weight, bias, out, channels_last)
    if channels_last and groups == 1:
        return _last(lo, windows, weight, bias, out)
    made = _first(lo, windows, weight, bias, out, groups)
    return lo.emit("copy", [made], out) if channels_last else made


def _leave_what_eager_does_better(
    dtype: torch.dtype, windows: _Windows, taps: Size, columns: Size, by_channel: bool
) -> None:
    """Raises Unsupported; unknown sizes count as large."""
    if type(columns) is int and columns <= _FEW_COLUMNS:
        return
    if not by_channel and type(columns) is int and columns > _MOST_COLUMNS and not same(taps, 1):
        raise Unsupported(f"columns of {columns} elements")
    most = _LONGEST_CHAIN_OF_F32 if by_channel else _MOST_OVERLAP * math.prod(windows.stride)
    if dtype is torch.float32 and not (type(taps) is int and taps <= most):
        raise Unsupported("large windows that overlap, for which eager has a direct kernel")


def _offsets(windows: _Windows, weight: Value) -> list[tuple[Size, Size]]:
    """For each element of the kernel: how far it lies from the first, in x and in the weights."""
    offsets: list[tuple[Size, Size]] = [(0, 0)]
    for size, step, along in zip(windows.kernel, windows.inside, weight.strides[2:], strict=True):
        offsets = [(a + i * step, b + i * along) for a, b in offsets for i in range(int(size))]
    return offsets


def _by_channel(
    lo: Lowering, windows: _Windows, weight: Value, bias: Value | None, out: Spec, channels_last: bool
) -> Value:
    """Each result sees one channel: a sum over the kernel of x's channels times a weight each."""
    x, flat = windows.x, [0] * len(windows.outputs)
    many = to_size(weight.shape[0] // x.shape[1])
    channels = [x.shape[1]] if same(many, 1) else [x.shape[1], many]
    if channels_last:  # the weights of an element of the kernel side by side
        order = [*range(2, weight.rank), 1, 0]
        weight = lo.permute(lo.contiguous(lo.permute(weight, order)), [order.index(d) for d in range(weight.rank)])

    def ordered(n: Size, channels: Sequence[Size], spatial: Sequence[Size]) -> list[Size]:
        """As they lie in the result's memory."""
        return [n, *spatial, *channels] if channels_last else [n, *channels, *spatial]

    def per_channel(values: Value, skip: Size = 0) -> Value:
        step = values.strides[0]
        strides = [step] if same(many, 1) else [to_size(many * step), step]
        return lo.view(values, ordered(1, channels, [1] * len(flat)), ordered(0, strides, flat), to_size(skip))

    shape = ordered(x.shape[0], channels, windows.outputs)
    strides = ordered(x.strides[0], [x.strides[1], 0][: len(channels)], windows.steps)
    total: Value | None = None
    for skip, at in _offsets(windows, weight):
        element = lo.view(x, shape, strides, to_size(skip))
        term = lo.compute("mul", [element, per_channel(weight, at)])
        total = term if total is None else lo.compute("add", [total, term])
    assert total is not None
    spec = contiguous(out.dtype, shape)
    if bias is not None:
        made = lo.emit("add", [total, per_channel(bias)], spec)
    else:
        made = lo.emit("copy" if total.dtype == out.dtype else "cast", [total], spec)
    return lo.view(made, out.shape, out.strides)


def _product(lo: Lowering, a: Value, b: Value, bias: Value | None, out: Spec) -> Value:
    if bias is None:
        return lo.emit("matmul", [a, b], out)
    return lo.emit("addmm", [bias, a, b], out, alpha=1.0, beta=1.0)


def _last(lo: Lowering, windows: _Windows, weight: Value, bias: Value | None, out: Spec) -> Value:
    """Channels last: a row of the columns' matrix for each output position, times the weights."""
    x, kernel = windows.x, windows.kernel
    last = lo.permute(weight, [0, *range(2, weight.rank), 1])
    channels_inside = last.spec.is_contiguous()  # else the weights are row-major, or become so
    inner = [(*kernel, x.shape[1]), (*windows.inside, x.strides[1])]
    if not channels_inside:
        inner = [(x.shape[1], *kernel), (x.strides[1], *windows.inside)]
    columns = lo.contiguous(
        lo.view(x, [x.shape[0], *windows.outputs, *inner[0]], [x.strides[0], *windows.steps, *inner[1]])
    )
    rows, length = product([x.shape[0], *windows.outputs]), product(inner[0])
    matrix = lo.reshape(last if channels_inside else weight, [weight.shape[0], length])
    spec = contiguous(out.dtype, [rows, weight.shape[0]])
    made = _product(lo, lo.reshape(columns, [rows, length]), lo.permute(matrix, [1, 0]), bias, spec)
    return lo.view(made, out.shape, out.strides)


def _repeated(lo: Lowering, x: Value, times: Size) -> Value:
    """[G, ...] as [times * G, ...]; of one group it is a view."""
    if same(times, 1):
        return x
    wide = lo.expand(lo.unsqueeze(x, 0), [times, *x.shape])
    shape = [to_size(times * x.shape[0]), *x.shape[1:]]
    if same(x.shape[0], 1):
        return lo.view(wide, shape, [0, *x.strides[1:]])
    return lo.reshape(wide, shape)


def _first(lo: Lowering, windows: _Windows, weight: Value, bias: Value | None, out: Spec, groups: int) -> Value:
    """Row-major: for each image and group, the weights times a column for each output position."""
    x, kernel, outputs = windows.x, windows.kernel, windows.outputs
    n, inputs, results = x.shape[0], weight.shape[1], to_size(weight.shape[0] // groups)
    length, positions = product([inputs, *kernel]), product(outputs)
    lead, lead_strides = [n, groups], [x.strides[0], to_size(inputs * x.strides[1])]
    window, inside = [inputs, *kernel], [x.strides[1], *windows.inside]
    batch = to_size(n * groups)
    if type(kernel[-1]) is not int or kernel[-1] < _LONG_RUN:
        # Neighbouring positions side by side.
        columns = lo.view(x, [*lead, *window, *outputs], [*lead_strides, *inside, *windows.steps])
        columns = lo.reshape(columns, [batch, length, positions])
    else:
        columns = lo.view(x, [*lead, *outputs, *window], [*lead_strides, *windows.steps, *inside])
        columns = lo.permute(lo.reshape(columns, [batch, positions, length]), [0, 2, 1])
    matrix = _repeated(lo, lo.reshape(weight, [groups, results, length]), n)
    addend = None if bias is None else _repeated(lo, lo.reshape(bias, [groups, results, 1]), n)
    made = _product(lo, matrix, columns, addend, contiguous(out.dtype, [batch, results, positions]))
    return lo.view(made, out.shape, contiguous_strides(out.shape))
