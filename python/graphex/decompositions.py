"""Which operators AOT breaks up before we see them: PyTorch's core table without what the lowering takes whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from .lower.types import is_reduced, rounded

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

# PyTorch has decompositions of these that keep eager's values on floats, but not in its core table.
_ADDED = (
    aten._adaptive_avg_pool2d,
    aten.dist,
    aten.ldexp,
    aten.upsample_bicubic2d,
    aten.upsample_bilinear2d,
    aten.upsample_trilinear3d,
)
# Decompositions whose result isn't laid out as eager's: in the memory format of the operand, or row-major.
_IN_ITS_FORMAT = (aten._adaptive_avg_pool2d, aten.channel_shuffle, aten.native_channel_shuffle)
_ROW_MAJOR = (aten.nll_loss2d_forward,)
# Copies of what the view operator of that name gives.
_COPIED_VIEWS = ("narrow", "permute", "select", "split", "unbind", "_reshape_alias")


def _on_floats(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Leaves the operator whole on other dtypes: eager rounds its weights there."""

    def decompose(x: torch.Tensor, *args: Any, **keywords: Any) -> Any:
        return decomposition(x, *args, **keywords) if x.dtype.is_floating_point else NotImplemented

    return decompose


def _linspace(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Leaves integers whole: eager truncates the ends first and computes in f64."""

    def decompose(*args: Any, dtype: torch.dtype | None = None, **keywords: Any) -> Any:
        floating = dtype is None or dtype.is_floating_point or dtype.is_complex
        return decomposition(*args, dtype=dtype, **keywords) if floating else NotImplemented

    return decompose


def _laid_out(decomposition: Callable[..., Any], row_major: bool) -> Callable[..., Any]:
    def decompose(x: torch.Tensor, *args: Any, **keywords: Any) -> Any:
        made = decomposition(x, *args, **keywords)
        if made is NotImplemented:
            return made
        layout = torch.contiguous_format if row_major else suggest_memory_format(x)
        if isinstance(made, torch.Tensor):
            return made.contiguous(memory_format=layout)
        return tuple(part.contiguous(memory_format=layout) for part in made)

    return decompose


def _copied(view: Callable[..., Any]) -> Callable[..., Any]:
    def copy(*args: Any, **keywords: Any) -> Any:
        made = view(*args, **keywords)
        several = isinstance(made, list | tuple)
        copies = [x.clone(memory_format=torch.contiguous_format) for x in (made if several else [made])]
        return copies if several else copies[0]

    return copy


def _logit(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Rounds the ends to the operand's dtype as eager does: 1 - 1e-6 is 1 in bf16, and the logit of 1 is inf."""

    def decompose(x: torch.Tensor, eps: float | None = None) -> Any:
        if eps is not None and is_reduced(x.dtype):
            low = rounded(eps, x.dtype)
            high = rounded(1 - low, x.dtype)
            x, eps = torch.where(x < low, low, torch.where(x > high, high, x)), None
        return decomposition(x, eps)

    return decompose


def _addbmm(x: Any, a: torch.Tensor, b: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
    """A sum of products is the product of the rows and the columns put end to end."""
    rows = a.transpose(0, 1).reshape(a.shape[1], -1)
    return aten.addmm(x, rows, b.reshape(-1, b.shape[2]), beta=beta, alpha=alpha)


def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> tuple[torch.Tensor, ...]:
    if training or mean is None or var is None:
        return NotImplemented
    return aten._native_batch_norm_legit_no_training(x, weight, bias, mean, var, momentum, eps)


def _batch_norm_of_running(x: torch.Tensor, *rest: Any) -> Any:
    """Eager's result is row-major or channels last; FakeTensor says that it is laid out as the operand."""
    layout = suggest_memory_format(x)
    if x.is_contiguous(memory_format=layout):
        return NotImplemented
    return aten._native_batch_norm_legit_no_training(x.contiguous(memory_format=layout), *rest)


def _scatter_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    return aten.scatter_add(x, dim, index, src) if reduce == "sum" and include_self else NotImplemented


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


def _take(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """By a tensor also where the index is 0-dim, whose value PyTorch's own decomposition would ask for."""
    return aten.index(x.reshape(-1), [index.contiguous()])


def _max_unpool(x: torch.Tensor, indices: torch.Tensor, output_size: Sequence[int], *_: Any) -> torch.Tensor:
    """aten.max_unpool2d and max_unpool3d: each maximum where it came from, zeros elsewhere.

    An index outside of its plane, an error in eager, becomes one outside of the result, an IndexError.
    """
    planes = x.shape[: -len(output_size)]
    shape, size = [*planes, *output_size], math.prod(output_size)
    starts = (torch.arange(math.prod(planes)) * size).view(*planes, *[1] * len(output_size))
    flat = torch.where((indices >= 0) & (indices < size), indices + starts, math.prod(shape))
    made = torch.index_put(x.new_zeros(shape).view(-1), [flat.reshape(-1)], x.reshape(-1)).view(shape)
    return made.contiguous(memory_format=suggest_memory_format(x)) if len(output_size) == 2 else made


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """The table for AOT."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    table = dict(core_aten_decompositions())
    table.update({target: _on_floats(made) for target, made in get_decompositions(_ADDED).items()})
    for packet in _KEPT_WHOLE:
        for overload in packet.overloads():
            table.pop(getattr(packet, overload), None)
    for overload in ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor"):
        linspace = getattr(aten.linspace, overload)
        table[linspace] = _linspace(table[linspace])
    table[aten.logit.default] = _logit(table[aten.logit.default])
    table[aten.roll.default] = _roll
    table[aten.addbmm.default] = _addbmm
    table[aten.take.default] = _take
    table[aten.native_batch_norm.default] = _batch_norm
    table[aten._native_batch_norm_legit_no_training.default] = _batch_norm_of_running
    table[aten.scatter_reduce.two] = _scatter_reduce
    for packets, row_major in ((_IN_ITS_FORMAT, False), (_ROW_MAJOR, True)):
        for packet in packets:
            table[packet.default] = _laid_out(table[packet.default], row_major)
    table[aten.view_copy.default] = _copied(aten.reshape)
    for name in _COPIED_VIEWS:
        packet, view = getattr(aten, f"{name}_copy"), getattr(aten, name)
        table.update({getattr(packet, o): _copied(view) for o in packet.overloads() if not o.endswith("out")})
    table.update({aten.max_unpool2d.default: _max_unpool, aten.max_unpool3d.default: _max_unpool})
    return table
