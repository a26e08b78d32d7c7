"""Floats that depend on sizes (n ** -0.5, x.shape[0] / 3): kept as expressions, computed in f64 where one is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
import torch

from .errors import Unsupported
from .types import Value

if TYPE_CHECKING:
    from .builder import Builder


@dataclass(frozen=True)
class FloatExpr:
    """A Python float whose value is known only when the graph runs."""

    expr: sympy.Expr

    def _unknown(self, *_: Any) -> Any:
        raise Unsupported(f"the float {self.expr}, known only when the graph runs")

    __float__ = __int__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown


_BINARY = {"IntTrueDiv": "div", "FloatTrueDiv": "div", "FloatPow": "pow", "Max": "maximum", "Min": "minimum"}
_UNARY = {"sqrt": "sqrt", "exp": "exp", "log": "log", "log2": "log2", "sin": "sin", "cos": "cos", "tanh": "tanh"}


def float_value(lo: Builder, expr: sympy.Expr) -> Value:
    """The expression as a 0-dim f64 value."""
    if expr in lo.floats:
        return lo.floats[expr]
    if expr.is_Number:
        return lo.scalar(float(expr), torch.float64)
    if expr.is_integer:
        return lo.scalar(expr, torch.float64)
    kind = type(expr).__name__
    args = list(expr.args)
    if kind == "ToFloat":
        return float_value(lo, args[0])
    name = _UNARY.get(kind.removeprefix("OpaqueUnaryFn_"))
    if name is not None:
        return lo.compute(name, [float_value(lo, args[0])])
    name = "add" if expr.is_Add else "mul" if expr.is_Mul else "pow" if expr.is_Pow else _BINARY.get(kind)
    if name is None:
        raise Unsupported(f"the float expression {expr} uses {kind}")
    result = float_value(lo, args[0])
    for arg in args[1:]:
        result = lo.compute(name, [result, float_value(lo, arg)])
    return result
