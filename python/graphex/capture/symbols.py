"""Numbers that a region knows by name only: what it computes with them, and for which values what it did holds."""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import sympy
import torch
from torch import fx
from torch._dynamo.source import ConstantSource
from torch.fx.experimental import _config as symbolic_config
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.fx.passes import _tensorify_python_scalars
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from .errors import user_frame
from .recording import Recording
from .refreshable import Refreshable

_REASONING = threading.RLock()
NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class _Arithmetic(PythonReferenceAnalysis):
    """Python's own, but small powers as the products that they were written as: PyTorch asks for the base's sign."""

    @staticmethod
    def pow_by_natural(a: Any, b: Any) -> Any:
        if isinstance(b, int) and 1 <= b <= 8:
            return functools.reduce(operator.mul, [a] * b)
        return a**b


class Symbols:
    """The refreshable numbers of one region. What the region decides by them is noted and checked at replays."""

    def __init__(self) -> None:
        self.env = ShapeEnv(
            specialize_zero_one=False,
            duck_shape=False,
            allow_scalar_outputs=False,
            allow_dynamic_output_shape_ops=False,
        )
        self.numbers: dict[str, Any] = {}  # name -> SymInt or SymFloat
        self.symbols: dict[str, sympy.Symbol] = {}
        self.lines: dict[int, str] = {}  # guard -> the user's line that made it
        self.nodes: dict[sympy.Expr, fx.Node] = {}

    def add(self, name: str, declared: Refreshable) -> Any:
        """The number that stands for it in the region."""
        source = ConstantSource(name)
        symbol = self.env.create_unspecified_symbol(declared.value, source, DimDynamic.DYNAMIC)
        if declared.kind is int:
            self.env.constrain_symbol_range(symbol, compiler_min=declared.min, compiler_max=declared.max)
            number: Any = self.env.create_symintnode(symbol, hint=declared.value, source=source)
        else:
            number = self.env.create_symfloatnode(symbol, hint=declared.value, source=source)
        self.numbers[name], self.symbols[name] = number, symbol
        return number

    def note_line(self) -> None:
        """Says of decisions since the last call that the user's line at hand made them."""
        for k in range(len(self.lines), len(self.env.guards)):
            file, line, _ = user_frame()
            self.lines[k] = f"{file}:{line}"

    def record(self, recording: Recording) -> None:
        """Makes the numbers inputs of the recorded graph, in order."""
        for name, number in self.numbers.items():
            self.nodes[self.symbols[name]] = recording.number(number)

    def node_of(self, number: Any, graph: fx.Graph) -> fx.Node | int | float | bool:
        """The number as calls in the graph, or a constant; of a truth value, what it is now."""
        if isinstance(number, torch.SymBool):
            return bool(number)
        expr = self.env.simplify(number.node.expr) if isinstance(number, torch.SymInt) else number.node.expr
        if expr.is_number:
            return int(expr) if isinstance(number, torch.SymInt) else float(expr)
        if expr not in self.nodes:
            tracer = fx.proxy.GraphAppendingTracer(graph)
            known = {s: fx.Proxy(self.nodes[s], tracer) for s in self.symbols.values()}
            self.nodes[expr] = sympy_interp(_Arithmetic, known, expr).node
        return self.nodes[expr]

    def conditions(self) -> list[Condition]:
        """What must hold of the numbers for the recorded graph to be what the region does."""
        self.note_line()
        by_symbol = {symbol: name for name, symbol in self.symbols.items()}
        made: dict[sympy.Expr, Condition] = {}
        for k, guard in enumerate(self.env.guards):
            made.setdefault(guard.expr, Condition(guard.expr, by_symbol, self.lines[k]))
        return list(made.values())


class Condition:
    """A relation of numbers that a region took for true."""

    def __init__(self, expr: sympy.Expr, names: Mapping[sympy.Symbol, str], line: str) -> None:
        self.expr, self.line = expr, line
        self.names = {symbol: names[symbol] for symbol in expr.free_symbols}
        self.text = str(expr.xreplace({s: sympy.Symbol(name) for s, name in self.names.items()}))

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it holds for these values."""
        return bool(self.expr.xreplace({s: sympy.sympify(values[name]) for s, name in self.names.items()}))

    def fixes(self) -> bool:
        """Whether it leaves a number just one value."""
        if not isinstance(self.expr, sympy.Eq) or len(self.names) != 1:
            return False
        [symbol] = self.names
        difference = self.expr.lhs - self.expr.rhs
        return difference.is_polynomial(symbol) and sympy.Poly(difference, symbol).degree() == 1


def by_present_values() -> Any:
    """Inside of `oblivious`, for layouts that depend on what sizes are now; that is noted as guards."""
    return symbolic_config.patch(backed_size_oblivious=False)


@contextmanager
def oblivious() -> Iterator[None]:
    """While layouts are reasoned about: no look at whether a size happens to be 0 or 1, and floats stay numbers.

    AOTAutograd makes tensors of floats where it can, and fixes the others. These settings belong to the process.
    """
    thread, enabled = threading.get_ident(), _tensorify_python_scalars._is_tensorify_enabled

    def only_elsewhere() -> bool:
        return threading.get_ident() != thread and enabled()

    with (
        _REASONING,
        symbolic_config.patch(backed_size_oblivious=True),
        patch.object(_tensorify_python_scalars, "_is_tensorify_enabled", only_elsewhere),
    ):
        yield
