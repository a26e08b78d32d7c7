"""graphex.scope: how many cores operators may use."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager

from ..native import core


@contextmanager
def limit_core_num(n: int, m: int | None = None) -> Iterator[None]:
    """Context: replays of this thread use at most n cores each.

    m: the second count of npugraph_ex's form, which has two kinds of cores; here there is one, and at most as many as
        the larger of the two are used. Scopes nest: the smallest count holds.
    """
    wanted = [operator.index(count) for count in (n, m) if count is not None]
    if min(wanted) < 1:
        raise ValueError(f"limit_core_num takes counts of 1 or more; got {n if m is None else (n, m)}")
    before = core().core_limit()
    core().set_core_limit(min(filter(None, (max(wanted), before))))
    try:
        yield
    finally:
        core().set_core_limit(before)
