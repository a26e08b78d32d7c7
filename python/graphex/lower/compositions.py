"""Elementwise functions composed of several operators, in the compute type and rounded where eager rounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .errors import Unsupported
from .promote import common_dtype, operand, operands, to_float
from .registry import LOWERINGS, lowers
from .types import Value, compute_dtype

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten


@lowers(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(lo: Lowering, node: fx.Node, start: Value, end: Value, weight: Any) -> Value:
    """start + w (end - start) for w < 0.5, else end - (1 - w)(end - start), in the compute type."""
    out = lo.dense_out(node)
    a, b, w = operands(lo, [start, end, weight], out.dtype, exact_scalars=not isinstance(weight, Value))
    one = lo.scalar(1.0, compute_dtype(out.dtype))
    span = lo.compute("sub", [b, a])
    low = lo.compute("add", [a, lo.compute("mul", [w, span])])
    high = lo.compute("sub", [b, lo.compute("mul", [span, lo.compute("sub", [one, w])])])
    small = lo.compute("lt", [lo.compute("abs", [w]), lo.scalar(0.5, compute_dtype(out.dtype))], torch.bool)
    return lo.emit("where", [small, low, high], out)


def _scaled(name: str) -> Any:
    def lower(lo: Lowering, node: fx.Node, x: Value, a: Value, b: Value, value: Any = 1) -> Value:
        common, out = common_dtype([x, a, b]), lo.dense_out(node)
        if not common.is_floating_point:
            raise Unsupported("on integers")
        x, a, b = operands(lo, [x, a, b], common)
        if value != 1:
            a = lo.compute("mul", [operand(lo, value, common, exact_scalars=True), a])
        return lo.emit("add", [x, lo.compute(name, [a, b])], out)

    return lower


LOWERINGS[aten.addcmul.default] = _scaled("mul")
LOWERINGS[aten.addcdiv.default] = _scaled("div")


@lowers(aten.leaky_relu.default)
def leaky_relu(lo: Lowering, node: fx.Node, x: Value, negative_slope: Any = 0.01) -> Value:
    wide = compute_dtype(x.dtype)
    positive = lo.compute("gt", [x, lo.scalar(0.0, wide)], torch.bool)
    scaled = lo.compute("mul", [x, lo.scalar(float(negative_slope), wide)])
    return lo.emit("where", [positive, x, scaled], lo.dense_out(node))


@lowers(aten.elu.default)
def elu(lo: Lowering, node: fx.Node, x: Value, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Value:
    wide = compute_dtype(x.dtype)

    def times(y: Value, factor: Any) -> Value:
        return y if factor == 1 else lo.compute("mul", [y, lo.scalar(float(factor), wide)])

    negative = lo.compute("lt", [x, lo.scalar(0.0, wide)], torch.bool)
    low = times(lo.compute("expm1", [times(x, input_scale)]), alpha * scale)
    return lo.emit("where", [negative, low, times(x, scale)], lo.dense_out(node))


# -- functions computed in f64, in which squares of an f32 don't overflow and differences lose none of its bits --------


def _through_double(compute: Callable[..., Value]) -> Any:
    def lower(lo: Lowering, node: fx.Node, *args: Value) -> Value:
        common, out = to_float(common_dtype(args)), lo.dense_out(node)
        if compute_dtype(common) is not torch.float32:
            raise Unsupported("on f64")
        wide = [lo.cast(x, torch.float64) for x in operands(lo, args, common)]
        return lo.emit("cast", [lo.expand(compute(lo, *wide), out.shape)], out)

    return lower


def _double(lo: Lowering, value: float) -> Value:
    return lo.scalar(value, torch.float64)


def _asinh(lo: Lowering, x: Value) -> Value:
    """log1p(a + a^2 / (1 + sqrt(a^2 + 1))) of a = |x|, with x's sign."""
    a, one = lo.compute("abs", [x]), _double(lo, 1.0)
    square = lo.compute("mul", [a, a])
    root = lo.compute("sqrt", [lo.compute("add", [square, one])])
    beyond = lo.compute("div", [square, lo.compute("add", [root, one])])
    size = lo.compute("log1p", [lo.compute("add", [a, beyond])])
    negative = lo.compute("lt", [x, _double(lo, 0.0)], torch.bool)
    signed = lo.compute("where", [negative, lo.compute("neg", [size]), size], torch.float64)
    infinite_or_zero = lo.compute("eq", [lo.compute("add", [x, x]), x], torch.bool)
    return lo.compute("where", [infinite_or_zero, x, signed], torch.float64)


def _acosh(lo: Lowering, x: Value) -> Value:
    """log1p(t + sqrt(t) sqrt(x + 1)) of t = x - 1, NaN below 1."""
    one = _double(lo, 1.0)
    t = lo.compute("sub", [x, one])
    roots = [lo.compute("sqrt", [v]) for v in (t, lo.compute("add", [x, one]))]
    return lo.compute("log1p", [lo.compute("add", [t, lo.compute("mul", roots)])])


def _atanh(lo: Lowering, x: Value) -> Value:
    """log1p(2 x / (1 - x)) / 2."""
    twice = lo.compute("add", [x, x])
    ratio = lo.compute("div", [twice, lo.compute("sub", [_double(lo, 1.0), x])])
    return lo.compute("mul", [lo.compute("log1p", [ratio]), _double(lo, 0.5)])


def _hypot(lo: Lowering, x: Value, y: Value) -> Value:
    """The root of the squares' sum; infinite beside an infinity, even if the other is NaN."""
    squares = [lo.compute("mul", [v, v]) for v in (x, y)]
    root = lo.compute("sqrt", [lo.compute("add", squares)])
    infinite = lo.compute("logical_or", [lo.compute("isinf", [v], torch.bool) for v in (x, y)], torch.bool)
    return lo.compute("where", [infinite, _double(lo, math.inf), root], torch.float64)


LOWERINGS[aten.asinh.default] = _through_double(_asinh)
LOWERINGS[aten.acosh.default] = _through_double(_acosh)
LOWERINGS[aten.atanh.default] = _through_double(_atanh)
LOWERINGS[aten.hypot.default] = _through_double(_hypot)


@lowers(aten.round.decimals)
def round_decimals(lo: Lowering, node: fx.Node, x: Value, decimals: int) -> Value:
    if x.dtype not in (torch.float32, torch.float64):
        raise Unsupported("on anything but f32 and f64")
    power = lo.scalar(10.0 ** abs(decimals), x.dtype)
    before, after = ("mul", "div") if decimals > 0 else ("div", "mul")
    return lo.emit(after, [lo.compute("round", [lo.compute(before, [x, power])]), power], lo.dense_out(node))


@lowers(aten.angle.default)
def angle(lo: Lowering, node: fx.Node, x: Value) -> Value:
    """pi for what is negative, else 0; NaN stays."""
    out = lo.dense_out(node)
    zero, pi = lo.scalar(0.0, compute_dtype(out.dtype)), lo.scalar(math.pi, compute_dtype(out.dtype))
    x = lo.cast(x, out.dtype)
    turned = lo.compute("where", [lo.compute("lt", [x, zero], torch.bool), pi, zero], compute_dtype(out.dtype))
    return lo.emit("where", [lo.compute("isnan", [x], torch.bool), x, turned], out)
