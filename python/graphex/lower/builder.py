"""Builder: writes nodes of the IR's text, one method per kind of node that lowerings make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .errors import Unsupported
from .exprs import Size, all_same, contiguous_strides, same, symbols_of, text_of, to_size
from .types import Spec, Value, broadcast, compute_dtype, contiguous, is_reduced, rounded


def attr_text(value: Any) -> str:
    """An attribute's value in the text form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return text_of(to_size(value))


def float_text(value: float) -> str:
    """A float so that the parser sees a float and reads back the same bits."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = repr(float(value))
    return text if "." in text or "e" in text else text + ".0"


_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Builder:
    """Accumulates the lines of a graph. Values are immutable; every method returns the new Value."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.where = ""  # the model's source line, for the attribute `at`
        self.marks: dict[str, Any] = {}  # attributes of all nodes to come: stream, cores, range
        self.symbols_used: set[Any] = set()
        self.bounds: Any = None  # of an expression, as ranges; None: there are no symbols
        self.floats: dict[Any, Value] = {}  # symbols that are floats: 0-dim inputs
        self._count = 0
        self._scalars: dict[tuple[Any, ...], Value] = {}

    def name(self) -> str:
        """A fresh value name."""
        self._count += 1
        return str(self._count)

    def note_symbols(self, *sizes: Size) -> None:
        """Records that these sizes' symbols occur in the text."""
        for size in sizes:
            if type(size) is not int:
                self.symbols_used |= symbols_of(size)

    def _note(self, specs: Sequence[Spec], attrs: dict[str, Any]) -> None:
        for spec in specs:
            self.note_symbols(*spec.shape, *spec.strides)
        for value in attrs.values():
            if isinstance(value, list | tuple):
                self.note_symbols(*value)
            elif not isinstance(value, str | float | bool | int):
                self.note_symbols(to_size(value))

    def emit_many(self, op: str, inputs: Sequence[Value], specs: Sequence[Spec], **attrs: Any) -> tuple[Value, ...]:
        """A node with any number of results, each a base of its own."""
        self._note(specs, attrs)
        names = [self.name() for _ in specs]
        results = ", ".join(f"%{n}: {s.text()}" for n, s in zip(names, specs, strict=True))
        if op != "view":
            attrs.update(self.marks)
        if self.where:
            attrs["at"] = self.where
        tail = " {" + ", ".join(f"{k}={attr_text(v)}" for k, v in attrs.items()) + "}" if attrs else ""
        call = f"{op}({', '.join('%' + v.name for v in inputs)}){tail}"
        self.lines.append(f"{results} = {call}" if results else call)
        return tuple(Value(n, s, n) for n, s in zip(names, specs, strict=True))

    def emit(self, op: str, inputs: Sequence[Value], spec: Spec, **attrs: Any) -> Value:
        """A node with one result, which is a new base."""
        return self.emit_many(op, inputs, (spec,), **attrs)[0]

    def view(self, x: Value, shape: Sequence[Size], strides: Sequence[Size], offset: Size = 0) -> Value:
        """A layout over x's base; `offset` counts from x's own first element."""
        spec = Spec(x.dtype, tuple(shape), tuple(strides))
        absolute = to_size(x.offset + offset)
        if absolute == x.offset and spec == x.spec:
            return x
        made = self.emit("view", [x], spec, offset=absolute)
        return Value(made.name, spec, x.base, absolute)

    def expand(self, x: Value, shape: Sequence[Size]) -> Value:
        """x broadcast to a shape, as a view."""
        if all_same(x.shape, shape):
            return x
        lead = len(shape) - x.rank
        strides: list[Size] = [0] * lead
        for size, stride, target in zip(x.shape, x.strides, shape[lead:], strict=True):
            strides.append(stride if same(size, target) else 0)
        return self.view(x, shape, strides)

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """x with its dimensions in another order, as a view."""
        return self.view(x, [x.shape[d] for d in order], [x.strides[d] for d in order])

    def unsqueeze(self, x: Value, dim: int) -> Value:
        """x with a dimension of size 1 put in at `dim` (not negative), as a view."""
        shape, strides = list(x.shape), list(x.strides)
        step = to_size(shape[dim] * strides[dim]) if dim < len(shape) else 1
        shape.insert(dim, 1)
        strides.insert(dim, step)
        return self.view(x, shape, strides)

    def copy(self, x: Value, spec: Spec | None = None) -> Value:
        """The same values in a new base, row-major unless a spec is given."""
        return self.emit("copy", [x], spec or contiguous(x.dtype, x.shape))

    def contiguous(self, x: Value) -> Value:
        """x itself if row-major, else a copy that is."""
        return x if x.spec.is_contiguous() else self.copy(x)

    def reshape(self, x: Value, shape: Sequence[Size]) -> Value:
        """x in another shape of the same count, copied first unless it is row-major."""
        x = self.contiguous(x)
        return self.view(x, shape, contiguous_strides(shape))

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        """x converted; x itself when it has the dtype."""
        if x.dtype == dtype:
            return x
        strides = x.strides if x.spec.is_dense() else contiguous_strides(x.shape)
        return self.emit("cast", [x], Spec(dtype, x.shape, strides))

    def full(self, value: Any, spec: Spec) -> Value:
        """A tensor with one value everywhere; eager decides about an integer that the dtype can't hold."""
        if spec.dtype in _INTEGERS and not isinstance(value, float):
            limits, (least, most) = torch.iinfo(spec.dtype), self.range_of(value)
            is_size = spec.dtype.itemsize >= 4 and not math.isfinite(most)  # which memory bounds
            if not ((limits.min or -limits.max) <= least and (most <= limits.max or is_size)):
                raise Unsupported(f"{value} may be out of range for {spec.dtype}")
        return self.emit("full", [], spec, value=value)

    def range_of(self, size: Size) -> tuple[float, float]:
        """The least and greatest value of a size, as far as is known."""
        if isinstance(size, int):
            return size, size
        if self.bounds is None:
            return -math.inf, math.inf
        range_ = self.bounds(size)
        lower, upper = range_.lower, range_.upper
        return int(lower) if lower.is_Integer else -math.inf, int(upper) if upper.is_Integer else math.inf

    def scalar(self, value: Any, dtype: torch.dtype) -> Value:
        """A 0-dim constant, made once per value and dtype."""
        if isinstance(value, complex):
            raise TypeError("complex scalar")
        if isinstance(value, float) and is_reduced(dtype):
            value = rounded(value, dtype)
        key = (type(value), repr(value), dtype)
        if key not in self._scalars:
            where, marks, self.where, self.marks = self.where, self.marks, "", {}
            self._scalars[key] = self.full(value, contiguous(dtype, ()))
            self.where, self.marks = where, marks
        return self._scalars[key]

    def compute(self, op: str, inputs: Sequence[Value], dtype: torch.dtype | None = None) -> Value:
        """An intermediate elementwise result: broadcast, row-major, in the compute type unless a dtype is given."""
        shape = broadcast(*(v.shape for v in inputs))
        return self.emit(op, inputs, contiguous(dtype or compute_dtype(inputs[0].dtype), shape))

    def sum(self, x: Value, dims: Sequence[int], dtype: torch.dtype) -> Value:
        """An intermediate sum that keeps its dimensions."""
        return self.emit("sum", [x], self.kept(x, dims, dtype), dims=sorted(dims), keepdim=True)

    def amax(self, x: Value, dims: Sequence[int]) -> Value:
        """An intermediate maximum that keeps its dimensions."""
        return self.emit("amax", [x], self.kept(x, dims, x.dtype), dims=sorted(dims), keepdim=True)

    def kept(self, x: Value, dims: Sequence[int], dtype: torch.dtype) -> Spec:
        """The row-major Spec of a reduction of x over dims that keeps them as 1."""
        return contiguous(dtype, [1 if d in dims else s for d, s in enumerate(x.shape)])
