"""Movement of data: cat, repeat, padding, scatter of regions, flips, and writes to inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils._sympy.functions import Max

from .errors import Unsupported
from .exprs import Size, all_same, at_least_one, contiguous_strides, same, to_size
from .promote import common_dtype
from .registry import lowers
from .types import Spec, Value, contiguous

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten


@lowers(aten.cat.default, aten.concat.default)
def cat(lo: Lowering, node: fx.Node, tensors: Sequence[Value], dim: int = 0) -> Value:
    out = lo.dense_out(node)
    parts = [lo.cast(t, out.dtype) for t in tensors if not (t.rank == 1 and same(t.shape[0], 0) and out.rank != 1)]
    if not parts:
        return lo.full(0, out)
    return lo.emit("cat", parts, out, dim=dim % max(out.rank, 1))


@lowers(aten.stack.default)
def stack(lo: Lowering, node: fx.Node, tensors: Sequence[Value], dim: int = 0) -> Value:
    out = lo.dense_out(node)
    at = dim % out.rank
    dtype = common_dtype(tensors)
    return lo.emit("cat", [lo.unsqueeze(lo.cast(t, dtype), at) for t in tensors], out, dim=at)


@lowers(aten.repeat.default)
def repeat(lo: Lowering, node: fx.Node, x: Value, repeats: Sequence[Any]) -> Value:
    """A copy of an expanded view of twice the rank: [r0, s0, r1, s1, ...]."""
    out = lo.dense_out(node)
    lead = len(repeats) - x.rank
    shape: list[Size] = []
    strides: list[Size] = []
    for i, times in enumerate(repeats):
        shape += [to_size(times), x.shape[i - lead] if i >= lead else 1]
        strides += [0, x.strides[i - lead] if i >= lead else 0]
    copied = lo.copy(lo.view(x, shape, strides))
    return _laid_out(lo, lo.view(copied, out.shape, contiguous_strides(out.shape)), out)


def _laid_out(lo: Lowering, x: Value, out: Spec) -> Value:
    return x if all_same(x.strides, out.strides) else lo.emit("copy", [x], out)


def _positive(size: Size) -> Size:
    return max(size, 0) if type(size) is int else to_size(Max(0, size))


@lowers(aten.constant_pad_nd.default)
def constant_pad(lo: Lowering, node: fx.Node, x: Value, pad: Sequence[Any], value: Any = 0) -> Value:
    out = lo.dense_out(node)
    if out.dtype is torch.bool:
        value = bool(value)
    elif not out.dtype.is_floating_point:
        value = int(value)
    return padded(lo, x, pad, value, out)


def padded(lo: Lowering, x: Value, pad: Sequence[Any], value: Any, out: Spec) -> Value:
    """A filled block with the (possibly cropped) operand put into it; `pad` as constant_pad_nd has it."""
    pads = [to_size(p) for p in pad]
    shape, skip, offset = list(x.shape), 0, 0
    for i in range(0, len(pads), 2):
        d = x.rank - 1 - i // 2
        before, after = pads[i], pads[i + 1]
        shape[d] = to_size(shape[d] - _positive(-before) - _positive(-after))
        skip = to_size(skip + _positive(-before) * x.strides[d])
        offset = to_size(offset + _positive(before) * out.strides[d])
    block = lo.full(value, out)
    return lo.emit(
        "region_write", [block, lo.view(x, shape, x.strides, skip)], out, offset=offset, strides=list(out.strides)
    )


def region_write(
    lo: Lowering, node: fx.Node, x: Value, source: Value, shape: Sequence[Size], strides: Sequence[Size], offset: Size
) -> Value:
    """x with a region replaced; the region's strides and offset are those of the result's layout."""
    out = lo.dense_out(node)
    if not all_same(x.strides, out.strides):
        x = lo.emit("copy", [x], out)
    source = lo.expand(lo.cast(source, out.dtype), shape)
    return lo.emit("region_write", [x, source], out, offset=to_size(offset), strides=list(strides))


def _clamped(index: Any, size: Size, default: Size) -> Size:
    """A slice bound as Python's slicing takes it, in [0, size]."""
    if index is None:
        return default
    index = to_size(index)
    if type(index) is int and type(size) is int:
        return min(max(index + size if index < 0 else index, 0), size)
    if type(index) is int:
        if index == 0:
            return 0
        if index >= 2**62:
            return size
    return index


def _from_the_start(lo: Lowering, index: Size, size: Size) -> Size:
    """An index that may count from the end, as one that doesn't."""
    least, most = (index, index) if type(index) is int else lo.range_of(index)
    if least >= 0:
        return index
    if most >= 0:
        raise Unsupported(f"an index {index} that may count from the start or from the end")
    return to_size(index + size)


@lowers(aten.slice_scatter.default)
def slice_scatter(
    lo: Lowering, node: fx.Node, x: Value, src: Value, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Value:
    out, d = lo.dense_out(node), dim % x.rank
    first = _clamped(start, x.shape[d], 0)
    if type(first) is not int and not _fits(node, src, d, start, end, step):
        raise Unsupported("a slice with a symbolic start")
    first = _from_the_start(lo, first, x.shape[d])
    shape = [src.shape[d] if i == d else s for i, s in enumerate(x.shape)]
    strides = [to_size(s * step) if i == d else s for i, s in enumerate(out.strides)]
    return region_write(lo, node, x, src, shape, strides, first * out.strides[d])


def _fits(node: fx.Node, src: Value, dim: int, start: Any, end: Any, step: Any) -> bool:
    """Whether a symbolic slice is certainly start:end as written: its length is what the source has."""
    return step == 1 and start is not None and end is not None and same(to_size(end) - to_size(start), src.shape[dim])


@lowers(aten.select_scatter.default)
def select_scatter(lo: Lowering, node: fx.Node, x: Value, src: Value, dim: int, index: Any) -> Value:
    out, d = lo.dense_out(node), dim % x.rank
    index = _from_the_start(lo, to_size(index), x.shape[d])
    keep = [i for i in range(x.rank) if i != d]
    return region_write(
        lo, node, x, src, [x.shape[i] for i in keep], [out.strides[i] for i in keep], to_size(index * out.strides[d])
    )


@lowers(aten.diagonal_scatter.default)
def diagonal_scatter(
    lo: Lowering, node: fx.Node, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    out, a, b = lo.dense_out(node), dim1 % x.rank, dim2 % x.rank
    keep = [i for i in range(x.rank) if i not in (a, b)]
    shape = [x.shape[i] for i in keep] + [src.shape[-1]]
    strides = [out.strides[i] for i in keep] + [to_size(out.strides[a] + out.strides[b])]
    start = offset * out.strides[b] if offset >= 0 else -offset * out.strides[a]
    return region_write(lo, node, x, src, shape, strides, start)


@lowers(aten.as_strided_scatter.default)
def as_strided_scatter(
    lo: Lowering, node: fx.Node, x: Value, src: Value, size: Any, stride: Any, storage_offset: Any = None
) -> Value:
    if x.base.startswith("in") or x.base != x.name or not x.spec.is_contiguous():
        raise Unsupported("as_strided_scatter into an input or a view, whose storage may start elsewhere")
    shape, strides = [to_size(s) for s in size], [to_size(s) for s in stride]
    return region_write(lo, node, x, src, shape, strides, to_size(storage_offset or 0))


@lowers(aten.flip.default)
def flip(lo: Lowering, node: fx.Node, x: Value, dims: Sequence[int]) -> Value:
    """One index_select by a falling iota per dimension."""
    out = lo.dense_out(node)
    result = x
    for d in dims:
        size = x.shape[d % x.rank]
        order = lo.emit("iota", [], contiguous(torch.int64, [size]), start=to_size(size - 1), step=-1)
        result = lo.emit("index_select", [result, order], out, dim=d % x.rank)
    return result if dims else lo.emit("copy", [x], out)


@lowers(aten.roll.default)
def roll(lo: Lowering, node: fx.Node, x: Value, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Value:
    """A cat of the two parts per dimension."""
    out = lo.dense_out(node)
    flat = not dims
    result = lo.reshape(x, [_numel(x)]) if flat else x
    for shift, d in zip(shifts, [0] if flat else dims, strict=True):
        d = d % result.rank
        size = result.shape[d]
        if type(size) is not int or type(to_size(shift)) is not int:
            raise Unsupported("roll over a symbolic size")
        cut = -int(to_size(shift)) % at_least_one(size)
        parts = [_part(lo, result, d, cut, size - cut), _part(lo, result, d, 0, cut)]
        result = lo.emit("cat", parts, contiguous(x.dtype, result.shape), dim=d)
    return _laid_out(lo, lo.view(result, out.shape, contiguous_strides(out.shape)) if flat else result, out)


def _numel(x: Value) -> Size:
    total: Size = 1
    for size in x.shape:
        total = total * size
    return to_size(total)


def _part(lo: Lowering, x: Value, dim: int, start: int, length: int) -> Value:
    shape = [length if i == dim else s for i, s in enumerate(x.shape)]
    return lo.view(x, shape, x.strides, to_size(start * x.strides[dim]))


@lowers(aten.copy_.default)
def copy_back(lo: Lowering, node: fx.Node, x: Value, source: Value, non_blocking: bool = False) -> Value:
    """The only in-place operator that AOT leaves: a mutated input's new value."""
    target = node.args[0]
    if target not in lo.placeholders:
        raise Unsupported("copy_ to something that isn't an input")
    value = lo.expand(lo.cast(source, x.dtype), x.shape)
    lo.write(node, target, value)  # type: ignore[arg-type]
    return value
