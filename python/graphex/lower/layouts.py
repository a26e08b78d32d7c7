"""What the fake tensors of a graph say of sizes and strides, in the IR's terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.functions import Max

from .exprs import Size, to_size, to_sizes
from .types import Spec, spec_of

_COMPLEX = (torch.complex64, torch.complex128)


class Layouts:
    """Reads the layouts of a graph's values.

    Where torch can't prove that a size n is at least 1, its strides say Max(1, n). In the IR n itself stands there, as
    it does for a plain symbol: of an empty tensor no stride is ever used. A Max(1, n) that is a size itself stays.
    """

    def __init__(self, gm: fx.GraphModule) -> None:
        self._sizes: set[sympy.Expr] = set()
        for node in gm.graph.nodes:
            for val in _tensors(node):
                self._sizes |= _maxima(to_sizes(val.shape))

    def spec_of(self, val: Any) -> Spec:
        """Like types.spec_of; a complex tensor's is that of its real and imaginary parts side by side."""
        paired = isinstance(val, torch.Tensor) and val.dtype in _COMPLEX and not (val.is_conj() or val.is_neg())
        spec = _pairs(val) if paired else spec_of(val)
        strides = tuple(map(self._stride, spec.strides))
        return spec if strides == spec.strides else Spec(spec.dtype, spec.shape, strides)

    def storage_offset(self, val: torch.Tensor) -> Size:
        """The tensor's storage offset, a sum of strides."""
        return self._stride(to_size(val.storage_offset()))

    def _stride(self, stride: Size) -> Size:
        guarded = [m for m in _maxima([stride]) if m not in self._sizes and 1 in m.args and len(m.args) == 2]
        if not guarded:
            return stride
        return self._stride(to_size(stride.xreplace({m: next(a for a in m.args if a != 1) for m in guarded})))


def _tensors(node: fx.Node) -> Iterator[torch.Tensor]:
    """The node's fake results."""
    val = node.meta.get("val")
    for one in val if isinstance(val, list | tuple) else (val,):
        if isinstance(one, torch.Tensor):
            yield one


def _maxima(sizes: Iterable[Size]) -> set[sympy.Expr]:
    """The maxima that occur in sizes."""
    return {m for size in sizes if type(size) is not int for m in size.atoms(Max)}


def _pairs(val: torch.Tensor) -> Spec:
    """The Spec of view_as_real of a complex tensor."""
    shape, strides = to_sizes(val.shape), to_sizes(val.stride())
    return Spec(val.dtype.to_real(), (*shape, 2), (*(to_size(2 * s) for s in strides), 1))
