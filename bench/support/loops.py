"""Memory-bound operations as PyTorch functions: what one pass over memory can do, and the bytes it takes.

Every function takes the rows [R, C] that it reads and fills `out`, which is given: memory that a call would have to
fault in anew says nothing about the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.functional import rms_norm, silu, softmax

ROWS, COLUMNS = 1024, 4096


@dataclass
class Loop:
    """`inputs(generator)` makes what a call reads apart from `out`; bytes are those read and written a call."""

    name: str
    function: Callable[..., torch.Tensor]
    inputs: Callable[[torch.Generator], list[torch.Tensor]]
    out: Callable[[], torch.Tensor]
    bytes: int


def rows(
    generator: torch.Generator, dtype: torch.dtype = torch.float32, shape: tuple = (ROWS, COLUMNS)
) -> torch.Tensor:
    return torch.randn(shape, generator=generator).to(dtype)


def loops() -> list[Loop]:
    size = ROWS * COLUMNS * 4
    weight = torch.ones(COLUMNS)
    embedding = 4 * ROWS

    def plain(
        name: str,
        function: Callable,
        reads: int,
        out_dtype: torch.dtype = torch.float32,
        shape: tuple = (ROWS, COLUMNS),
    ) -> Loop:
        out_bytes = ROWS * COLUMNS * out_dtype.itemsize
        return Loop(
            name,
            lambda out, *xs: out.copy_(function(*xs)),
            lambda generator: [rows(generator) for _ in range(reads)],
            lambda: torch.empty(shape, dtype=out_dtype),
            reads * size + out_bytes,
        )

    return [
        plain("rmsnorm", lambda x: rms_norm(x, (COLUMNS,), weight, 1e-6), 1),
        plain("softmax", lambda x: softmax(x, -1), 1),
        plain("swiglu", lambda x, y: silu(x) * y, 2),
        plain("add", lambda x, y: x + y, 2),
        plain("cast to bf16", lambda x: x.to(torch.bfloat16), 1, torch.bfloat16),
        plain("transpose", lambda x: x.t(), 1, shape=(COLUMNS, ROWS)),
        Loop(
            "embedding",
            lambda out, ids, table: out.copy_(table[ids]),
            lambda generator: [
                torch.randperm(embedding, generator=generator)[:ROWS],
                rows(generator, shape=(embedding, COLUMNS)),
            ],
            lambda: torch.empty(ROWS, COLUMNS),
            2 * size,
        ),
    ]
