"""Indexing by numbers that vary, which PyTorch's own would take for the value that they have now."""

from __future__ import annotations

from typing import Any

import torch


def by_number(index: Any) -> bool:
    """Whether an index holds a number that varies, or slices by one."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(_numbered(part) for part in parts)


def _numbered(part: Any) -> bool:
    ends = (part.start, part.stop, part.step) if isinstance(part, slice) else (part,)
    return any(isinstance(end, torch.SymInt) for end in ends)


def get(t: torch.Tensor, index: Any) -> torch.Tensor:
    """t[index], a view. NotImplementedError, saying why, where the index mixes numbers that vary with tensors."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(p, torch.Tensor | list | bool) for p in parts):
        raise NotImplementedError("an index of tensors beside a number that varies; index in two steps")
    dim, later = 0, []  # what is left to do, by dimension of the result of the other parts
    for k, part in enumerate(parts):
        if part is Ellipsis:
            dim = t.dim() - sum(1 for p in parts[k + 1 :] if p is not None) + sum(p is None for p in parts[:k])
            continue
        if _numbered(part):
            later.append((dim, part))
            parts[k] = slice(None)
        dim += 0 if isinstance(parts[k], int) else 1
    made = t[tuple(parts)]
    for dim, part in reversed(later):
        made = _part(made, dim, part) if isinstance(part, slice) else made.select(dim, part)
    return made


def _part(t: torch.Tensor, dim: int, part: slice) -> torch.Tensor:
    start = 0 if part.start is None else part.start
    stop = t.shape[dim] if part.stop is None else part.stop
    length = _known(stop - start) if part.step is None else None
    if length is not None and length >= 0:
        return t.narrow(dim, start, length)
    return torch.ops.aten.slice.Tensor(t, dim, part.start, part.stop, 1 if part.step is None else part.step)


def _known(number: Any) -> int | None:
    """The int that the number is whatever varies; None if there is none."""
    if not isinstance(number, torch.SymInt):
        return int(number)
    expr = number.node.expr
    return int(expr) if expr.is_Integer else None


def put(t: torch.Tensor, index: Any, value: Any) -> None:
    """t[index] = value."""
    target = get(t, index)
    if not isinstance(value, torch.Tensor):
        target.fill_(value)
        return
    while value.dim() > target.dim() and value.shape[0] == 1:
        value = value[0]
    target.copy_(value)
