"""Eager PyTorch in a stream's context waits for the stream first: its operators run on the calling thread."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..native import core

# What tells about a tensor without looking at its values.
_NAMES = (
    "shape dtype device layout ndim requires_grad is_leaf grad_fn names nbytes itemsize _version is_cpu "
    "is_cuda is_sparse is_quantized is_meta size stride numel nelement dim ndimension storage_offset "
    "element_size is_contiguous is_floating_point is_complex is_inference is_conj is_neg get_device "
).split()
_TELLS = {
    getattr(attribute, "__get__", attribute) if not callable(attribute) else attribute
    for attribute in (getattr(torch.Tensor, name, None) for name in _NAMES)
    if attribute is not None
}


class Settle(TorchFunctionMode):
    """Before each function of PyTorch that Python calls, waits for the current stream. Raises that stream's failure."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not torch.compiler.is_compiling() and func not in _TELLS:
            core().settle()
        return func(*args, **(kwargs or {}))
