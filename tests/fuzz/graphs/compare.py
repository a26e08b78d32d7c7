"""What a caller can see of a call, compared with eager's: values, dtypes, layouts, who shares memory with whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def leaves(values: Any) -> list[Any]:
    """The items of a result, in order."""
    return list(values) if isinstance(values, tuple | list) else [values]


def sharing(values: Sequence[Any]) -> list[Any]:
    """For each tensor: the first in the same storage, and the bytes between them."""
    facts: list[Any] = []
    storages: dict[int, tuple[int, int]] = {}
    for index, value in enumerate(values):
        if isinstance(value, torch.Tensor) and value.numel():
            base, start = storages.setdefault(value.untyped_storage()._cdata, (index, value.data_ptr()))
            facts.append((base, value.data_ptr() - start))
        else:
            facts.append(None)
    return facts


def identity(values: Sequence[Any]) -> list[int]:
    """For each item the first that is the same object."""
    objects: dict[int, int] = {}
    return [objects.setdefault(id(value), index) for index, value in enumerate(values)]


def layout(x: torch.Tensor) -> tuple[int, ...]:
    """Strides of the dimensions that have more than one element; none for an empty tensor."""
    return tuple(t for s, t in zip(x.shape, x.stride(), strict=True) if s != 1) if x.numel() else ()


def difference(got: Any, want: Any, near: Sequence[Any]) -> str:
    """What differs between two items, or ""; `near` are the same item of disturbed runs."""
    if type(got) is not type(want):
        return f"a {type(got).__name__} where eager gives a {type(want).__name__}"
    if not isinstance(want, torch.Tensor):
        return "" if got == want else f"{got} where eager gives {want}"
    for name in ("dtype", "shape"):
        if getattr(got, name) != getattr(want, name):
            return f"{name} {getattr(got, name)}, eager's is {getattr(want, name)}"
    if layout(got) != layout(want):
        return f"strides {got.stride()}, eager's are {want.stride()}"
    return _difference_of_values(got, want, near)


def _difference_of_values(got: torch.Tensor, want: torch.Tensor, near: Sequence[torch.Tensor]) -> str:
    same = (got == want) | ((got != got) & (want != want))
    if bool(same.all()):
        return ""
    worst = (got.double() - want.double()).abs().nan_to_num(torch.inf)[~same].max().item()
    away = [(one.double() - want.double()).abs().nan_to_num(torch.inf, torch.inf).max().item() for one in near]
    bound = 8 * max(away, default=0.0)
    if got.is_floating_point() and worst <= bound:
        return ""
    return f"values off by {worst:.3g} (bound {bound:.3g})\n  got   {got.tolist()}\n  eager {want.tolist()}"
