"""Values of the IR as the lowering sees them, and torch's dtypes under the IR's names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from .errors import Unsupported
from .exprs import Size, at_least_one, contiguous_strides, same, text_of, to_sizes

DTYPES: dict[torch.dtype, str] = {
    torch.bool: "bool",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
}
_REDUCED = (torch.float16, torch.bfloat16)


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which operators on `dtype` compute: f32 for the reduced floats, else itself."""
    return torch.float32 if dtype in _REDUCED else dtype


def is_reduced(dtype: torch.dtype) -> bool:
    """Whether the dtype is a float of 16 bits."""
    return dtype in _REDUCED


def rounded(value: float, dtype: torch.dtype) -> float:
    """The float as the dtype holds it."""
    return math.copysign(_rounded(abs(value), dtype), value)  # -0.0 and 0.0 would be one key of the cache


@lru_cache(maxsize=1024)
def _rounded(value: float, dtype: torch.dtype) -> float:
    with torch.utils._python_dispatch._disable_current_modes():
        return torch.tensor(value, dtype=torch.float64).to(dtype).item()


@dataclass(frozen=True, slots=True)
class Spec:
    """Dtype, shape and strides of a value."""

    dtype: torch.dtype
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def text(self) -> str:
        """The type in the IR's syntax."""
        return _type_text(self.dtype, self.shape, self.strides)

    def is_contiguous(self) -> bool:
        """Whether the strides are row-major; those of sizes of 1 don't count."""
        expected = contiguous_strides(self.shape)
        if self.strides == expected:
            return True
        return all(n == 1 or same(a, b) for n, a, b in zip(self.shape, self.strides, expected, strict=True))

    def is_dense(self) -> bool:
        """Whether some order of the dimensions is row-major: no gaps, no overlap."""
        return self.is_contiguous() or _is_dense_permutation(self.shape, self.strides)


@lru_cache(maxsize=4096)
def _type_text(dtype: torch.dtype, shape: tuple[Size, ...], strides: tuple[Size, ...]) -> str:
    text = f"{DTYPES[dtype]}[{', '.join(map(text_of, shape))}]"
    if strides == contiguous_strides(shape):
        return text
    return f"{text} strides [{', '.join(map(text_of, strides))}]"


def _is_dense_permutation(shape: Sequence[Size], strides: Sequence[Size]) -> bool:
    rest = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    expected: Size = 1
    while rest:
        match = next((i for i, (_, stride) in enumerate(rest) if same(stride, expected)), None)
        if match is None:
            return False
        expected = expected * at_least_one(rest.pop(match)[0])
    return True


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the text: its name, type, and where it lies in its base (offset in elements)."""

    name: str
    spec: Spec
    base: str
    offset: Size = 0

    @property
    def dtype(self) -> torch.dtype:
        """The element type."""
        return self.spec.dtype

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes."""
        return self.spec.shape

    @property
    def strides(self) -> tuple[Size, ...]:
        """The strides in elements of the base."""
        return self.spec.strides

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.spec.shape)


def contiguous(dtype: torch.dtype, shape: Sequence[Size]) -> Spec:
    """A row-major Spec."""
    return Spec(dtype, tuple(shape), contiguous_strides(shape))


def spec_of(val: Any) -> Spec:
    """The Spec of a (fake) tensor; Unsupported for what the IR has no type for."""
    if not isinstance(val, torch.Tensor):
        raise Unsupported(f"{type(val).__name__} where a tensor is expected")
    if val.layout is not torch.strided:
        raise Unsupported(f"layout {val.layout}")
    if val.dtype not in DTYPES:
        raise Unsupported(f"dtype {val.dtype}")
    if val.is_neg() or val.is_conj():
        raise Unsupported("a tensor that is negated or conjugated lazily")
    if val.device.type != "cpu":
        raise Unsupported(f"device {val.device}")
    return Spec(val.dtype, to_sizes(val.shape), to_sizes(val.stride()))


def broadcast(*shapes: Sequence[Size]) -> tuple[Size, ...]:
    """The broadcast of shapes; of two sizes that can't be told apart from each other the one that isn't 1 wins."""
    rank = max(map(len, shapes))
    out: list[Size] = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if out[i] == 1:
                out[i] = size
    return tuple(out)
