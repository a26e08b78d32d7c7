"""Values of the IR as the lowering sees them, and torch's dtypes under the IR's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.functions import Max

from .errors import Unsupported
from .exprs import Size, at_least_one, contiguous_strides, same, text_of, to_size, to_sizes

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


@lru_cache(maxsize=1024)
def rounded(value: float, dtype: torch.dtype) -> float:
    """The float as the dtype holds it."""
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


class Layouts:
    """Reads the layouts of a graph's fake tensors in the IR's terms.

    Where torch can't prove that a size n is at least 1, its strides say Max(1, n). In the IR n itself stands there, as
    it does for a plain symbol: of an empty tensor no stride is ever used. A Max(1, n) that is a size itself stays.
    """

    def __init__(self, gm: fx.GraphModule) -> None:
        self._sizes: set[sympy.Expr] = set()
        for node in gm.graph.nodes:
            val = node.meta.get("val")
            for one in val if isinstance(val, list | tuple) else (val,):
                if isinstance(one, torch.Tensor):
                    self._sizes |= _maxima(to_sizes(one.shape))

    def spec_of(self, val: Any) -> Spec:
        """Like types.spec_of."""
        spec = spec_of(val)
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


def _maxima(sizes: Sequence[Size]) -> set[sympy.Expr]:
    """The maxima that occur in sizes."""
    return {m for size in sizes if type(size) is not int for m in size.atoms(Max)}


def broadcast(*shapes: Sequence[Size]) -> tuple[Size, ...]:
    """The broadcast of shapes; of two sizes that can't be told apart from each other the one that isn't 1 wins."""
    rank = max(map(len, shapes))
    out: list[Size] = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if out[i] == 1:
                out[i] = size
    return tuple(out)
