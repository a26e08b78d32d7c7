"""Values of a region that each replay may replace: numbers, and small tensors of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_INT_RANGE = (-(2**31), 2**31 - 1)


class Refreshable:
    """A number or small tensor that a captured region uses and that replays may give another value.

    value: an int, a float, a list of numbers, or a tensor; the value until it is refreshed. A list is a tensor of
        int64 or, if it holds floats, of the default dtype.
    min, max: the least and greatest value, of each element for tensors. Of ints -2**31 and 2**31 - 1 by default, else
        there is no bound.
    A value of another type, count, shape or dtype, or out of range, is a ValueError or TypeError before anything runs.
    """

    def __init__(
        self,
        value: int | float | Sequence[int | float] | torch.Tensor,
        min: float | None = None,  # noqa: A002  the words that users know
        max: float | None = None,  # noqa: A002
    ) -> None:
        self.is_list = isinstance(value, Sequence) and not isinstance(value, str)
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = _as_tensor(value)
        self.kind: type = torch.Tensor if isinstance(value, torch.Tensor) else type(value)
        if self.kind not in (int, float, torch.Tensor):
            raise TypeError(f"a Refreshable is an int, a float, a list of these or a tensor, not {self.kind.__name__}")
        if isinstance(value, torch.Tensor) and value.is_complex():
            raise TypeError(f"a Refreshable tensor is of integers or floats, not {value.dtype}")
        self.min, self.max = min, max
        if self.kind is int:
            self.min = _INT_RANGE[0] if min is None else min
            self.max = _INT_RANGE[1] if max is None else max
        self.value: Any = value
        self.value = self.checked("Refreshable", value)

    def checked(self, name: str, value: Any) -> Any:
        """The value as the graph takes it: an int, a float, or a tensor like the one that was declared."""
        if self.kind is torch.Tensor:
            value = self._checked_tensor(name, value)
            if value.numel() and not (self.min is None and self.max is None):
                self._check_range(name, value.min().item(), value.max().item())
            return value
        if isinstance(value, bool) or not isinstance(value, int if self.kind is int else int | float):
            raise TypeError(f"{name} takes {'an int' if self.kind is int else 'a float'}, not {_described(value)}")
        value = self.kind(value)
        self._check_range(name, value, value)
        return value

    def _check_range(self, name: str, least: float, most: float) -> None:
        lower, upper = self.min, self.max
        if (lower is None or least >= lower) and (upper is None or most <= upper):
            return  # not so of NaN, where there is a bound
        wrong = least if lower is not None and not least >= lower else most
        raise ValueError(f"{name} takes values from {lower} to {upper}; got {wrong}")

    def _checked_tensor(self, name: str, value: Any) -> torch.Tensor:
        wanted: torch.Tensor = self.value
        if isinstance(value, Sequence) and not isinstance(value, str):
            given = _as_tensor(value)
            if given.dtype.is_floating_point and not wanted.dtype.is_floating_point:
                raise TypeError(f"{name} takes {wanted.dtype}; got a list of floats")
            value = _narrowed(name, given, wanted.dtype)
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} takes a list or a tensor, not {_described(value)}")
        if value.shape != wanted.shape:
            raise ValueError(
                f"{name} takes {_count(wanted)} of shape {tuple(wanted.shape)}; got {_count(value)} of shape "
                f"{tuple(value.shape)}"
            )
        if value.dtype != wanted.dtype or value.device.type != "cpu" or value.layout != torch.strided:
            raise ValueError(f"{name} takes {wanted.dtype} in the CPU's memory; got {value.dtype} on {value.device}")
        return value.contiguous() if wanted.is_contiguous() else value


def _as_tensor(values: Sequence[Any]) -> torch.Tensor:
    if not values:
        return torch.empty(0, dtype=torch.int64)
    try:
        made = torch.tensor(values)
    except (TypeError, ValueError, RuntimeError) as why:
        raise TypeError(f"expected a list of numbers: {why}") from None
    if made.dtype not in (torch.int64, torch.get_default_dtype()):
        raise TypeError(f"expected a list of ints or floats, got one that makes {made.dtype}")
    return made


def _narrowed(name: str, given: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        return given.to(dtype)
    limits = torch.iinfo(dtype)
    if given.numel() and not (limits.min <= given.min() and given.max() <= limits.max):
        raise ValueError(f"{name} takes {dtype}; got a list with values that it can't hold")
    return given.to(dtype)


def _count(t: torch.Tensor) -> str:
    return f"{t.numel()} value{'' if t.numel() == 1 else 's'}"


def _described(value: Any) -> str:
    return f"{type(value).__name__} {value!r}" if isinstance(value, bool | int | float | str) else type(value).__name__
