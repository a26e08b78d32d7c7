"""Which operators AOT breaks up before we see them: PyTorch's core table without what the lowering takes whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

aten = torch.ops.aten

# Taken whole: a lowering of ours keeps eager's rounding or makes a better graph than the decomposition.
_KEPT_WHOLE = (
    aten._scaled_dot_product_flash_attention_for_cpu,
    aten._unsafe_index,
    aten._unsafe_index_put,
    aten._unsafe_view,
    aten.addcdiv,
    aten.addcmul,
    aten.arange,
    aten.baddbmm,
    aten.clamp_max,
    aten.clamp_min,
    aten.dot,
    aten.empty_like,
    aten.fill,
    aten.floor_divide,
    aten.index_add,
    aten.index_copy,
    aten.index_fill,
    aten.lerp,
    aten.masked_fill,
    aten.mv,
    aten.new_empty,
    aten.new_full,
    aten.new_ones,
    aten.new_zeros,
    aten.ones,
    aten.ones_like,
    aten.rsub,
    aten.select_scatter,
    aten.sgn,
    aten.silu,
    aten.stack,
    aten.std,
    aten.std_mean,
    aten.sum,
    aten.transpose,
    aten.t,
    aten.unbind,
    aten.var,
    aten.vdot,
    aten.where,
    aten.zero,
    aten.zeros,
    aten.zeros_like,
    # Random: the island has to draw as eager draws.
    aten.bernoulli,
    aten.native_dropout,
)


def _roll(x: torch.Tensor, shifts: Any, dims: Any = ()) -> torch.Tensor:
    """As eager does it: a cat of two parts per dimension, which keeps the memory format where cat does."""
    shifts, dims = ([n] if isinstance(n, int | torch.SymInt) else list(n) for n in (shifts, dims))
    if not dims:
        return _roll(x.contiguous().view(-1), shifts, [0]).view(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        if x.numel() == 0:
            x = x.clone(memory_format=torch.preserve_format)
            continue
        size = x.shape[dim]
        start = (size - shift) % size
        x = torch.cat([x.narrow(dim, start, size - start), x.narrow(dim, 0, start)], dim)
    return x


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """The table for AOT."""
    from torch._decomp import core_aten_decompositions

    table = dict(core_aten_decompositions())
    for packet in _KEPT_WHOLE:
        for overload in packet.overloads():
            table.pop(getattr(packet, overload), None)
    table[aten.roll.default] = _roll
    return table
