"""PyTorch's own operator samples (the op_db of its test suite), as functions of tensors.

A Sample keeps everything but the tensors fixed, so that it can be traced, compiled and called with other data.
"""

import itertools
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy
import torch
from torch.utils import _pytree as pytree

DTYPES = ("float32", "bfloat16", "float16", "int64", "bool", "uint8")
# Which samples run is drawn by this seed and the operator's name.
SEED = 1
# Samples are made lazily; the one that stands for its operator is among the first few.
FIRST_FEW = 4


@dataclass
class Sample:
    """One call of an operator. `tensors` are those among its arguments, in order."""

    operator: Any  # what is called
    tensors: list[torch.Tensor]
    leaves: list[Any]
    spec: pytree.TreeSpec
    computed: torch.dtype | None = None  # what floating-point results are rounded to before `out` takes them
    together: bool = False  # several calls as one
    index: int = 0  # among the operator's samples

    def call(self, function: Any, tensors: list[torch.Tensor]) -> list[Any]:
        """The leaves of function's result for these tensors in the place of the sample's own."""
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return pytree.tree_leaves(function(first, *args, **kwargs))


@cache
def operators() -> dict[str, Any]:
    """Name, with the variant, to PyTorch's OpInfo."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}


def dtypes_of(name: str) -> list[str]:
    """Those of DTYPES that the operator takes on a CPU."""
    supported = operators()[name].supported_dtypes("cpu")
    return [dtype for dtype in DTYPES if getattr(torch, dtype) in supported]


def samples_of(name: str, dtype: str, in_place: bool = False) -> Iterator[Sample]:
    """Every sample of the operator or of its in-place variant; seeded, so that each run sees the same."""
    op = operators()[name]
    called = op.inplace_variant if in_place else op.op
    for seed in (torch.default_generator.manual_seed, random.seed, numpy.random.seed):
        seed(SEED)
    samples = op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False, set_seed=False)
    for index, sample in enumerate(samples):
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        made = Sample(called, tensors, leaves, spec, index=index)
        if not in_place or layouts_after(made):
            yield made


def grouped(samples: Iterator[Sample], most: int) -> Iterator[list[Sample]]:
    """The samples in groups of so many; those whose other data eager refuses, or that have sparse tensors, alone."""
    group: list[Sample] = []
    for sample in samples:
        if any(t.layout is not torch.strided for t in sample.tensors) or not takes_other_data(sample):
            yield [sample]
            continue
        group.append(sample)
        if len(group) == most:
            yield group
            group = []
    if group:
        yield group


def together(samples: list[Sample]) -> Sample:
    """One sample that makes all these calls, each with tensors of its own."""
    from check import clone_arguments

    def calls(_: None, *tensors: torch.Tensor) -> list[Any]:
        rest = iter(tensors)
        return [sample.call(sample.operator, list(itertools.islice(rest, len(sample.tensors)))) for sample in samples]

    tensors = [tensor for sample in samples for tensor in clone_arguments(tuple(sample.tensors))]
    leaves, spec = pytree.tree_flatten((None, tuple(tensors), {}))
    return Sample(calls, tensors, leaves, spec, together=True)


def takes_other_data(sample: Sample) -> bool:
    """Whether eager can be called with what other_data makes."""
    try:
        sample.call(sample.operator, other_data(sample.tensors))
    except Exception:
        return False
    return True


def turned(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements, those of the first dimension next to one another in memory."""
    order = range(tensor.dim())[::-1]
    return torch.empty(tensor.shape[::-1], dtype=tensor.dtype).permute(tuple(order)).copy_(tensor)


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements in that memory format; the tensor itself where it has no such format."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.clone(memory_format=formats[tensor.dim()]) if tensor.dim() in formats else tensor


def laid_out(sample: Sample, change: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
    """The sample with its plain tensors of two dimensions and more in another layout."""
    plain = [t.layout is torch.strided and t.dim() > 1 and not t.is_complex() for t in sample.tensors]
    tensors = [change(t) if p else t for t, p in zip(sample.tensors, plain, strict=True)]
    rest = iter(tensors)
    leaves = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in sample.leaves]
    return replace(sample, tensors=tensors, leaves=leaves)


def largest_samples(name: str, dtype: str) -> list[Sample]:
    """Of the first samples the two whose operands have the most dimensions."""
    first = list(itertools.islice(samples_of(name, dtype), 24))
    return sorted(first, key=lambda sample: -max([t.dim() for t in sample.tensors], default=0))[:2]


# A dtype that holds the results of an operator in each of DTYPES, to be cast to when it is the one of `out`.
WIDER = {
    torch.float32: torch.float64,
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
    torch.int64: torch.float32,
    torch.bool: torch.uint8,
    torch.uint8: torch.int64,
}


def wider(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements in a dtype that holds more."""
    return tensor.to(WIDER.get(tensor.dtype, tensor.dtype))


def emptied(tensor: torch.Tensor) -> torch.Tensor:
    """No elements, so that an operator has to resize it."""
    return tensor.new_empty(0)


# How tensors given as `out` may differ from the results that an operator would make.
OUTS = (torch.clone, turned, wider, emptied)


def with_out(sample: Sample, change: Callable[[torch.Tensor], torch.Tensor]) -> Sample | None:
    """The sample with changed tensors given as `out`; None if eager refuses them, or makes anything but tensors."""
    first, args, kwargs = pytree.tree_unflatten(sample.leaves, sample.spec)
    try:
        result = sample.operator(first, *args, **kwargs)
    except Exception:
        return None
    several = isinstance(result, list | tuple)
    results = list(result) if several else [result]
    if not all(type(r) is torch.Tensor and r.layout is torch.strided for r in results):
        return None
    outs = tuple(change(r).fill_(1) for r in results)
    leaves, spec = pytree.tree_flatten((first, args, {**kwargs, "out": outs if several else outs[0]}))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    computed = next((r.dtype for r in results if r.is_floating_point()), None)
    made = Sample(sample.operator, tensors, leaves, spec, computed)
    return made if layouts_after(made) else None


def layouts_after(sample: Sample) -> list[Any]:
    """The operands' shapes and strides after eager's call; [] if eager refuses it, as in place many results."""
    from check import clone_arguments

    twins = list(clone_arguments(tuple(sample.tensors)))
    try:
        sample.call(sample.operator, twins)
    except Exception:
        return []
    return layouts(twins)


def layouts(tensors: list[torch.Tensor]) -> list[Any]:
    """Shapes and strides."""
    return [(tensor.shape, tensor.stride()) for tensor in tensors]


def one_sample(name: str, dtype: str, in_place: bool = False) -> Sample | None:
    """The sample that stands for the operator where there is no time for all; None if there are none."""
    few = list(itertools.islice(samples_of(name, dtype, in_place), FIRST_FEW))
    return few[draw(name, dtype) % len(few)] if few else None


def draw(*words: str) -> int:
    """A number that depends on the words and SEED only."""
    return zlib.crc32(" ".join([str(SEED), *words]).encode())


def other_data(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors of the same layout and sharing whose storages hold their elements in reverse.

    The values stay in the domain of the operator (indices in range, a positive matrix positive), but move.
    """
    from check import clone_arguments, storage_key

    twins = list(clone_arguments(tuple(tensors)))
    for twin in {storage_key(twin): twin for twin in twins if twin.layout is torch.strided}.values():
        flat = torch.empty(0, dtype=twin.dtype).set_(twin.untyped_storage())
        plain = torch.view_as_real(flat) if flat.is_complex() else flat  # PyTorch can't flip every complex dtype
        plain.copy_(plain.flip(0))
    return twins
