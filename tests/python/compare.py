"""Runs a function by eager and by graphex on the same data and compares all that a user can see."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree


def tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def clone(tree: Any) -> Any:
    """A deep copy that keeps strides and what aliases what."""
    return copy.deepcopy(tree)


def same_tensor(a: torch.Tensor, b: torch.Tensor, exact: bool, what: str, scale: float = 1.0) -> None:
    assert a.dtype == b.dtype, f"{what}: {a.dtype} is not {b.dtype}"
    assert a.shape == b.shape, f"{what}: {tuple(a.shape)} is not {tuple(b.shape)}"
    assert a.stride() == b.stride() or a.numel() == 0, f"{what}: strides {a.stride()} are not {b.stride()}"
    if exact:
        both_nan = (a != a) & (b != b)
        assert bool(((a == b) | both_nan).all()), f"{what}: differs by {(a.double() - b.double()).abs().max()}"
        return
    eps = torch.finfo(a.dtype).eps if a.dtype.is_floating_point else 0
    torch.testing.assert_close(a, b, rtol=4 * eps * scale, atol=4 * eps * scale, equal_nan=True)


def check(
    function: Callable[..., Any],
    *args: Any,
    exact: bool = True,
    dynamic: bool | None = None,
    more: Any = (),
    native: bool | None = True,
    scale: float = 1.0,
    **options: Any,
) -> Any:
    """Compares the first call and those with the argument tuples `more`; returns the explanation.

    native=True: everything has to be native. `scale` widens the tolerance for long sums.
    """
    import graphex

    if exact:
        options.setdefault("emulate_precision_casts", True)
    compiled = torch.compile(function, backend=backend(), dynamic=dynamic, options=options or None)
    for arguments in (args, *more):
        mine, theirs = clone(arguments), clone(arguments)
        with torch.no_grad():
            torch.manual_seed(1)
            expected = function(*theirs)
            torch.manual_seed(1)
            got = compiled(*mine)
        for i, (a, b) in enumerate(zip(tensors(got), tensors(expected), strict=True)):
            same_tensor(a, b, exact, f"output {i}", scale)
        for i, (a, b) in enumerate(zip(tensors(mine), tensors(theirs), strict=True)):
            same_tensor(a, b, exact, f"input {i} afterwards", scale)
        others = [x for x in pytree.tree_leaves(got) if not isinstance(x, torch.Tensor)]
        assert others == [x for x in pytree.tree_leaves(expected) if not isinstance(x, torch.Tensor)]
    report = graphex.explain(compiled)
    if native:
        assert report["graphs"] and not report["islands"] and not report["eager_graphs"], str(report)
    elif native is False:
        assert report["islands"] or report["eager_graphs"], str(report)
    return report


def backend() -> Any:
    from graphex.backend import graphex

    return graphex
