"""Matrix products and attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .errors import Unsupported
from .exprs import same
from .registry import lowers
from .types import Value, compute_dtype, contiguous

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten


def _floating(*values: Value) -> None:
    if not all(v.dtype.is_floating_point for v in values):
        raise Unsupported("a matrix product of integers")


@lowers(aten.mm.default, aten.bmm.default)
def matmul(lo: Lowering, node: fx.Node, a: Value, b: Value) -> Value:
    _floating(a, b)
    return lo.emit("matmul", [a, b], lo.dense_out(node))


@lowers(aten.addmm.default, aten.baddbmm.default)
def addmm(lo: Lowering, node: fx.Node, c: Value, a: Value, b: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    _floating(a, b, c)
    if beta == 0:
        return _scaled(lo, lo.emit("matmul", [a, b], lo.dense_out(node)), alpha)
    return lo.emit("addmm", [c, a, b], lo.dense_out(node), alpha=float(alpha), beta=float(beta))


def _scaled(lo: Lowering, x: Value, alpha: Any) -> Value:
    if alpha == 1:
        return x
    return lo.emit("mul", [x, lo.scalar(float(alpha), compute_dtype(x.dtype))], x.spec)


@lowers(aten.mv.default)
def mv(lo: Lowering, node: fx.Node, a: Value, x: Value) -> Value:
    _floating(a, x)
    column = lo.emit("matmul", [a, lo.unsqueeze(x, 1)], contiguous(a.dtype, [a.shape[0], 1]))
    return lo.view(column, [a.shape[0]], [1])


@lowers(aten.addmv.default)
def addmv(lo: Lowering, node: fx.Node, c: Value, a: Value, x: Value, beta: Any = 1, alpha: Any = 1) -> Value:
    _floating(a, x, c)
    if beta == 0:
        return _scaled(lo, mv(lo, node, a, x), alpha)
    column = lo.unsqueeze(lo.expand(c, [a.shape[0]]), 1)
    spec = contiguous(a.dtype, [a.shape[0], 1])
    made = lo.emit("addmm", [column, a, lo.unsqueeze(x, 1)], spec, alpha=float(alpha), beta=float(beta))
    return lo.view(made, [a.shape[0]], [1])


@lowers(aten.dot.default, aten.vdot.default)
def dot(lo: Lowering, node: fx.Node, a: Value, b: Value) -> Value:
    _floating(a, b)
    row, column = lo.unsqueeze(a, 0), lo.unsqueeze(b, 1)
    return lo.view(lo.emit("matmul", [row, column], contiguous(a.dtype, [1, 1])), [], [])


def _group(q: Value, k: Value, v: Value) -> int:
    """Query heads that share a key head."""
    heads, shared = q.shape[1], k.shape[1]
    if same(heads, shared) and same(shared, v.shape[1]):
        return 1
    if type(heads) is not int or type(shared) is not int or not same(shared, v.shape[1]) or heads % shared:
        raise Unsupported("attention whose query heads don't share the key heads evenly")
    return heads // shared


@lowers(aten._scaled_dot_product_flash_attention_for_cpu.default)
def flash_attention(
    lo: Lowering,
    node: fx.Node,
    q: Value,
    k: Value,
    v: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    if dropout_p:
        raise Unsupported("attention with dropout")
    if is_causal and attn_mask is not None:
        raise Unsupported("attention that is causal and has a mask besides")
    group = _group(q, k, v)
    if scale is None:
        if type(q.shape[-1]) is not int:
            raise Unsupported("attention over heads of symbolic size")
        scale = float(q.shape[-1]) ** -0.5
    inputs = [q, k, v]
    if attn_mask is not None:
        lead = 4 - attn_mask.rank
        mask = attn_mask
        for _ in range(lead):
            mask = lo.unsqueeze(mask, 0)
        inputs.append(mask)
    out, lse = lo.dense_out(node, 0), lo.dense_out(node, 1)
    made = lo.emit_many("attention", inputs, (out, lse), scale=float(scale), causal=bool(is_causal), group=group)
    return made[0], made[1]
