"""Broken rules of the lowering, one at a time, by which the fuzzer proves itself; C++ has its own in ../mutants.

Each names a seed that found it, tried first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from .generate import generate
from .run import run_program

aten = torch.ops.aten
CI_SEEDS = range(300)


@contextlib.contextmanager
def _lowering(target: Any, change: Callable[[Any], Any]) -> Iterator[None]:
    """Another lowering of an operator."""
    from graphex.lower import families  # noqa: F401  fills the registry
    from graphex.lower.registry import LOWERINGS

    with mock.patch.dict(LOWERINGS, {target: change(LOWERINGS[target])}):
        yield


def _method(owner: Any, name: str, change: Callable[[Any], Any]) -> Any:
    return mock.patch.object(owner, name, change(getattr(owner, name)))


def view_offset_forgotten() -> Any:
    from graphex.lower.builder import Builder

    return _method(Builder, "view", lambda view: lambda lo, x, shape, strides, offset=0: view(lo, x, shape, strides, 0))


def view_offset_from_its_own_start() -> Any:
    from graphex.lower.builder import Builder

    def broken(view: Any) -> Any:
        return lambda lo, x, shape, strides, offset=0: view(lo, x, shape, strides, offset - x.offset)

    return _method(Builder, "view", broken)


def view_becomes_a_copy() -> Any:
    from graphex.lower.builder import Builder

    def broken(view: Any) -> Any:
        return lambda lo, x, shape, strides, offset=0: lo.copy(view(lo, x, shape, strides, offset))

    return _method(Builder, "view", broken)


def cat_reversed() -> Any:
    return _lowering(aten.cat.default, lambda cat: lambda lo, node, parts, dim=0: cat(lo, node, parts[::-1], dim))


def cat_without_its_last_part() -> Any:
    def broken(cat: Any) -> Any:
        return lambda lo, node, parts, dim=0: cat(lo, node, [*parts[:-1], parts[0]], dim)

    return _lowering(aten.cat.default, broken)


def slice_scatter_from_zero() -> Any:
    def broken(scatter: Any) -> Any:
        return lambda lo, node, x, src, dim=0, start=None, end=None, step=1: scatter(
            lo, node, x, src, dim, 0, end, step
        )

    return _lowering(aten.slice_scatter.default, broken)


def second_write_lost() -> Any:
    from graphex.lower.lowering import Lowering

    def broken(write: Any) -> Any:
        return lambda lo, node, target, value: None if lo.writes else write(lo, node, target, value)

    return _method(Lowering, "write", broken)


def write_in_another_layout() -> Any:
    """The memory of a written input filled in row-major order, whatever its strides."""
    from graphex.lower.exprs import contiguous_strides
    from graphex.lower.lowering import Lowering

    def broken(write: Any) -> Any:
        def run(lo: Any, node: Any, target: Any, value: Any) -> Any:
            return write(
                lo,
                node,
                target,
                lo.view(lo.contiguous(value), value.shape, contiguous_strides(value.shape[::-1])[::-1]),
            )

        return run

    return _method(Lowering, "write", broken)


MUTANTS: dict[Callable[[], Any], int] = {
    view_offset_forgotten: 16,
    view_offset_from_its_own_start: 21,
    view_becomes_a_copy: 15,
    cat_reversed: 15,
    cat_without_its_last_part: 15,
    slice_scatter_from_zero: 21,
    second_write_lost: 10,
    write_in_another_layout: 2,
}


def found_by(mutant: Callable[[], Any], first: int) -> int | None:
    """The first seed of CI whose comparison fails with the mutant on, None if there is none."""
    for seed in [first, *CI_SEEDS]:
        program = generate(seed)
        if program.dynamo:
            continue
        with mutant():
            found = bool(run_program(program).fault)
        if found and not run_program(program).fault:
            return seed
    return None
