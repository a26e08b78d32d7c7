"""Elementwise operators: a table of the plain ones, then those with a rule of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .errors import Unsupported
from .exprs import same
from .promote import common_dtype, operand, operands, to_float
from .registry import LOWERINGS, lowers
from .types import Spec, Value, compute_dtype

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten

# name of the operator in the IR -> aten operators, by kind of promotion
FLOATING = {  # integers become the default float
    "acos": [aten.acos.default],
    "asin": [aten.asin.default],
    "atan": [aten.atan.default],
    "cos": [aten.cos.default],
    "cosh": [aten.cosh.default],
    "erf": [aten.erf.default, aten.special_erf.default],
    "exp": [aten.exp.default],
    "exp2": [aten.exp2.default],
    "expm1": [aten.expm1.default],
    "log": [aten.log.default],
    "log10": [aten.log10.default],
    "log1p": [aten.log1p.default],
    "log2": [aten.log2.default],
    "reciprocal": [aten.reciprocal.default],
    "rsqrt": [aten.rsqrt.default],
    "sigmoid": [aten.sigmoid.default],
    "sin": [aten.sin.default],
    "sinh": [aten.sinh.default],
    "sqrt": [aten.sqrt.default],
    "tan": [aten.tan.default],
    "tanh": [aten.tanh.default],
    "atan2": [aten.atan2.default],
}
SAME = {
    "abs": [aten.abs.default],
    "bitwise_not": [aten.bitwise_not.default],
    "neg": [aten.neg.default],
    "relu": [aten.relu.default],
    "sign": [aten.sign.default, aten.sgn.default],
    "silu": [aten.silu.default],
    "bitwise_and": [aten.bitwise_and.Tensor, aten.bitwise_and.Scalar],
    "bitwise_or": [aten.bitwise_or.Tensor, aten.bitwise_or.Scalar],
    "bitwise_xor": [aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar],
    "fmax": [aten.fmax.default],
    "fmin": [aten.fmin.default],
    "maximum": [aten.maximum.default],
    "minimum": [aten.minimum.default],
    "shift_left": [
        aten.bitwise_left_shift.Tensor,
        aten.bitwise_left_shift.Tensor_Scalar,
        aten.__lshift__.Tensor,
        aten.__lshift__.Scalar,
    ],
    "shift_right": [
        aten.bitwise_right_shift.Tensor,
        aten.bitwise_right_shift.Tensor_Scalar,
        aten.__rshift__.Tensor,
        aten.__rshift__.Scalar,
    ],
}
ROUNDING = {  # integers stay as they are
    "ceil": [aten.ceil.default],
    "floor": [aten.floor.default],
    "round": [aten.round.default],
    "trunc": [aten.trunc.default],
}
PREDICATES = {
    "isinf": [aten.isinf.default],
    "isnan": [aten.isnan.default],
    "logical_not": [aten.logical_not.default],
    "eq": [aten.eq.Tensor, aten.eq.Scalar],
    "ge": [aten.ge.Tensor, aten.ge.Scalar],
    "gt": [aten.gt.Tensor, aten.gt.Scalar],
    "le": [aten.le.Tensor, aten.le.Scalar],
    "lt": [aten.lt.Tensor, aten.lt.Scalar],
    "ne": [aten.ne.Tensor, aten.ne.Scalar],
}
LOGICAL = {  # every operand becomes bool first
    "logical_and": [aten.logical_and.default],
    "logical_or": [aten.logical_or.default],
    "logical_xor": [aten.logical_xor.default],
}
# What the arithmetic names mean on bool.
_ON_BOOL = {"maximum": "logical_or", "minimum": "logical_and", "fmax": "logical_or", "fmin": "logical_and"}
_ON_BOOL |= {
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "bitwise_not": "logical_not",
}
_ON_BOOL |= {"add": "logical_or", "mul": "logical_and"}


def _floating(name: str) -> Any:
    def lower(lo: Lowering, node: fx.Node, *args: Any) -> Value:
        common = to_float(common_dtype(args))
        return lo.emit(name, operands(lo, args, common), lo.dense_out(node))

    return lower


def _same(name: str) -> Any:
    def lower(lo: Lowering, node: fx.Node, *args: Any) -> Value:
        common = common_dtype(args)
        if common is torch.bool and name not in _ON_BOOL:
            raise Unsupported("on bool")
        op = _ON_BOOL[name] if common is torch.bool else name
        if common is torch.bfloat16 and name in ("fmax", "fmin"):
            args = args[::-1]  # of two equal zeros eager's kernels give the first, but the one for bf16 the second
        return lo.emit(op, operands(lo, args, common), lo.dense_out(node))

    return lower


def _rounding(name: str) -> Any:
    def lower(lo: Lowering, node: fx.Node, x: Value) -> Value:
        return lo.emit(name if x.dtype.is_floating_point else "copy", [x], lo.dense_out(node))

    return lower


def _predicate(name: str) -> Any:
    def lower(lo: Lowering, node: fx.Node, *args: Any) -> Value:
        common = common_dtype(args)
        if name in ("isnan", "isinf") and not common.is_floating_point:
            return lo.full(False, lo.dense_out(node))
        return lo.emit(name, operands(lo, args, common), lo.dense_out(node))

    return lower


def as_bool(lo: Lowering, x: Any) -> Value:
    """x != 0."""
    if isinstance(x, Value) and x.dtype is torch.bool:
        return x
    if not isinstance(x, Value):
        return lo.scalar(bool(x), torch.bool)
    return lo.compute("ne", [x, lo.scalar(0.0 if x.dtype.is_floating_point else 0, compute_dtype(x.dtype))], torch.bool)


def _logical(name: str) -> Any:
    def lower(lo: Lowering, node: fx.Node, *args: Any) -> Value:
        return lo.emit(name, [as_bool(lo, a) for a in args], lo.dense_out(node))

    return lower


for _table, _make in (
    (FLOATING, _floating),
    (SAME, _same),
    (ROUNDING, _rounding),
    (PREDICATES, _predicate),
    (LOGICAL, _logical),
):
    for _name, _targets in _table.items():
        for _target in _targets:
            LOWERINGS[_target] = _make(_name)


# -- arithmetic: mul and div read a scalar or 0-dim second operand in the compute type, the others round it -----------


def _arithmetic(lo: Lowering, node: fx.Node, name: str, a: Any, b: Any, alpha: Any = 1) -> Value:
    common = common_dtype([a, b])
    out = lo.dense_out(node)
    if common is torch.bool:
        if alpha not in (0, 1, True) or name == "sub":
            raise Unsupported("on bool")
        x, y = operands(lo, [a, b], common)
        return lo.emit(_ON_BOOL[name], [x, y], out) if alpha else lo.emit("copy", [lo.expand(x, out.shape)], out)
    x, y = operands(lo, [a, b], common)
    if alpha != 1:  # eager rounds the product to the reduced floats
        y = lo.compute("mul", [y, operand(lo, alpha, common)], common)
    return lo.emit(name, [x, y], out)


@lowers(aten.add.Tensor, aten.add.Scalar)
def add(lo: Lowering, node: fx.Node, a: Any, b: Any, alpha: Any = 1) -> Value:
    return _arithmetic(lo, node, "add", a, b, alpha)


def _refuse_bool(*operands: Any) -> None:
    if any(isinstance(x, bool) or (isinstance(x, Value) and x.dtype is torch.bool) for x in operands):
        raise Unsupported("of a bool")  # eager's error


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def sub(lo: Lowering, node: fx.Node, a: Any, b: Any, alpha: Any = 1) -> Value:
    _refuse_bool(a, b)
    return _arithmetic(lo, node, "sub", a, b, alpha)


@lowers(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(lo: Lowering, node: fx.Node, a: Any, b: Any, alpha: Any = 1) -> Value:
    _refuse_bool(a, b)
    return _arithmetic(lo, node, "sub", b, a, alpha)


@lowers(aten.mul.Tensor, aten.mul.Scalar)
def mul(lo: Lowering, node: fx.Node, a: Any, b: Any) -> Value:
    common = common_dtype([a, b])
    if not common.is_floating_point:
        return _arithmetic(lo, node, "mul", a, b)
    return lo.emit("mul", _second_exact(lo, a, b, common), lo.dense_out(node))


def _second_exact(lo: Lowering, a: Any, b: Any, common: torch.dtype) -> list[Value]:
    return [operand(lo, a, common), operand(lo, b, common, exact_scalars=True)]


@lowers(aten.div.Tensor, aten.div.Scalar)
def div(lo: Lowering, node: fx.Node, a: Any, b: Any) -> Value:
    return lo.emit("div", _second_exact(lo, a, b, to_float(common_dtype([a, b]))), lo.dense_out(node))


def _check_divisor(common: torch.dtype, b: Any) -> None:
    """Integer division is native only by a known divisor that isn't 0, for eager raises on 0."""
    if not common.is_floating_point and (not isinstance(b, int) or b == 0 or common is torch.bool):
        raise Unsupported("integer division by a divisor that isn't a non-zero constant")


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(lo: Lowering, node: fx.Node, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    if rounding_mode is None:
        return div(lo, node, a, b)
    common = common_dtype([a, b])
    _check_divisor(common, b)
    x, y = _second_exact(lo, a, b, common)
    if rounding_mode == "floor":
        return lo.emit("floor_divide", [x, y], lo.dense_out(node))
    if not common.is_floating_point:
        return lo.emit("trunc_divide", [x, y], lo.dense_out(node))
    quotient = lo.compute("div", [x, y])
    if isinstance(b, Value) and any(not same(n, 1) for n in b.shape):  # by one number eager doesn't round in between
        quotient = lo.cast(quotient, common)
    return lo.emit("trunc", [quotient], lo.dense_out(node))


@lowers(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(lo: Lowering, node: fx.Node, a: Any, b: Any) -> Value:
    return div_mode(lo, node, a, b, "floor")


def _modulo(name: str) -> Any:
    def lower(lo: Lowering, node: fx.Node, a: Any, b: Any) -> Value:
        common = common_dtype([a, b])
        _check_divisor(common, b)
        return lo.emit(name, operands(lo, [a, b], common), lo.dense_out(node))

    return lower


for _name in ("fmod", "remainder"):
    for _overload in ("Tensor", "Scalar"):
        LOWERINGS[getattr(getattr(aten, _name), _overload)] = _modulo(_name)


@lowers(aten.pow.Tensor_Scalar)
def pow_scalar(lo: Lowering, node: fx.Node, x: Value, exponent: Any) -> Value:
    """Eager's own shortcuts, so that the bits agree."""
    common, out = common_dtype([x, exponent]), lo.dense_out(node)
    if common is torch.bool or not isinstance(exponent, int | float):
        raise Unsupported("on bool, or by a symbolic exponent")
    x = operand(lo, x, common)
    if exponent == 2:
        return lo.emit("mul", [x, x], out)
    if exponent == 3:
        return lo.emit("mul", [_square(lo, x), x], out)
    if common.is_floating_point and exponent in _POWERS and (common is not torch.float16 or exponent not in _ROOTS):
        return _POWERS[exponent](lo, x, out)
    if not common.is_floating_point and exponent < 0:
        raise Unsupported("a negative power of an integer")
    return lo.emit("pow", [x, operand(lo, exponent, common)], out)


def _square(lo: Lowering, x: Value) -> Value:
    """x * x as eager's powers keep it: rounded in bf16, not in f16."""
    return lo.compute("mul", [x, x], torch.bfloat16 if x.dtype is torch.bfloat16 else compute_dtype(x.dtype))


def _inverse_square(lo: Lowering, x: Value, out: Spec) -> Value:
    return lo.emit("reciprocal", [_square(lo, x)], out)


_ROOTS = (0.5, -0.5, -1.0)  # eager has no shortcut for these in f16
_POWERS: dict[float, Any] = {
    0.0: lambda lo, x, out: lo.full(1.0, out),
    1.0: lambda lo, x, out: lo.emit("copy", [x], out),
    0.5: lambda lo, x, out: lo.emit("sqrt", [x], out),
    -0.5: lambda lo, x, out: lo.emit("rsqrt", [x], out),
    -1.0: lambda lo, x, out: lo.emit("reciprocal", [x], out),
    -2.0: _inverse_square,
}


@lowers(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow_tensor(lo: Lowering, node: fx.Node, x: Any, exponent: Value) -> Value:
    common = common_dtype([x, exponent])
    if not common.is_floating_point:
        raise Unsupported("an integer power of an integer tensor")
    return lo.emit("pow", operands(lo, [x, exponent], common), lo.dense_out(node))


@lowers(aten.gelu.default)
def gelu(lo: Lowering, node: fx.Node, x: Value, approximate: str = "none") -> Value:
    return lo.emit("gelu_tanh" if approximate == "tanh" else "gelu", [x], lo.dense_out(node))


# -- choice --------------------------------------------------------------------------------------------------------


@lowers(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where(lo: Lowering, node: fx.Node, condition: Value, a: Any, b: Any) -> Value:
    out = lo.dense_out(node)
    x, y = operands(lo, [a, b], out.dtype)
    return lo.emit("where", [as_bool(lo, condition), x, y], out)


@lowers(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(lo: Lowering, node: fx.Node, x: Value, mask: Value, value: Any) -> Value:
    out = lo.dense_out(node)
    return lo.emit("where", [as_bool(lo, mask), operand(lo, value, x.dtype), x], out)


@lowers(aten.clamp.default, aten.clamp.Tensor)
def clamp(lo: Lowering, node: fx.Node, x: Value, min: Any = None, max: Any = None) -> Value:
    bounds = [(op, v) for op, v in (("maximum", min), ("minimum", max)) if v is not None]
    common, out = common_dtype([x, *(v for _, v in bounds)]), lo.dense_out(node)
    if common is torch.bool:
        raise Unsupported("on bool")
    if any(isinstance(v, float) and v != v for _, v in bounds):
        return lo.full(float("nan"), out)

    def pair(bound: Any, x: Value) -> list[Value]:  # the second stays of equal zeros: x, but a bound that is a tensor
        return [x, operand(lo, bound, common)] if isinstance(bound, Value) else [operand(lo, bound, common), x]

    result = operand(lo, x, common)
    for op, bound in bounds[:-1]:
        result = lo.compute(op, pair(bound, result), common)
    op, bound = bounds[-1]
    return lo.emit(op, pair(bound, result), out)


@lowers(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(lo: Lowering, node: fx.Node, x: Value, min: Any) -> Value:
    return clamp(lo, node, x, min=min)


@lowers(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(lo: Lowering, node: fx.Node, x: Value, max: Any) -> Value:
    return clamp(lo, node, x, max=max)


@lowers(aten.hardtanh.default)
def hardtanh(lo: Lowering, node: fx.Node, x: Value, min_val: Any = -1, max_val: Any = 1) -> Value:
    return clamp(lo, node, x, min_val, max_val)


# -- conversion ------------------------------------------------------------------------------------------------------


@lowers(aten._to_copy.default)
def to_copy(lo: Lowering, node: fx.Node, x: Value, **_: Any) -> Value:
    out = lo.dense_out(node)
    return lo.emit("copy" if out.dtype == x.dtype else "cast", [x], out)


@lowers(torch.ops.prims.convert_element_type.default)
def convert_element_type(lo: Lowering, node: fx.Node, x: Value, dtype: torch.dtype) -> Value:
    return to_copy(lo, node, x)


@lowers(aten.clone.default, aten.lift_fresh_copy.default)
def clone(lo: Lowering, node: fx.Node, x: Value, **_: Any) -> Value:
    return lo.emit("copy", [x], lo.dense_out(node))


_SCATTERS = (aten.slice_scatter.default, aten.select_scatter.default, aten.copy_.default)


@lowers(aten.copy.default)
def copy(lo: Lowering, node: fx.Node, x: Value, source: Value, **_: Any) -> Value:
    out = lo.out(node)
    source = lo.expand(source, out.shape)
    if not out.is_dense() and all(user.target in _SCATTERS for user in node.users):
        return lo.cast(source, out.dtype)  # a scatter takes any layout
    out = lo.dense_out(node)
    return lo.emit("copy" if source.dtype == out.dtype else "cast", [source], out)
