"""Type promotion as eager does it, made explicit.

Eager converts every operand to a common dtype and computes in that dtype's compute type (f32 for f16 and bf16).
Operands whose compute type is the common one need no `cast` node, unless they are wider than the common dtype: then
eager rounds them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from .errors import Unsupported
from .exprs import Size
from .scalars import FloatExpr, float_value
from .types import Value, compute_dtype, is_reduced

if TYPE_CHECKING:
    from .builder import Builder

_CATEGORY = {bool: 0, int: 1, float: 2, FloatExpr: 2}
_DEFAULTS = {0: torch.bool, 1: torch.int64}


@cache
def promoted(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    """torch.promote_types, asked once per pair: under tracing it costs a dispatch."""
    return a if a == b else torch.promote_types(a, b)


def category(dtype: torch.dtype) -> int:
    """0 bool, 1 integer, 2 floating."""
    return 2 if dtype.is_floating_point else 0 if dtype is torch.bool else 1


def scalar_category(value: Any) -> int:
    """The category of a Python scalar (a symbolic size is an integer)."""
    if isinstance(value, complex):
        raise Unsupported("a complex scalar")
    return _CATEGORY.get(type(value), 1)


def common_dtype(operands: Sequence[Value | Size | float]) -> torch.dtype:
    """torch.result_type over tensors, 0-dim tensors and Python scalars."""
    levels: list[torch.dtype | None] = [None, None]  # with dimensions, 0-dim
    scalar = -1
    for operand in operands:
        if isinstance(operand, Value):
            level = 0 if operand.rank else 1
            now = levels[level]
            levels[level] = operand.dtype if now is None else promoted(now, operand.dtype)
        else:
            scalar = max(scalar, scalar_category(operand))
    result = levels[0]
    if levels[1] is not None and (result is None or category(levels[1]) > category(result)):
        result = levels[1] if result is None else promoted(result, levels[1])
    if scalar > (category(result) if result is not None else -1):
        return _DEFAULTS.get(scalar, torch.get_default_dtype())
    assert result is not None
    return result


def to_float(dtype: torch.dtype) -> torch.dtype:
    """The dtype itself if floating, else the default float, as operators such as sqrt and div promote."""
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def operand(lo: Builder, value: Any, common: torch.dtype, exact_scalars: bool = False) -> Value:
    """An operand ready for an operator that computes on `common`.

    `exact_scalars`: eager reads a Python scalar or 0-dim tensor in the compute type (second operand of mul and div);
    elsewhere it is rounded to the common dtype first.
    """
    if isinstance(value, FloatExpr):
        return lo.cast(float_value(lo, value.expr), compute_dtype(common) if exact_scalars else common)
    if not isinstance(value, Value):
        if isinstance(value, float) and not common.is_floating_point:
            value = int(value)
        return lo.scalar(_typed(value, common), compute_dtype(common) if exact_scalars else common)
    if compute_dtype(value.dtype) != compute_dtype(common):
        if exact_scalars and value.rank == 0 and is_reduced(common):
            return lo.cast(value, compute_dtype(common))
        return lo.cast(value, common)
    wider = is_reduced(common) and value.dtype != common
    if wider and not (exact_scalars and value.rank == 0):
        return lo.cast(value, common)
    return value


def _typed(value: Any, dtype: torch.dtype) -> Any:
    """A Python scalar as the kind of number that the dtype holds, so that equal constants are made once."""
    if isinstance(value, bool | int | float):
        return float(value) if dtype.is_floating_point else bool(value) if dtype is torch.bool else int(value)
    return value


def operands(lo: Builder, values: Sequence[Any], common: torch.dtype, exact_scalars: bool = False) -> list[Value]:
    """`operand` of each."""
    return [operand(lo, value, common, exact_scalars) for value in values]
