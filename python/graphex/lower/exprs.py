"""Sizes: Python ints or sympy expressions of torch's symbols, and their text in the expression syntax of the IR.

A `Size` is an int whenever the value is known, so graphs of fixed shape never touch sympy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import sympy
import torch

from .errors import Unsupported

Size: TypeAlias = int | sympy.Expr


def to_size(value: Any) -> Size:
    """The Size of an int, a SymInt, a sympy expression or an FX node that stands for one of these."""
    if type(value) is int or type(value) is bool:
        return int(value)
    if isinstance(value, torch.SymInt):
        value = value.node.expr
    elif isinstance(value, torch.fx.Node):
        return to_size(value.meta["val"])
    if isinstance(value, sympy.Expr):
        return int(value) if value.is_Integer else value
    if isinstance(value, int):
        return int(value)
    raise Unsupported(f"{value!r} is not an integer size")


def to_sizes(values: Sequence[Any]) -> tuple[Size, ...]:
    """to_size of each item."""
    return tuple(v if type(v) is int else to_size(v) for v in values)


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are equal for every value of the symbols, as far as can be seen."""
    if type(a) is int and type(b) is int:
        return a == b
    return a == b or sympy.expand(a - b) == 0


def all_same(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Whether two shapes (or stride lists) are equal item by item."""
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


def product(sizes: Sequence[Size]) -> Size:
    """The product of the sizes; 1 for none."""
    result: Size = 1
    for size in sizes:
        result = result * size
    return to_size(result)


def at_least_one(size: Size) -> Size:
    """max(size, 1) of a known size; an expression stands for itself, as in the IR's row-major strides."""
    return max(size, 1) if type(size) is int else size


def contiguous_strides(shape: Sequence[Size]) -> tuple[Size, ...]:
    """Row-major strides, a size of 0 counting as 1, as torch gives them."""
    return _contiguous_strides(shape if type(shape) is tuple else tuple(shape))


@lru_cache(maxsize=4096)
def _contiguous_strides(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * at_least_one(size)
    return tuple(to_size(s) for s in reversed(strides))


def symbols_of(value: Size) -> set[sympy.Symbol]:
    """The symbols that occur in a size."""
    return set() if type(value) is int else value.free_symbols


def text_of(value: Size) -> str:
    """The size in the IR's expression syntax; Unsupported if that has no words for it."""
    return str(value) if type(value) is int else _text_of_expr(value)


@lru_cache(maxsize=65536)
def _text_of_expr(expr: sympy.Expr) -> str:
    if expr.is_Integer:
        return str(int(expr))
    if expr.is_Symbol:
        return str(expr)
    if expr.is_Add:
        return "(" + " + ".join(_text_of_expr(a) for a in expr.args) + ")"
    if expr.is_Mul:
        return _text_of_product(expr)
    if expr.is_Pow:
        base, exponent = expr.args
        if exponent.is_Integer and 1 <= int(exponent) <= 8:
            return "*".join([_text_of_expr(base)] * int(exponent))
        raise Unsupported(f"the size expression {expr} has a power that isn't a small positive integer")
    printer = _FUNCTIONS.get(type(expr).__name__)
    if printer is None:
        raise Unsupported(f"the size expression {expr} uses {type(expr).__name__}")
    return printer(*expr.args)


def _text_of_product(expr: sympy.Expr) -> str:
    """A product; a rational factor p/q becomes floordiv(p * rest, q), exact since sizes are integers."""
    factors = []
    denominator = 1
    for factor in expr.args:
        if factor.is_Rational and not factor.is_Integer:
            denominator = int(factor.q)
            factor = sympy.Integer(factor.p)
        factors.append(_text_of_expr(factor))
    text = "*".join(factors)
    return text if denominator == 1 else f"floordiv({text}, {denominator})"


def _call(name: str) -> Callable[..., str]:
    def fold(*args: sympy.Expr) -> str:
        text = _text_of_expr(args[0])
        for arg in args[1:]:
            text = f"{name}({text}, {_text_of_expr(arg)})"
        return text

    return fold


def _modular_indexing(base: sympy.Expr, divisor: sympy.Expr, modulus: sympy.Expr) -> str:
    quotient = _text_of_expr(base) if divisor == 1 else _call("floordiv")(base, divisor)
    return f"mod({quotient}, {_text_of_expr(modulus)})"


# By class name, for torch has classes of its own beside sympy's (torch.utils._sympy.functions).
_FUNCTIONS: dict[str, Callable[..., str]] = {
    "FloorDiv": _call("floordiv"),
    "CleanDiv": _call("floordiv"),
    "Mod": _call("mod"),
    "PythonMod": _call("mod"),
    "Min": _call("min"),
    "Max": _call("max"),
    "ModularIndexing": _modular_indexing,
    "Identity": lambda x: _text_of_expr(x),
    "PowByNatural": lambda base, exponent: _text_of_expr(sympy.Pow(base, exponent, evaluate=False)),
}
