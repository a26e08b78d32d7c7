"""Linear layers over weights in GGUF's blocks: the operator, its definition, and the module that holds them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import nn

from .native import core

TILE_ROWS = 8
GROUP = 32  # inputs that round together


@functools.cache
def formats() -> dict[str, tuple[int, int, list[tuple[int, int, int]]]]:
    """Format -> elements and bytes of a block, and its sections (offset, bytes, unit) in the order of a tile."""
    return core().block_formats()


@torch.library.custom_op("graphex::block_linear", mutates_args=())
def block_linear(
    x: torch.Tensor, blocks: torch.Tensor, bias: torch.Tensor | None, out_features: int, format: str
) -> torch.Tensor:
    """x [M, K] times the transpose of weights in blocks, plus bias [N]; [M, N] in x's dtype, sums in float32.

    blocks: uint8 [ceil(N / 8), bytes], tiles of 8 rows whose blocks are interleaved (graphex/base/block_format.h).
    x rounds to 8 bits first, in groups of 32: round(x * (127 / max |x|)); a group with an infinity or a NaN gives NaN.
    """
    groups = x.float().view(len(x), x.shape[1] // GROUP, GROUP)
    most = groups.abs().amax(-1, keepdim=True) + (groups * 0).sum(-1, keepdim=True)
    inverse = 127 / most
    rounded = (groups * torch.where(inverse.isfinite(), inverse, 0)).round() * (most / 127)
    y = rounded.view(x.shape) @ dequantized(blocks, format, out_features).t()
    return (y if bias is None else y + bias.float()).to(x.dtype)


@block_linear.register_fake
def _(x: torch.Tensor, blocks: torch.Tensor, bias: torch.Tensor | None, out_features: int, format: str) -> torch.Tensor:
    return x.new_empty(x.shape[0], out_features)


def rows_of(blocks: torch.Tensor, format: str) -> torch.Tensor:
    """The blocks as a file holds them, uint8 [rows, blocks of a row, bytes of a block]; rows a multiple of 8."""
    _, size, sections = formats()[format]
    tiles = blocks.view(len(blocks), -1, size * TILE_ROWS)
    rows = blocks.new_empty(len(blocks), TILE_ROWS, tiles.shape[1], size)
    at = 0
    for offset, length, unit in sections:
        part = tiles[:, :, at : at + length * TILE_ROWS].unflatten(-1, (length // unit, TILE_ROWS, unit))
        rows[..., offset : offset + length] = part.permute(0, 3, 1, 2, 4).flatten(-2)
        at += length * TILE_ROWS
    return rows.flatten(0, 1)


def dequantized(blocks: torch.Tensor, format: str, out_features: int) -> torch.Tensor:
    """The weight [N, K] in float32 that tiles of blocks stand for."""
    return DECODERS[format](rows_of(blocks, format)[:out_features]).flatten(1)


def _half(rows: torch.Tensor, at: int) -> torch.Tensor:
    return rows[..., at : at + 2].contiguous().view(torch.float16).float()


def _nibbles(values: torch.Tensor) -> torch.Tensor:
    """Low halves, then high halves, of the bytes in the last dimension."""
    return torch.cat((values & 15, values >> 4), -1)


def _six_bits(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and minima [..., 8] out of the twelve bytes from 4 on."""
    first, second, low = rows[..., 4:8], rows[..., 8:12], rows[..., 12:16]
    scales = torch.cat((first & 63, (low & 15) | first >> 6 << 4), -1)
    minima = torch.cat((second & 63, low >> 4 | second >> 6 << 4), -1)
    return scales.float() * _half(rows, 0), minima.float() * _half(rows, 2)


def _grouped(rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    scales, minima = _six_bits(rows)
    return (scales.unsqueeze(-1) * values - minima.unsqueeze(-1)).flatten(-2)


def _chunks(rows: torch.Tensor, at: int) -> torch.Tensor:
    """The nibbles of Q4_K and Q5_K, [..., 8 groups, 32]."""
    return _nibbles(rows[..., at : at + 128].unflatten(-1, (4, 32))).view(*rows.shape[:-1], 8, 32)


def _q5_k(rows: torch.Tensor) -> torch.Tensor:
    high = rows[..., 16:48].unsqueeze(-2) >> torch.arange(8, dtype=torch.uint8).unsqueeze(-1) & 1
    return _grouped(rows, _chunks(rows, 48) | high << 4)


def _q6_k(rows: torch.Tensor) -> torch.Tensor:
    low = _nibbles(rows[..., :128].unflatten(-1, (2, 64))).unflatten(-1, (4, 32))
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8).unsqueeze(-1)
    high = rows[..., 128:192].unflatten(-1, (2, 1, 32)) >> shifts & 3
    values = (low | high << 4).float() - 32
    scales = rows[..., 192:208].view(torch.int8).float() * _half(rows, 208)
    return (values.flatten(-3).unflatten(-1, (16, 16)) * scales.unsqueeze(-1)).flatten(-2)


DECODERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "q4_0": lambda rows: (_nibbles(rows[..., 2:]).float() - 8) * _half(rows, 0),
    "q4_1": lambda rows: _nibbles(rows[..., 4:]) * _half(rows, 0) + _half(rows, 2),
    "q8_0": lambda rows: rows[..., 2:].view(torch.int8) * _half(rows, 0),
    "q4_k": lambda rows: _grouped(rows, _chunks(rows, 16)),
    "q5_k": _q5_k,
    "q6_k": _q6_k,
}


class BlockLinear(nn.Module):
    """A linear layer over weights in blocks.

    blocks: uint8 [ceil(out_features / 8), bytes]; bias: [out_features] or None. See graphex::block_linear.
    """

    blocks: torch.Tensor
    bias: torch.Tensor | None

    def __init__(
        self, blocks: torch.Tensor, bias: torch.Tensor | None, in_features: int, out_features: int, format: str
    ):
        super().__init__()
        self.in_features, self.out_features, self.format = in_features, out_features, format
        self.register_buffer("blocks", blocks)
        self.register_buffer("bias", bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, self.in_features).contiguous()
        bias = self.bias if self.bias is None else self.bias.to(x.dtype)
        y = torch.ops.graphex.block_linear(rows, self.blocks, bias, self.out_features, self.format)
        return y.view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, format={self.format}"
