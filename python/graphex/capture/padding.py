"""What differs between a call of some size and the capture that serves it: padding, and what is cut off again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

Name = int | str  # of an argument: its position or its keyword


class Padding:
    """Which dimensions of arguments and results vary, and what fills them up. `graphex.Buckets` says more."""

    def __init__(
        self,
        dims: int | Mapping[Name, int | None],
        pad: float | Mapping[Name, float],
        outputs: int | None | Sequence[int | None],
    ) -> None:
        self.dims, self.pad, self.outputs = dims, pad, outputs

    def dim_of(self, name: Name) -> int | None:
        """The argument's dimension that varies; None if it has none."""
        return self.dims.get(name) if isinstance(self.dims, Mapping) else self.dims

    def size_of(self, names: Sequence[Name], tensors: Sequence[torch.Tensor]) -> int:
        """The size of a call. ValueError if its arguments don't agree on one."""
        found: dict[int, Name] = {}
        for name, t in zip(names, tensors, strict=True):
            dim = self.dim_of(name)
            if dim is None:
                continue
            if not -t.dim() <= dim < t.dim():
                raise ValueError(f"argument {name!r} has {t.dim()} dimensions; the one that varies is dimension {dim}")
            found.setdefault(t.shape[dim], name)
        if len(found) > 1:
            said = ", ".join(f"{size} in argument {name!r}" for size, name in found.items())
            raise ValueError(f"the arguments are of different sizes: {said}; expected one")
        if not found:
            raise ValueError("no argument of this call varies in size; name one by dims={0: 0}, say")
        return next(iter(found))

    def padded(self, name: Name, t: torch.Tensor, size: int) -> torch.Tensor:
        """The argument at this size: itself if it has that, and lies as captures expect, otherwise a copy."""
        dim = self.dim_of(name)
        if dim is None or (t.shape[dim] == size and t.is_contiguous()):
            return t
        n, made = t.shape[dim], resized(t, dim, size)
        with torch.no_grad():
            made.narrow(dim, 0, n).copy_(t)
            if n < size:
                made.narrow(dim, n, size - n).fill_(self._number(name, t.dtype))
        return made

    def _number(self, name: Name, dtype: torch.dtype) -> float:
        number = self.pad.get(name, 0) if isinstance(self.pad, Mapping) else self.pad
        if not dtype.is_floating_point and not dtype.is_complex:
            range_ = (0, 1) if dtype is torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
            if number != number or not range_[0] <= number <= range_[1] or int(number) != number:
                raise ValueError(f"argument {name!r} is {dtype}, which can't be padded with {number}")
        return number

    def copy_back(
        self,
        names: Sequence[Name],
        tensors: Sequence[torch.Tensor],
        padded: Sequence[torch.Tensor],
        written: Sequence[bool],
    ) -> None:
        """Gives arguments that the function wrote, but of which it had copies, their values."""
        for name, t, copy, changed in zip(names, tensors, padded, written, strict=True):
            if changed and copy is not t:
                dim = self.dim_of(name)
                assert dim is not None
                with torch.no_grad():
                    t.copy_(copy.narrow(dim, 0, t.shape[dim]))

    # -- results -----------------------------------------------------------------------------------------------------

    def _dims_of_results(self, count: int) -> Sequence[int | None]:
        if self.outputs is None or isinstance(self.outputs, int):
            return [self.outputs] * count
        if len(self.outputs) != count:
            raise ValueError(f"outputs has {len(self.outputs)} entries; the function returns {count} tensors")
        return self.outputs

    def check_results(self, shapes: Sequence[Sequence[int] | None], size: int) -> None:
        """ValueError if results of these shapes can't be cut; None is an argument, which is returned as it is."""
        for i, (shape, dim) in enumerate(zip(shapes, self._dims_of_results(len(shapes)), strict=True)):
            if shape is None or dim is None:
                continue
            if not -len(shape) <= dim < len(shape) or shape[dim] != size:
                raise ValueError(
                    f"result {i} has shape {tuple(shape)} where the arguments have size {size}; expected that size in "
                    f"dimension {dim}: name the dimensions that vary by outputs=[...], None for a result that doesn't"
                )

    def cut(self, results: Any, n: int, size: int, arguments: Sequence[torch.Tensor]) -> Any:
        """The results without what belongs to padding; arguments among them stay as they are."""
        if n == size:
            return results
        leaves, spec = tree_flatten(results)
        tensors = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        for k, dim in zip(tensors, self._dims_of_results(len(tensors)), strict=True):
            if dim is not None and not any(leaves[k] is t for t in arguments):
                leaves[k] = leaves[k].narrow(dim, 0, n)
        return tree_unflatten(leaves, spec)


def resized(t: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    """The tensor itself where no dimension varies; otherwise one like it, of this size and without values."""
    if dim is None:
        return t
    shape = list(t.shape)
    shape[dim] = size
    with torch.inference_mode(False):
        return torch.empty(shape, dtype=t.dtype)
