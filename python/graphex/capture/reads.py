"""What reads a tensor's values past the dispatcher: seen by a function mode above it and refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten

from . import indexing
from .recorder import Recorder
from .sized import Sized

_NAMES = (
    "item tolist numpy __array__ __bool__ __int__ __float__ __index__ __complex__ __repr__ __format__ __dlpack__ "
    "__deepcopy__ __reduce_ex__ __contains__ share_memory_ is_nonzero"
).split()
_READS = {getattr(torch.Tensor, name): f"Tensor.{name}()" for name in _NAMES if hasattr(torch.Tensor, name)}
_READS |= {torch.equal: "torch.equal()", torch.Tensor.equal: "Tensor.equal()", torch.allclose: "torch.allclose()"}
_READS |= {torch.is_nonzero: "torch.is_nonzero()", torch.Tensor.allclose: "Tensor.allclose()"}
_READS |= {
    getattr(torch.Tensor, name): f"Tensor.{name}(), through which values are read"
    for name in ("untyped_storage", "storage", "_typed_storage")
}
_INDEXING: dict[Any, Callable[..., Any]] = {
    torch.Tensor.__getitem__: indexing.get,
    torch.Tensor.__setitem__: indexing.put,
}
_ASSIGNS = {torch.Tensor.data.__set__: "an assignment to Tensor.data"}


class RefuseReads(TorchFunctionMode):
    """Refuses functions that need values, which exist only when the graph runs; `relaxed` allows those known already.

    Known are those of tensors from outside that the region hasn't written; the graph then holds them for good.
    """

    def __init__(self, recorder: Recorder, relaxed: bool) -> None:
        super().__init__()
        self.recorder = recorder
        self.relaxed = relaxed

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _ASSIGNS:
            raise self.recorder.refuse(_ASSIGNS[func])
        if func in _INDEXING and indexing.by_number(args[1]):
            try:
                return _INDEXING[func](*args)
            except NotImplementedError as why:
                raise self.recorder.refuse(str(why)) from None
        if func not in _READS:
            return func(*args, **(kwargs or {}))
        if self.relaxed and self._known(args, kwargs):
            with _disable_current_modes():
                return func(*args, **(kwargs or {}))
        raise self.recorder.refuse(f"{_READS[func]}: values are known only when the graph runs")

    def _known(self, args: Any, kwargs: Any) -> bool:
        tensors = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        if any(isinstance(t, Sized) for t in tensors):
            return False
        blocks = [self.recorder.recording.block_of(t) for t in tensors]
        return all(block is None or (block.made is None and not block.written) for block in blocks)
