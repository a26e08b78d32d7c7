"""Gathers and scatters. Out of range indices are an IndexError when the graph runs, as in eager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .errors import Unsupported
from .exprs import same
from .promote import operand
from .registry import lowers
from .types import Spec, Value, broadcast

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten
_INDEX = (torch.int64, torch.int32)


def _index(lo: Lowering, index: Value) -> Value:
    if index.dtype not in _INDEX:
        raise Unsupported(f"indices of dtype {index.dtype}")
    return index


def _line(lo: Lowering, index: Value) -> Value:
    """A 0-dim index as one of one dimension."""
    return lo.view(_index(lo, index), [1], [1]) if index.rank == 0 else _index(lo, index)


@lowers(aten.embedding.default)
def embedding(lo: Lowering, node: fx.Node, weight: Value, indices: Value, *_: Any) -> Value:
    return lo.emit("index_select", [weight, _index(lo, indices)], lo.dense_out(node), dim=0)


@lowers(aten.index_select.default)
def index_select(lo: Lowering, node: fx.Node, x: Value, dim: int, index: Value) -> Value:
    if x.rank == 0:
        raise Unsupported("index_select of a 0-dim tensor")
    return lo.emit("index_select", [x, _line(lo, index)], lo.dense_out(node), dim=dim % x.rank)


def _leading(lo: Lowering, x: Value, indices: Sequence[Value | None]) -> tuple[list[int], int, list[Value]]:
    """Order of x's dimensions in which the indexed ones are together, where they start, and the indices.

    Indices apart from one another put the result's indexed dimensions first, hence the indexed dimensions of x too.
    """
    used = [d for d, i in enumerate(indices) if i is not None]
    given = [i for i in indices if i is not None]
    if not used or any(i.dtype not in _INDEX for i in given):
        raise Unsupported("indices that are masks")
    if used == list(range(used[0], used[-1] + 1)):
        return list(range(x.rank)), used[0], given
    return used + [d for d in range(x.rank) if d not in used], 0, given


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(lo: Lowering, node: fx.Node, x: Value, indices: Sequence[Value | None]) -> Value:
    order, dim, given = _leading(lo, x, indices)
    return lo.emit("index", [lo.permute(x, order), *given], lo.dense_out(node), dim=dim)


@lowers(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(
    lo: Lowering, node: fx.Node, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    out = lo.dense_out(node)
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype is torch.bool:
        return _masked_put(lo, out, x, indices[0], values, accumulate)
    order, dim, given = _leading(lo, x, indices)
    values = lo.cast(values, x.dtype)
    if order == list(range(x.rank)):
        return lo.emit("index_put", [x, values, *given], out, dim=dim, accumulate=bool(accumulate))
    moved = lo.permute(x, order)
    spec = Spec(x.dtype, moved.shape, tuple(out.strides[d] for d in order))
    made = lo.emit("index_put", [moved, values, *given], spec, dim=dim, accumulate=bool(accumulate))
    return lo.permute(made, [order.index(d) for d in range(x.rank)])


def _masked_put(lo: Lowering, out: Spec, x: Value, mask: Value, values: Value, accumulate: bool) -> Value:
    """x[mask] = one value."""
    if accumulate or any(not same(s, 1) for s in values.shape):
        raise Unsupported("a masked assignment of several values")
    value = lo.cast(lo.view(values, [], []), x.dtype)
    for _ in range(x.rank - mask.rank):
        mask = lo.unsqueeze(mask, mask.rank)
    return lo.emit("where", [mask, value, x], out)


@lowers(aten.gather.default)
def gather(lo: Lowering, node: fx.Node, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    if x.rank == 0 or index.rank == 0:
        raise Unsupported("gather of a 0-dim tensor")
    return lo.emit("gather", [x, _index(lo, index)], lo.dense_out(node), dim=dim % x.rank)


@lowers(aten.scatter.src, aten.scatter_add.default)
def scatter(lo: Lowering, node: fx.Node, x: Value, dim: int, index: Value, src: Value) -> Value:
    if x.rank == 0 or index.rank == 0:
        raise Unsupported("scatter into a 0-dim tensor")
    op = "scatter_add" if "scatter_add" in str(node.target) else "scatter"
    return lo.emit(op, [x, _index(lo, index), src], lo.dense_out(node), dim=dim % x.rank)


@lowers(aten.scatter.value)
def scatter_value(lo: Lowering, node: fx.Node, x: Value, dim: int, index: Value, value: Any) -> Value:
    src = lo.expand(operand(lo, value, x.dtype), index.shape)
    return scatter(lo, node, x, dim, index, src)


@lowers(aten.index_copy.default)
def index_copy(lo: Lowering, node: fx.Node, x: Value, dim: int, index: Value, source: Value) -> Value:
    if x.rank == 0 or source.rank != x.rank:
        raise Unsupported("index_copy of a 0-dim tensor")
    return lo.emit("index_copy", [x, _line(lo, index), source], lo.dense_out(node), dim=dim % x.rank)


@lowers(aten.index_add.default)
def index_add(lo: Lowering, node: fx.Node, x: Value, dim: int, index: Value, source: Value, alpha: Any = 1) -> Value:
    if x.rank == 0 or source.rank != x.rank or x.dtype is torch.bool:
        raise Unsupported("index_add of a 0-dim or bool tensor")
    d = dim % x.rank
    line = _line(lo, index)
    shape = [line.shape[0] if i == d else s for i, s in enumerate(x.shape)]
    source = lo.expand(source, broadcast(shape, source.shape))
    return lo.emit("index_add", [x, line, source], lo.dense_out(node), dim=d, alpha=float(alpha))


@lowers(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(lo: Lowering, node: fx.Node, x: Value, dim: int, index: Value, value: Any) -> Value:
    if x.rank == 0:
        raise Unsupported("index_fill of a 0-dim tensor")
    d = dim % x.rank
    line = _line(lo, index)
    filled = lo.cast(value, x.dtype) if isinstance(value, Value) else operand(lo, value, x.dtype)
    shape = [line.shape[0] if i == d else s for i, s in enumerate(x.shape)]
    values = lo.expand(filled, shape)
    return lo.emit("index_put", [x, values, line], lo.dense_out(node), dim=d, accumulate=False)
