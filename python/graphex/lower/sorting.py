"""Sorting and the first few of a sorted row, equal elements in eager's order."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from .errors import Unsupported
from .exprs import Size, same
from .registry import lowers
from .types import Spec, Value, contiguous

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten

_NEVER = 1 << 62
_LONG = 32768  # eager sorts lines of integers from this length on by radix, hence stably
_ORDER_OF_EQUALS = [8, 16, 15, 14, 13, 12, 11, 10, 9, 0, 7, 6, 5, 4, 3, 2, 1]  # by libstdc++'s std::sort


@cache
def _order_is_known() -> bool:
    """Whether this PyTorch leaves equal elements as the builds do whose order the kernels reproduce."""
    with _disable_current_modes():
        few = torch.sort(torch.zeros(len(_ORDER_OF_EQUALS))).indices
        many = torch.sort(torch.zeros(_LONG, dtype=torch.int64)).indices
        return few.tolist() == _ORDER_OF_EQUALS and torch.equal(many, torch.arange(_LONG))


def _stable_from(x: Value, dim: int, descending: bool, stable: bool | None) -> int:
    """The length from which on eager leaves equal elements in their order."""
    if stable or same(x.strides[dim], 0):
        return 0
    if not _order_is_known():
        raise Unsupported("this build of PyTorch leaves equal elements in an order of its own; stable=True is native")
    whole = not x.dtype.is_floating_point and x.dtype is not torch.bool
    return _LONG if x.rank == 1 and whole and not descending else _NEVER


def _ordered(lo: Lowering, op: str, node: fx.Node, x: Value, dim: int, **attrs: Size) -> tuple[Value, Value]:
    outs = lo.dense_out(node, 0), lo.dense_out(node, 1)
    if x.rank == 0:
        return lo.emit("copy", [x], outs[0]), lo.full(0, outs[1])
    made = lo.emit_many(op, [x], [contiguous(out.dtype, out.shape) for out in outs], dim=dim % x.rank, **attrs)
    values, indices = (_in_layout(lo, value, out) for value, out in zip(made, outs, strict=True))
    return values, indices


def _in_layout(lo: Lowering, value: Value, out: Spec) -> Value:
    return value if out.is_contiguous() else lo.emit("copy", [value], out)


@lowers(aten.sort.default)
def sort(lo: Lowering, node: fx.Node, x: Value, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    return sort_stable(lo, node, x, stable=False, dim=dim, descending=descending)


@lowers(aten.sort.stable)
def sort_stable(
    lo: Lowering, node: fx.Node, x: Value, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    stable_from = _stable_from(x, dim % x.rank, descending, stable) if x.rank else 0
    return _ordered(lo, "sort", node, x, dim, descending=bool(descending), stable_from=stable_from)


@lowers(aten.topk.default)
def topk(
    lo: Lowering, node: fx.Node, x: Value, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    if x.dtype is torch.bool:
        raise Unsupported("on bool")  # eager's error
    return _ordered(lo, "topk", node, x, dim, k=k, largest=bool(largest), sorted=bool(sorted))
