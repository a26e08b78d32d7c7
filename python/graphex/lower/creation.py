"""Tensors from nothing: full and its family, arange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .errors import Unsupported
from .exprs import to_size
from .registry import LOWERINGS, lowers
from .scalars import FloatExpr, float_value
from .types import Value, contiguous

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten


def _constant(lo: Lowering, node: fx.Node, value: Any) -> Value:
    if isinstance(value, complex):
        raise Unsupported("a complex scalar")
    out = lo.dense_out(node)
    if isinstance(value, FloatExpr):
        made = lo.cast(float_value(lo, value.expr), out.dtype)
        return lo.emit("copy", [lo.expand(made, out.shape)], out)
    if isinstance(value, float) and not out.dtype.is_floating_point:
        value = bool(value) if out.dtype is torch.bool else int(value)
    return lo.full(value, out)


@lowers(aten.full.default, aten.full_like.default)
def full(lo: Lowering, node: fx.Node, _: Any, value: Any, **__: Any) -> Value:
    return _constant(lo, node, value)


@lowers(aten.new_full.default)
def new_full(lo: Lowering, node: fx.Node, _: Any, size: Any, value: Any, **__: Any) -> Value:
    return _constant(lo, node, value)


@lowers(aten.scalar_tensor.default)
def scalar_tensor(lo: Lowering, node: fx.Node, value: Any, **_: Any) -> Value:
    return _constant(lo, node, value)


@lowers(aten.fill.Scalar)
def fill(lo: Lowering, node: fx.Node, _: Any, value: Any) -> Value:
    return _constant(lo, node, value)


def _filled(value: int) -> Any:
    def lower(lo: Lowering, node: fx.Node, *_: Any, **__: Any) -> Value:
        return _constant(lo, node, value)

    return lower


# Memory that eager leaves unset holds any values: 0 here.
for _name, _value in (("zeros", 0), ("ones", 1), ("empty", 0)):
    for _target in (f"{_name}.default", f"{_name}_like.default", f"new_{_name}.default"):
        _packet, _overload = _target.split(".")
        if _name == "empty" and _packet == "empty":
            _overload = "memory_format"
        LOWERINGS[getattr(getattr(aten, _packet), _overload)] = _filled(_value)
for _target in (
    aten.empty_strided.default,
    aten.new_empty_strided.default,
    aten.empty_permuted.default,
    aten.zero.default,
):
    LOWERINGS[_target] = _filled(0)


@lowers(aten.arange.start_step, aten.arange.start, aten.arange.default)
def arange(lo: Lowering, node: fx.Node, *args: Any, **_: Any) -> Value:
    start, step = (0, 1) if len(args) == 1 else (args[0], args[2] if len(args) > 2 else 1)
    out = lo.dense_out(node)
    counted = _as_integers(start, step)
    if counted is None and not out.dtype.is_floating_point:
        raise Unsupported("an integer arange by fractions")
    if not out.dtype.is_floating_point or counted is not None:
        start, step = counted if counted is not None else (start, step)
        integers = out if out.dtype in (torch.int64, torch.int32) else contiguous(torch.int64, out.shape)
        return lo.cast(lo.emit("iota", [], integers, start=start, step=step), out.dtype)
    steps = lo.cast(lo.emit("iota", [], contiguous(torch.int64, out.shape), start=0, step=1), torch.float64)
    scaled = lo.compute("mul", [steps, lo.scalar(float(step), torch.float64)])
    return lo.cast(lo.compute("add", [scaled, lo.scalar(float(start), torch.float64)]), out.dtype)


def _as_integers(start: Any, step: Any) -> tuple[Any, Any] | None:
    if isinstance(start, float) or isinstance(step, float):
        if float(start).is_integer() and float(step).is_integer():
            return int(start), int(step)
        return None
    return to_size(start), to_size(step)
