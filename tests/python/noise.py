"""Noise of the size of roundings, put into a run of eager PyTorch, from which a comparison's bound can follow."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

# Operators whose result depends on an order of additions or on an approximation; all others have to give equal bits.
INEXACT = {
    aten.sum, aten.mean, aten.prod, aten.cumsum, aten.mm, aten.bmm, aten.mv, aten.dot, aten.addmm, aten.baddbmm,
    aten._softmax, aten._log_softmax, aten.var, aten.std, aten.exp, aten.exp_, aten.tanh, aten.tanh_, aten.sigmoid,
    aten.sigmoid_, aten.sin, aten.cos, aten.silu, aten.gelu, aten.log1p, aten.rsqrt, aten.erf, aten.index_add,
    aten.index_add_, aten.scatter_add, aten.scatter_add_, aten.index_put, aten.index_put_, aten._index_put_impl_,
    aten.scatter_reduce, aten.logsumexp, aten.native_layer_norm, aten.linalg_vector_norm, aten.pow,
    aten.nll_loss_forward, aten.nll_loss2d_forward,
}  # fmt: skip


class Noise(TorchDispatchMode):
    """Disturbs operands and results of inexact operators by a few roundings, to see how far results may then lie apart.

    So the bound of a comparison follows from the program: nothing for one that has no such operator.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = torch.Generator().manual_seed(seed)

    def _disturbed(self, x: torch.Tensor, roundings: int) -> torch.Tensor:
        noise = torch.rand(x.shape, generator=self.random, dtype=torch.float64) * 2 - 1
        return (x.double() * (1 + roundings * torch.finfo(x.dtype).eps * noise)).to(x.dtype)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.overloadpacket not in INEXACT:
            return function(*args, **(kwargs or {}))
        mutable = function._schema.is_mutable
        first, *rest = args
        if not mutable and isinstance(first, torch.Tensor) and first.is_floating_point():
            first = self._disturbed(first, 1)
        result = function(first, *rest, **(kwargs or {}))
        for part in result if isinstance(result, tuple | list) else [result]:
            if isinstance(part, torch.Tensor) and part.is_floating_point():
                part.copy_(self._disturbed(part, 4))
        return result
