"""Reductions: sum to cumsum, extremes, mean and variance."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .elementwise import as_bool
from .errors import Unsupported
from .exprs import product
from .registry import lowers
from .types import Spec, Value, compute_dtype, contiguous

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten


def normal_dims(x: Value, dims: Any) -> list[int]:
    """The reduced dimensions, sorted and not negative; all of them for None or none."""
    if dims is None or (isinstance(dims, Sequence) and not dims):
        return list(range(x.rank))
    dims = dims if isinstance(dims, Sequence) else [dims]
    return sorted(d % x.rank for d in dims) if x.rank else []


def _reduce(lo: Lowering, op: str, x: Value, dims: list[int], keepdim: bool, out: Spec) -> Value:
    if not dims:  # a 0-dim operand: every reduction is the identity
        return lo.emit("copy" if x.dtype == out.dtype else "cast", [x], out)
    return lo.emit(op, [x], out, dims=dims, keepdim=keepdim)


def _accumulated(lo: Lowering, x: Value, out: Spec) -> Value:
    """x in the compute type of the result, in which sum and prod accumulate."""
    return x if compute_dtype(x.dtype) == compute_dtype(out.dtype) else lo.cast(x, out.dtype)


@lowers(aten.sum.default, aten.sum.dim_IntList, aten.prod.default, aten.prod.dim_int)
def sum_or_prod(
    lo: Lowering, node: fx.Node, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    out = lo.dense_out(node)
    op = "sum" if "sum" in str(node.target) else "prod"
    if dtype is not None and dtype != x.dtype:
        x = lo.cast(x, dtype)
    return _reduce(lo, op, _accumulated(lo, x, out), normal_dims(x, dim), keepdim, out)


@lowers(aten.amax.default, aten.amin.default, aten.max.default, aten.min.default)
def extreme(lo: Lowering, node: fx.Node, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    op = "amax" if "max" in str(node.target) else "amin"
    if 0 in x.shape and 0 not in lo.dense_out(node).shape:
        raise Unsupported("over no elements")  # eager's error
    if x.dtype is torch.bool:
        op = "any" if op == "amax" else "all"
    return _reduce(lo, op, x, normal_dims(x, dim), keepdim, lo.dense_out(node))


@lowers(aten.any.default, aten.any.dim, aten.any.dims, aten.all.default, aten.all.dim, aten.all.dims)
def any_or_all(lo: Lowering, node: fx.Node, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    out = lo.dense_out(node)
    op = "any" if ".any" in str(node.target) else "all"
    result = _reduce(lo, op, as_bool(lo, x), normal_dims(x, dim), keepdim, Spec(torch.bool, out.shape, out.strides))
    return lo.cast(result, out.dtype)


@lowers(aten.argmax.default, aten.argmin.default)
def arg_extreme(lo: Lowering, node: fx.Node, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    op = "argmax" if "argmax" in str(node.target) else "argmin"
    out = lo.dense_out(node)
    if x.rank == 0:
        return lo.full(0, out)
    if dim is None:
        return lo.emit(op, [x], out, dim=-1, flat=True, keepdim=keepdim)
    return lo.emit(op, [x], out, dim=dim % x.rank, keepdim=keepdim)


@lowers(aten.max.dim, aten.min.dim)
def extreme_with_index(lo: Lowering, node: fx.Node, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    name = "max" if "max" in str(node.target) else "min"
    values, indices = lo.dense_out(node, 0), lo.dense_out(node, 1)
    if x.rank == 0:
        return lo.emit("copy", [x], values), lo.full(0, indices)
    if x.dtype is torch.bool:
        raise Unsupported("on bool")
    d = dim % x.rank
    if not _asks_for(node, 1):
        return lo.emit("a" + name, [x], values, dims=[d], keepdim=keepdim), lo.full(0, indices)
    index = lo.emit("arg" + name, [x], indices, dim=d, keepdim=keepdim)
    if not x.dtype.is_floating_point:
        return lo.emit("a" + name, [x], values, dims=[d], keepdim=keepdim), index
    return _picked(lo, x, d, index, keepdim, values), index


def _picked(lo: Lowering, x: Value, dim: int, index: Value, keepdim: bool, out: Spec) -> Value:
    """The element at the index, not one that equals it: zeros have signs."""
    if keepdim:
        return lo.emit("gather", [x, index], out, dim=dim)
    kept = Spec(out.dtype, *((*of[:dim], 1, *of[dim:]) for of in (out.shape, out.strides)))
    return lo.view(lo.emit("gather", [x, lo.unsqueeze(index, dim)], kept, dim=dim), out.shape, out.strides)


def _asks_for(node: fx.Node, result: int) -> bool:
    """Whether anybody takes that one of several results."""
    return any(user.target is not operator.getitem or user.args[1] == result for user in node.users)


@lowers(aten.cumsum.default)
def cumsum(lo: Lowering, node: fx.Node, x: Value, dim: int, dtype: Any = None) -> Value:
    out = lo.dense_out(node)
    if dtype is not None and dtype != x.dtype:
        x = lo.cast(x, dtype)
    x = _accumulated(lo, x, out)
    if x.rank == 0:
        return lo.emit("copy" if x.dtype == out.dtype else "cast", [x], out)
    if not out.dtype.is_floating_point and out.dtype is not torch.int64:  # wraps as the cast does
        total = lo.emit("cumsum", [lo.cast(x, torch.int64)], contiguous(torch.int64, out.shape), dim=dim % x.rank)
        return lo.emit("cast", [total], out)
    made = lo.emit("cumsum", [x], contiguous(out.dtype, out.shape), dim=dim % x.rank)
    return made if out.is_contiguous() else lo.emit("copy", [made], out)


# -- mean and variance -----------------------------------------------------------------------------------------------


def count(lo: Lowering, x: Value, dims: list[int], dtype: torch.dtype) -> Value:
    """The number of reduced elements as a scalar of the dtype."""
    return lo.scalar(product([x.shape[d] for d in dims]), dtype)


def mean_of(lo: Lowering, x: Value, dims: list[int]) -> Value:
    """The mean in the compute type, dimensions kept."""
    wide = compute_dtype(x.dtype)
    total = lo.sum(x, dims, wide) if dims else lo.cast(x, wide)
    return lo.compute("div", [total, count(lo, x, dims, wide)])


@lowers(aten.mean.default, aten.mean.dim)
def mean(lo: Lowering, node: fx.Node, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Sum in f32, divide, round once."""
    out = lo.dense_out(node)
    x = lo.cast(x, dtype) if dtype is not None and dtype != x.dtype else x
    dims, wide = normal_dims(x, dim), compute_dtype(x.dtype)
    total = _reduce(lo, "sum", x, dims, keepdim, Spec(wide, out.shape, out.strides))
    return lo.emit("div", [total, count(lo, x, dims, wide)], out)


def _variance(lo: Lowering, x: Value, dims: list[int], correction: Any) -> tuple[Value, Value]:
    """Two passes in f64 as eager's one is, dimensions kept: (variance, mean)."""
    wide = torch.float64
    x = lo.cast(x, wide)
    average = mean_of(lo, x, dims)
    away = lo.compute("sub", [x, average])
    squares = lo.compute("mul", [away, away])
    total = lo.sum(squares, dims, wide) if dims else squares
    size = product([x.shape[d] for d in dims])
    if type(size) is int:
        freedom = lo.scalar(max(float(size) - float(correction), 0.0), wide)
    else:
        less = lo.compute("sub", [lo.scalar(size, wide), lo.scalar(float(correction), wide)])
        freedom = lo.compute("maximum", [less, lo.scalar(0.0, wide)])
    return lo.compute("div", [total, freedom]), average


def _dropped(lo: Lowering, x: Value, out: Spec) -> Value:
    """A result with kept dimensions in the form of `out`, rounded to its dtype."""
    return lo.cast(lo.view(x, out.shape, contiguous(x.dtype, out.shape).strides), out.dtype)


@lowers(aten.var.correction, aten.std.correction)
def var_or_std(
    lo: Lowering, node: fx.Node, x: Value, dim: Any = None, correction: Any = 1, keepdim: bool = False
) -> Value:
    result, _ = _variance(lo, x, normal_dims(x, dim), 1 if correction is None else correction)
    if "std" in str(node.target):
        result = lo.compute("sqrt", [result])
    out = lo.dense_out(node)
    if not out.is_contiguous():
        raise Unsupported("a result that isn't row-major")
    return _dropped(lo, result, out)


@lowers(aten.var_mean.correction, aten.std_mean.correction)
def var_mean(
    lo: Lowering, node: fx.Node, x: Value, dim: Any = None, correction: Any = 1, keepdim: bool = False
) -> tuple[Value, Value]:
    result, average = _variance(lo, x, normal_dims(x, dim), 1 if correction is None else correction)
    if "std" in str(node.target):
        result = lo.compute("sqrt", [result])
    outs = lo.dense_out(node, 0), lo.dense_out(node, 1)
    if not all(out.is_contiguous() for out in outs):
        raise Unsupported("a result that isn't row-major")
    return _dropped(lo, result, outs[0]), _dropped(lo, average, outs[1])
