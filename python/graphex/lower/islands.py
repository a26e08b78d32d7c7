"""Islands: nodes that eager PyTorch runs between native segments, as plain functions of tensors and ints."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .complex import Complex
from .errors import Unsupported
from .exprs import Size, to_size
from .scalars import FloatExpr, float_value
from .types import Spec, Value

if TYPE_CHECKING:
    from .lowering import Lowering


class _Arguments:
    """Sorts a node's arguments into tensors, run-time ints and constants, and writes the call's Python text."""

    def __init__(self, lo: Lowering) -> None:
        self.lo = lo
        self.env = lo.env
        self.tensors: list[Value] = []
        self.ints: list[Size] = []
        self.constants: dict[str, Any] = {}

    def text(self, arg: Any) -> str:
        if isinstance(arg, fx.Node):
            return self._node(self.env[arg])
        if isinstance(arg, list | tuple):
            return "[" + ", ".join(map(self.text, arg)) + "]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{k!r}: {self.text(v)}" for k, v in arg.items()) + "}"
        return self._constant(arg)

    def _node(self, value: Any) -> str:
        if isinstance(value, Value):
            self.tensors.append(value)
            return f"t{len(self.tensors) - 1}"
        if isinstance(value, Complex):
            self.tensors.append(value.pair)
            return f"as_complex(t{len(self.tensors) - 1})"
        if isinstance(value, FloatExpr):
            self.tensors.append(float_value(self.lo, value.expr))
            return f"float(t{len(self.tensors) - 1})"
        if isinstance(value, int | None) or not hasattr(value, "free_symbols"):
            return self._constant(value)
        self.ints.append(to_size(value))
        return f"i{len(self.ints) - 1}"

    def _constant(self, value: Any) -> str:
        if value is None or isinstance(value, bool | int):
            return repr(value)
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name


def is_effect(node: fx.Node) -> bool:
    """Whether the node wraps an operator that AOT orders by tokens: with_effects(token, op, ...) -> (token, ...)."""
    return getattr(node.target, "_name", "") == "with_effects"


def _has_effect(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return True
    if torch.Tag.nondeterministic_seeded in target.tags or target._schema.is_mutable or not target._schema.returns:
        return True
    return target.namespace not in ("aten", "prims")


def _may_alias(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return True
    return target.namespace not in ("aten", "prims") or returns_view(node)


def returns_view(node: fx.Node) -> bool:
    """Whether the operator's results share its operands' memory in eager."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and any(r.alias_info for r in target._schema.returns)


def _flat(val: Any) -> list[Any]:
    return list(val) if isinstance(val, list | tuple) else [val]


def _used_vals(node: fx.Node) -> list[Any]:
    """The fake results, None for those that nothing takes: what fakes say of them is often not what eager makes."""
    vals = _flat(node.meta.get("val"))
    if is_effect(node):
        return [None, *vals[1:]]  # islands run in order without a token
    if not isinstance(node.meta.get("val"), list | tuple) or any(u.target is not operator.getitem for u in node.users):
        return vals
    taken = {user.args[1] for user in node.users}
    return [val if i in taken else None for i, val in enumerate(vals)]


# Results whose fakes show another dtype or size than eager's kernel gives.
_FAKES_DIFFER = {
    "_batch_norm_with_update_functional": (1, 2, 3),
    "_embedding_bag": (1, 2, 3),
    "_embedding_bag_forward_only": (1, 2, 3),
    "_native_batch_norm_legit_functional": (1, 2),
}


def _refuse_untrue(node: fx.Node, vals: Sequence[Any]) -> None:
    """What depends on a fake that isn't true can only run as a whole by eager."""
    name = getattr(node.target, "__name__", "").partition(".")[0]
    if "aten.quantize_per" in str(node.target):
        raise Unsupported("a quantized tensor")  # whose fake tensor shows a plain one
    if any(vals[i] is not None for i in _FAKES_DIFFER.get(name, ())):
        raise Unsupported(f"a result of {name} whose type is known only when it runs")


def make_island(lo: Lowering, node: fx.Node, index: int) -> tuple[Any, Callable[..., tuple[torch.Tensor, ...]]]:
    """Emits the island's line; returns its value(s) in the shape of the node's result, and the callable."""
    vals = _used_vals(node)
    _refuse_untrue(node, vals)
    for val in vals:
        if val is not None and not isinstance(val, torch.Tensor):
            raise Unsupported(f"{node.target} returns {type(val).__name__}, known only when the graph runs")
    specs = [lo.layouts.spec_of(val) for val in vals if val is not None]
    args = _Arguments(lo)
    call = [args.text(a) for a in node.args] + [f"{k}={args.text(v)}" for k, v in node.kwargs.items()]
    strides = [_stride_texts(spec, args.ints) for spec in specs]
    attrs: dict[str, Any] = {"call": index, "name": str(node.target)}
    if args.ints:
        attrs["ints"] = args.ints
    if _has_effect(node):
        attrs["effect"] = True
    run = _compile(node, args, ", ".join(call), vals, strides, _may_alias(node))
    made = iter(lo.emit_many("island", args.tensors, specs, **attrs))
    results = tuple(None if val is None else _held(val, next(made)) for val in vals)
    return (results if isinstance(node.meta.get("val"), list | tuple) else results[0]), run


def _held(val: torch.Tensor, made: Value) -> Any:
    return Complex(made) if val.is_complex() else made


def _as_real(result: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(result.resolve_conj().resolve_neg())


def _stride_texts(spec: Spec, ints: list[Size]) -> str:
    """Python text of the strides that a result must have; symbolic ones are passed as further ints."""
    parts = []
    for stride in spec.strides:
        if type(stride) is int:
            parts.append(str(stride))
        else:
            ints.append(stride)
            parts.append(f"i{len(ints) - 1}")
    return "(" + "".join(p + ", " for p in parts) + ")"


def _compile(
    node: fx.Node, args: _Arguments, call: str, vals: Sequence[Any], strides: Sequence[str], alias: bool
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Builds the function by its Python text, so that a call costs no tree walk."""
    params = [f"t{i}" for i in range(len(args.tensors))] + [f"i{i}" for i in range(len(args.ints))]
    several = isinstance(node.meta.get("val"), list | tuple)
    lines = [f"def island({', '.join(params)}):", " with no_grad():", f"  r = op({call})"]
    kept = [(f"r[{i}]" if several else "r", val) for i, val in enumerate(vals) if val is not None]
    names = [f"as_real({name})" if val.is_complex() else name for name, val in kept]
    tensors = f"({''.join(f't{i}, ' for i in range(len(args.tensors)))})"
    fixed = [f"fix({n}, {s}, {tensors if alias else '()'}), " for n, s in zip(names, strides, strict=True)]
    lines.append(f"  return ({''.join(fixed)})")
    scope = {"op": node.target, "no_grad": torch.no_grad, "fix": fix_layout, **args.constants}
    scope |= {"as_complex": torch.view_as_complex, "as_real": _as_real}
    exec("\n".join(lines), scope)
    return scope["island"]


def fix_layout(result: torch.Tensor, strides: tuple[int, ...], operands: Sequence[torch.Tensor]) -> torch.Tensor:
    """The result with exactly these strides, sharing memory with no operand: a copy where it isn't so already."""
    if result.is_conj() or result.is_neg():
        result = result.resolve_conj().resolve_neg()
    if result.stride() != strides and result.numel() > 0:
        fixed = torch.empty_strided(result.shape, strides, dtype=result.dtype)
        return fixed.copy_(result)
    if operands and any(_same_storage(result, t) for t in operands):
        return _apart(result)
    return result


def _apart(x: torch.Tensor) -> torch.Tensor:
    """x in memory of its own and in its own layout, in which several indices may share an element."""
    if x.numel() == 0:
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.as_strided((extent,), (1,)).clone().as_strided(x.shape, x.stride(), 0)


def _same_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
