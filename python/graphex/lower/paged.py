"""Attention over a paged cache, and writing into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import fx

from ..ops import paged_attention_operator, with_slots
from .errors import Unsupported
from .registry import lowers
from .types import Value, contiguous

if TYPE_CHECKING:
    from .lowering import Lowering


@lowers(with_slots._opoverload)
def lower_with_slots(lo: Lowering, node: fx.Node, cache: Value, rows: Value, slots: Value) -> Value:
    slots = lo.cast(slots, torch.int64)
    size = cache.shape[1]
    if type(size) is not int or size == 0:
        raise Unsupported("a paged cache whose block size is symbolic, or 0")
    divisor, spec = lo.scalar(size, torch.int64), contiguous(torch.int64, slots.shape)
    at = [lo.emit(op, [slots, divisor], spec) for op in ("floor_divide", "remainder")]
    return lo.emit("index_put", [cache, rows, *at], lo.dense_out(node), dim=0, accumulate=False, skip=True)


@lowers(paged_attention_operator._opoverload)
def lower_paged_attention(
    lo: Lowering,
    node: fx.Node,
    query: Value,
    key: Value,
    value: Value,
    tables: Value,
    lengths: Value,
    cu_seqlens: Value | None,
    scale: float,
    causal: bool,
    window: int | None,
    soft_cap: float | None,
    sinks: Value | None,
) -> Value:
    if cu_seqlens is not None:
        raise Unsupported("paged attention with several tokens of a sequence")
    if soft_cap is not None or sinks is not None:
        raise Unsupported("paged attention with a soft cap or sinks")
    block, heads, kv_heads = key.shape[1], query.shape[1], key.shape[2]
    if type(block) is not int or block % 16:
        raise Unsupported("paged attention over blocks of a symbolic size, or one that isn't a multiple of 16")
    if type(heads) is not int or type(kv_heads) is not int or type(query.shape[2]) is not int:
        raise Unsupported("paged attention with a symbolic number or size of heads")
    if query.dtype == torch.float64:
        raise Unsupported("attention in float64")
    tables, lengths = lo.cast(tables, torch.int64), lo.cast(lengths, torch.int64)
    bounds = lo.emit(
        "paged_bounds",
        [lengths, tables],
        contiguous(torch.int64, lengths.shape),
        block=block,
        blocks=key.shape[0],
        window=window or 0,
    )
    return lo.emit(
        "paged_attention",
        [query, key, value, tables, bounds],
        lo.dense_out(node),
        scale=float(scale),
        group=heads // kv_heads,
        window=window or 0,
    )
