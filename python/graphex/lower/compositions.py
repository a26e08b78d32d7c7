"""Elementwise functions composed of several operators, in the compute type and rounded where eager rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .errors import Unsupported
from .promote import common_dtype, operand, operands
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
