"""Linear layers over quantised weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import fx

from ..blocks import block_linear
from ..quantization import quantized_linear
from .registry import lowers
from .types import Value

if TYPE_CHECKING:
    from .lowering import Lowering


@lowers(quantized_linear._opoverload)
def lower_quantized_linear(
    lo: Lowering, node: fx.Node, x: Value, weight: Value, scale: Value, bias: Value | None, round_input: bool
) -> Value:
    inputs = [x, weight, scale] if bias is None else [x, weight, scale, bias]
    return lo.emit("quantized_linear", inputs, lo.dense_out(node), round_input=bool(round_input))


@lowers(block_linear._opoverload)
def lower_block_linear(
    lo: Lowering, node: fx.Node, x: Value, blocks: Value, bias: Value | None, out_features: int, format: str
) -> Value:
    inputs = [x, blocks] if bias is None else [x, blocks, bias]
    return lo.emit("block_linear", inputs, lo.dense_out(node), format=format)
