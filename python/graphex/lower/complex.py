"""Complex numbers: a complex tensor is held as the real one that view_as_real gives, with a last dimension of 2.

Rotary embeddings of some models multiply by complex factors. The operators here are native; any other becomes an
island, whose callable is given complex tensors and returns them as pairs again (islands.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .errors import Unsupported
from .exprs import to_size
from .types import Spec, Value

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex value of the text: `pair` has its real and imaginary parts side by side, [..., 2] with stride 1."""

    pair: Value


def is_complex(lo: Lowering, node: fx.Node) -> bool:
    """Whether the node takes or makes complex tensors."""
    val = node.meta.get("val")
    vals = val if isinstance(val, list | tuple) else (val,)
    return any(isinstance(one, torch.Tensor) and one.is_complex() for one in vals) or any(
        isinstance(lo.env[operand], Complex) for operand in node.all_input_nodes
    )


def lower_complex(lo: Lowering, node: fx.Node) -> Any:
    """The node's result; Unsupported for what has no lowering here."""
    target = node.target
    lowering = _LOWERINGS.get(target)
    if lowering is not None:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: lo.env[n])
        return lowering(lo, node, *args, **kwargs)
    if isinstance(target, torch._ops.OpOverload) and target.is_view:
        return _view(lo, node)
    raise Unsupported("on complex numbers")


def _view(lo: Lowering, node: fx.Node) -> Any:
    source, val = node.args[0], node.meta["val"]
    x = lo.env[source]  # type: ignore[index]
    if not isinstance(x, Complex):
        raise Unsupported("a view of real numbers as complex ones")
    start = lo.layouts.storage_offset(source.meta["val"])  # type: ignore[union-attr]

    def one(part: torch.Tensor) -> Complex:
        if not part.is_complex():
            raise Unsupported("a view of complex numbers as real ones")
        spec = lo.layouts.spec_of(part)
        offset = to_size(2 * (lo.layouts.storage_offset(part) - start))
        return Complex(lo.view(x.pair, spec.shape, spec.strides, offset))

    return tuple(map(one, val)) if isinstance(val, list | tuple) else one(val)


def _parts(lo: Lowering, x: Any, dtype: torch.dtype) -> tuple[Value, Value]:
    """Real and imaginary part in a real dtype."""
    if isinstance(x, Complex):
        shape, strides = x.pair.shape[:-1], x.pair.strides[:-1]
        real, imaginary = (lo.cast(lo.view(x.pair, shape, strides, k), dtype) for k in (0, 1))
        return real, imaginary
    if isinstance(x, Value):
        return lo.cast(x, dtype), lo.scalar(0.0, dtype)
    number = complex(x)
    return lo.scalar(number.real, dtype), lo.scalar(number.imag, dtype)


def _joined(lo: Lowering, out: Spec, real: Value, imaginary: Value) -> Complex:
    halves = [lo.unsqueeze(lo.expand(half, out.shape[:-1]), out.rank - 1) for half in (real, imaginary)]
    return Complex(lo.emit("cat", halves, out, dim=out.rank - 1))


def _as_complex(lo: Lowering, node: fx.Node, x: Value) -> Complex:
    return Complex(x)


def _as_real(lo: Lowering, node: fx.Node, x: Complex) -> Value:
    return x.pair


def _complex(lo: Lowering, node: fx.Node, real: Value, imaginary: Value) -> Complex:
    return _joined(lo, lo.dense_out(node), real, imaginary)


def _polar(lo: Lowering, node: fx.Node, size: Value, angle: Value) -> Complex:
    real, imaginary = (lo.compute("mul", [size, lo.compute(name, [angle])]) for name in ("cos", "sin"))
    return _joined(lo, lo.dense_out(node), real, imaginary)


def _mul(lo: Lowering, node: fx.Node, x: Any, y: Any) -> Complex:
    out = lo.dense_out(node)
    (a, b), (c, d) = _parts(lo, x, out.dtype), _parts(lo, y, out.dtype)
    real = lo.compute("sub", [lo.compute("mul", [a, c]), lo.compute("mul", [b, d])])
    imaginary = lo.compute("add", [lo.compute("mul", [a, d]), lo.compute("mul", [b, c])])
    return _joined(lo, out, real, imaginary)


_LOWERINGS: dict[Any, Callable[..., Any]] = {
    aten.view_as_complex.default: _as_complex,
    aten.view_as_real.default: _as_real,
    aten.complex.default: _complex,
    aten.polar.default: _polar,
    aten.mul.Tensor: _mul,
    aten.mul.Scalar: _mul,
}
