"""graphex.load_gguf_linears: the blocks of a GGUF file in the place of a PyTorch model's linear layers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from .blocks import BlockLinear, dequantized, formats
from .native import core
from .quantization import Layer, QuantizationReport, replace_linears, why_not_replaceable

Tensors = dict[str, tuple[str, list[int]]]  # name -> type and shape

# A module's name in transformers -> a tensor's name in the file, without ".weight".
NAMES = [
    (re.compile(r"(?:.*\.)?layers\.(\d+)\.self_attn\.([qkv])_proj"), r"blk.\1.attn_\2"),
    (re.compile(r"(?:.*\.)?layers\.(\d+)\.self_attn\.o_proj"), r"blk.\1.attn_output"),
    (re.compile(r"(?:.*\.)?layers\.(\d+)\.self_attn\.qkv_proj"), r"blk.\1.attn_qkv"),
    (re.compile(r"(?:.*\.)?layers\.(\d+)\.mlp\.(gate|up|down)_proj"), r"blk.\1.ffn_\2"),
    (re.compile(r"(?:.*\.)?layers\.(\d+)\.mlp\.gate_up_proj"), r"blk.\1.ffn_up"),
    (re.compile(r"lm_head"), "output"),
]
# Architectures whose files hold the rows of q and k in another order than transformers, pairs of rotation side by side.
ROTARY_PAIRS = {"llama"}
FARTHEST = 0.3  # relative distance between a layer's rows and those it gets, with 4 bits about 0.1


def load_gguf_linears(
    model: nn.Module,
    file: str | os.PathLike[str],
    names: Mapping[str, str] | Callable[[str], str | None] | None = None,
    check: bool = True,
) -> QuantizationReport:
    """Puts the blocks of a GGUF file in the place of `model`'s torch.nn.Linear layers, each tensor packed once.

    Layers whose tensor is q4_0, q4_1, q8_0, q4_k, q5_k or q6_k are replaced, in place; others stay as they are. Biases
    stay the model's. Inputs round to 8 bits in groups of 32 (see graphex::block_linear).

    names: for other models than transformers': layer's name -> tensor's name, rows in the model's order.
    check: a few rows of each layer are compared with the weights that it has; False for a model without weights yet
    (those on the meta device are never compared).
    Returns a report by layer, with the weights' error relative to the compared rows.
    Raises OSError or ValueError for a file that can't be read or is damaged, a tensor of another shape than its layer,
    or rows that don't agree; `model` is unchanged then.
    """
    source = core().GgufFile(os.fspath(file))
    tensors = source.tensors
    report = QuantizationReport(os.path.basename(os.fspath(file)))
    report.layers = replace_linears(model, lambda name, linear: _loaded(source, tensors, name, linear, names, check))
    return report


def _loaded(
    source: Any, tensors: Tensors, name: str, linear: nn.Linear, names: Any, check: bool
) -> tuple[Layer, nn.Module]:
    before = sum(p.numel() * p.element_size() for p in linear.parameters())
    tensor = _tensor_of(tensors, name, names)
    reason = _reason_to_leave(tensors, name, linear, tensor)
    if reason or tensor is None:
        return Layer(name, before, before, left=reason), linear
    format, shape = tensors[tensor]
    if list(shape) != list(linear.weight.shape):
        raise ValueError(
            f"load_gguf_linears: {name} is {list(linear.weight.shape)} in the model, {tensor} is {list(shape)} in the"
            " file; it is another model, or `names` leads to the wrong tensor"
        )
    blocks = _packed(source, tensor, format, shape, _row_order(source, tensor, shape[0]) if names is None else [])
    bias = None if linear.bias is None else linear.bias.detach().clone()
    new = BlockLinear(blocks, bias, shape[1], shape[0], format)
    new.train(linear.training)
    error = _distance(new, linear, name) if check and linear.weight.device.type == "cpu" else 0.0
    after = sum(b.numel() * b.element_size() for b in new.buffers())
    return Layer(name, before, after, error), new


def _tensor_of(tensors: Tensors, name: str, names: Any) -> str | None:
    """The tensor's name in the file, whether it is there or not."""
    if names is not None:
        return names(name) if callable(names) else names.get(name)
    for pattern, replacement in NAMES:
        if pattern.fullmatch(name):
            found = pattern.sub(replacement, name) + ".weight"
            # A head that shares the embedding's weight has no tensor of its own.
            return "token_embd.weight" if found == "output.weight" and found not in tensors else found
    return None


def _reason_to_leave(tensors: Tensors, name: str, linear: nn.Linear, tensor: str | None) -> str:
    if reason := why_not_replaceable(name, linear):
        return reason
    if tensor is None:
        return "no tensor is known for it; see `names`"
    if tensor not in tensors:
        return f"the file has no {tensor}"
    if tensors[tensor][0] not in formats():
        return f"{tensor} is {tensors[tensor][0]}"
    return ""


def _row_order(source: Any, tensor: str, rows: int) -> list[int]:
    """Where row i of the model's weight lies in the file; empty where it is row i."""
    architecture = source.metadata("general.architecture")
    which = re.fullmatch(r"blk\.\d+\.attn_([qk])\.weight", tensor)
    if architecture not in ROTARY_PAIRS or not which:
        return []
    heads = source.metadata(f"{architecture}.attention.head_count")
    if which[1] == "k":
        heads = source.metadata(f"{architecture}.attention.head_count_kv") or heads
    if not heads or rows % (2 * heads):
        raise ValueError(f"load_gguf_linears: the file gives {heads} heads for the {rows} rows of {tensor}")
    return torch.arange(rows).view(heads, -1, 2).transpose(1, 2).flatten().tolist()


def _packed(source: Any, tensor: str, format: str, shape: list[int], order: list[int]) -> torch.Tensor:
    elements, size, _ = formats()[format]
    blocks = torch.empty(-(-shape[0] // 8), shape[1] // elements * size * 8, dtype=torch.uint8)
    source.pack(tensor, order, blocks.data_ptr(), blocks.numel())
    return blocks


def _distance(new: BlockLinear, linear: nn.Linear, name: str) -> float:
    """Of a few tiles of rows, relative; an error where the layer's weights are others than the file's."""
    tiles = torch.tensor(sorted({0, len(new.blocks) // 2, len(new.blocks) - 1}))
    rows = (tiles.unsqueeze(1) * 8 + torch.arange(8)).flatten()
    rows = rows[rows < new.out_features]
    wanted = linear.weight.detach()[rows].float()
    got = dequantized(new.blocks[tiles], new.format, len(tiles) * 8)[: len(rows)]
    error = ((got - wanted).norm() / wanted.norm().clamp(min=torch.finfo(torch.float32).tiny)).item()
    if not error <= FARTHEST:
        raise ValueError(
            f"load_gguf_linears: the file's rows of {name} are off the model's by {error:.2f} of their norm; expected"
            f" {FARTHEST} at most. Is it another model? check=False loads them all the same"
        )
    return error
