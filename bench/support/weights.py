"""Linear layers over seeded weights of any format, as many copies as it takes to leave the caches behind.

Values are what such a layer could hold, not a model's: a kernel's time doesn't depend on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.functional import linear

COLD_BYTES = 8 * (32 << 20)  # 8 x the last-level cache, where the system doesn't say how large it is
MOST_COPIES = 64

FLOATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
INTEGERS = {"int8": (8, 1), "int4": (4, 32)}  # bits, weights of a group or 1 group a row
BLOCKS = ("q4_0", "q4_1", "q8_0", "q4_k", "q5_k", "q6_k")
FORMATS = (*FLOATS, *INTEGERS, *BLOCKS)
# The type whose peak bounds the products: 4-bit values fit sums of 16 bits.
PEAKS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"} | {
    name: "int4" if name.startswith(("int4", "q4")) else "int8" for name in (*INTEGERS, *BLOCKS)
}


@dataclass
class Layers:
    """Copies of one layer: a list of operands each, and the function that multiplies inputs [M, K] by one of them."""

    operands: list[tuple[torch.Tensor, ...]]
    function: Callable[..., torch.Tensor]
    dtype: torch.dtype  # of inputs and outputs

    @property
    def bytes_of_one(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.operands[0])


def layers(format: str, n: int, k: int, cold_bytes: int = COLD_BYTES) -> Layers:
    """Enough copies [N, K] of a format to fill `cold_bytes`, at most MOST_COPIES."""
    make, function, dtype = maker(format, n, k)
    made = Layers([make()], function, dtype)
    wanted = -(-cold_bytes // max(1, made.bytes_of_one))
    for _ in range(min(MOST_COPIES, wanted) - 1):
        made.operands.append(tuple(tensor.clone() for tensor in made.operands[0]))
    return made


def maker(format: str, n: int, k: int) -> tuple[Callable, Callable, torch.dtype]:
    generator = torch.Generator().manual_seed(0)
    if format in FLOATS:
        dtype = FLOATS[format]
        return lambda: ((torch.rand(n, k, generator=generator) - 0.5).to(dtype),), linear, dtype
    import graphex.blocks  # noqa: F401  these define the operators
    import graphex.quantization  # noqa: F401

    if format in INTEGERS:
        return integers(*INTEGERS[format], n, k, generator), quantized, torch.float32
    return (
        blocks(format, n, k, generator),
        lambda x, w: torch.ops.graphex.block_linear(x, w, None, n, format),
        torch.float32,
    )


def quantized(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.ops.graphex.quantized_linear(x, weight, scale, None, True)


def random_bytes(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def integers(bits: int, group: int, n: int, k: int, generator: torch.Generator) -> Callable:
    def make() -> tuple[torch.Tensor, torch.Tensor]:
        weight = random_bytes((n, k * bits // 8), generator)
        scale = torch.rand(n, k // group if group > 1 else 1, generator=generator) * 0.01 + 0.001
        return weight.view(torch.int8) if bits == 8 else weight, scale

    return make


def blocks(format: str, n: int, k: int, generator: torch.Generator) -> Callable:
    """Random bits, but each block's scales (its first section) are 0.01."""
    from graphex.blocks import TILE_ROWS, formats

    elements, size, sections = formats()[format]

    def make() -> tuple[torch.Tensor]:
        tiles = random_bytes((-(-n // TILE_ROWS), k // elements, size * TILE_ROWS), generator)
        scales = torch.full((sections[0][1] * TILE_ROWS // 2,), 0.01, dtype=torch.float16)
        tiles[..., : sections[0][1] * TILE_ROWS] = scales.view(torch.uint8)
        return (tiles.flatten(1),)

    return make
