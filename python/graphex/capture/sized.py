"""Tensors of a region whose size or place follows a refreshable number: without memory, known by their node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten

from .errors import CaptureError
from .recording import Block
from .symbols import NUMBERS


class Sized(torch.Tensor):
    """Stands in its region for a tensor that varies; its sizes are numbers like those that they follow."""

    node: fx.Node
    block: Block

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def of(fake: torch.Tensor, node: fx.Node, block: Block) -> Sized:
        """A stand-in with the fake's layout, for the node's value over the block's memory."""
        made: Sized = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            Sized,
            fake.shape,
            strides=fake.stride(),
            storage_offset=fake.storage_offset(),
            dtype=fake.dtype,
            device="cpu",
        )
        made.node, made.block = node, block
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise CaptureError(
            f"{func} on a tensor whose size or place follows a refreshable number, which exists only in its captured "
            "region; in the region, copy or reduce it into a tensor of a fixed size"
        )


def varies(args: Any) -> bool:
    """Whether numbers or tensors that vary are among the arguments of a call."""
    return any(isinstance(a, (*NUMBERS, Sized)) for a in tree_flatten(args)[0])


def is_fixed(fake: torch.Tensor) -> bool:
    """Whether a result's layout is one of plain ints."""
    sizes: Sequence[Any] = (*fake.shape, *fake.stride(), fake.storage_offset())
    return not any(isinstance(n, torch.SymInt) for n in sizes)
