"""How many cores operators may use."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from ..native import core


def limit_core_num(n: int, m: int | None = None) -> AbstractContextManager[None]:
    """Context: operators inside use at most n cores each.

    Holds for replays of this thread, for operators captured inside, and, in a function under torch.compile, for those
    in the scope; where several scopes say something, the smallest count holds.
    m: the second count of npugraph_ex's form, which has two kinds of cores; here there is one, and at most as many as
        the larger of the two are used.
    """
    wanted = _checked(n, m)
    if torch.compiler.is_compiling():
        return torch.fx.traceback.annotate({"graphex_cores": wanted})
    return _limited(wanted)


def _checked(n: int, m: int | None) -> int:
    counts = [operator.index(n)] if m is None else [operator.index(n), operator.index(m)]
    if min(counts) < 1:
        raise ValueError(f"limit_core_num takes counts of 1 or more; got {n if m is None else (n, m)}")
    return max(counts)


@contextmanager
def _limited(wanted: int) -> Iterator[None]:
    before = core().core_limit()
    core().set_core_limit(min(wanted, before) if before else wanted)
    try:
        yield
    finally:
        core().set_core_limit(before)
