"""Softmax and the normalisations, composed in f32 and rounded once, as eager's kernels do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .elementwise import as_bool
from .errors import Unsupported
from .reductions import mean_of, normal_dims
from .registry import lowers
from .types import Spec, Value, compute_dtype

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten


@lowers(aten._softmax.default)
def softmax(lo: Lowering, node: fx.Node, x: Value, dim: int, half_to_float: bool) -> Value:
    out = lo.dense_out(node)
    if x.rank == 0:  # 1, or NaN of what isn't finite
        return lo.emit("exp", [lo.compute("sub", [x, x])], out)
    dims, wide = [dim % x.rank], compute_dtype(x.dtype)
    weights = lo.compute("exp", [lo.compute("sub", [x, lo.amax(x, dims)])])
    return lo.emit("div", [weights, lo.sum(weights, dims, wide)], out)


@lowers(aten._log_softmax.default)
def log_softmax(lo: Lowering, node: fx.Node, x: Value, dim: int, half_to_float: bool) -> Value:
    out = lo.dense_out(node)
    if x.rank == 0:  # 0, or NaN of what isn't finite
        return lo.emit("sub", [x, x], out)
    dims, wide = [dim % x.rank], compute_dtype(x.dtype)
    away = lo.compute("sub", [x, lo.amax(x, dims)])
    total = lo.sum(lo.compute("exp", [away]), dims, wide)
    return lo.emit("sub", [away, lo.compute("log", [total])], out)


@lowers(aten.linalg_vector_norm.default)
def vector_norm(
    lo: Lowering, node: fx.Node, x: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    """sum(|x|^ord)^(1/ord); of order 0 the number of non-zeros, of the infinities the extremes."""
    out = lo.dense_out(node)
    x = lo.cast(x, dtype) if dtype is not None and dtype != x.dtype else x
    x = x if x.rank else lo.unsqueeze(x, 0)
    dims, wide = normal_dims(x, dim), compute_dtype(x.dtype)
    keepdim = keepdim and bool(out.rank)
    if abs(ord) == math.inf:
        if 0 in x.shape:
            raise Unsupported("a norm that is an extreme, of no elements")
        op = "amax" if ord > 0 else "amin"
        return lo.emit(op, [lo.compute("abs", [x], out.dtype)], out, dims=dims, keepdim=keepdim)
    terms = _norm_terms(lo, x, ord)
    total = lo.emit("sum", [terms], Spec(wide, out.shape, out.strides), dims=dims, keepdim=keepdim)
    if ord in (0, 1):
        return lo.cast(total, out.dtype)
    if ord == 2:
        return lo.emit("sqrt", [total], out)
    return lo.emit("pow", [total, lo.scalar(1.0 / ord, wide)], out)


def _norm_terms(lo: Lowering, x: Value, order: float) -> Value:
    wide = compute_dtype(x.dtype)
    if order == 0:
        return lo.cast(as_bool(lo, x), wide)
    if order == 2:
        return lo.compute("mul", [x, x])
    size = lo.compute("abs", [x])
    return size if order == 1 else lo.compute("pow", [size, lo.scalar(float(order), wide)])


@lowers(aten.native_layer_norm.default)
def layer_norm(
    lo: Lowering, node: fx.Node, x: Value, shape: Sequence[Any], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """(x - mean) * rstd * weight + bias; also mean and rstd."""
    dims = list(range(x.rank - len(shape), x.rank))
    wide = compute_dtype(x.dtype)
    average, rstd = _moments(lo, x, dims, eps)
    result = lo.compute("mul", [lo.compute("sub", [x, average]), rstd])
    outs = [lo.dense_out(node, i) for i in range(3)]
    last = "copy" if outs[0].dtype == wide else "cast"
    if weight is not None:
        result = lo.compute("mul", [result, weight])
    # Without a bias eager adds 0, which makes a zero positive.
    result = lo.compute("add", [result, bias if bias is not None else lo.scalar(0.0, wide)])
    return lo.emit(last, [result], outs[0]), _as(lo, average, outs[1]), _as(lo, rstd, outs[2])


def _moments(lo: Lowering, x: Value, dims: list[int], eps: float) -> tuple[Value, Value]:
    wide = compute_dtype(x.dtype)
    average = _center(lo, x, dims)
    away = lo.compute("sub", [x, average])
    variance = mean_of(lo, lo.compute("mul", [away, away]), dims)
    return average, lo.compute("rsqrt", [lo.compute("add", [variance, lo.scalar(eps, wide)])])


def _center(lo: Lowering, x: Value, dims: list[int]) -> Value:
    """The mean. Of f32 by a sum in f64: equal elements are then no distance away from it, and large ones have one."""
    if x.dtype is not torch.float32:
        return mean_of(lo, x, dims)
    return lo.cast(mean_of(lo, lo.cast(x, torch.float64), dims), torch.float32)


def _as(lo: Lowering, x: Value, out: Spec) -> Value:
    if not out.is_contiguous():
        raise Unsupported("statistics that aren't row-major")
    return lo.cast(lo.view(x, out.shape, out.strides), out.dtype)


@lowers(aten.native_group_norm.default)
def group_norm(
    lo: Lowering,
    node: fx.Node,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    n: Any,
    c: Any,
    hw: Any,
    group: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    if not x.spec.is_contiguous() or type(c) is not int:
        raise Unsupported("an input that isn't row-major")
    wide = compute_dtype(x.dtype)
    inner = lo.reshape(x, [n, group, c // group, hw])
    average, rstd = _moments(lo, inner, [2, 3], eps)
    result = lo.compute("mul", [lo.compute("sub", [inner, average]), rstd])
    for op, parameter in (("mul", weight), ("add", bias)):
        if parameter is not None:
            result = lo.compute(op, [result, lo.reshape(parameter, [1, group, c // group, 1])])
    outs = [lo.dense_out(node, i) for i in range(3)]
    flat = lo.reshape(result, outs[0].shape)
    return (
        lo.emit("copy" if outs[0].dtype == wide else "cast", [flat], outs[0]),
        _as(lo, average, outs[1]),
        _as(lo, rstd, outs[2]),
    )


@lowers(aten._native_batch_norm_legit_no_training.default)
def batch_norm(
    lo: Lowering,
    node: fx.Node,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    """In evaluation: by the running statistics; the two saved ones are empty."""
    wide = compute_dtype(x.dtype)
    shape = [1, x.shape[1], *([1] * (x.rank - 2))]
    rstd = lo.compute("rsqrt", [lo.compute("add", [var, lo.scalar(eps, wide)])])
    scale = lo.compute("mul", [rstd, weight]) if weight is not None else rstd
    result = lo.compute("mul", [lo.compute("sub", [x, lo.reshape(mean, shape)]), lo.reshape(scale, shape)])
    if bias is not None:
        result = lo.compute("add", [result, lo.reshape(bias, shape)])
    outs = [lo.dense_out(node, i) for i in range(3)]
    last = "copy" if outs[0].dtype == wide else "cast"
    return lo.emit(last, [result], outs[0]), lo.full(0.0, outs[1]), lo.full(0.0, outs[2])
