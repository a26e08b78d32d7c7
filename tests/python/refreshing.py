"""Captures regions with refreshable values and compares their replays with eager."""

from types import SimpleNamespace

import torch

import graphex
from graphex import Refreshable

ERROR = {"fallback": "error"}
X = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))


def captured(region, refresh, **keywords):
    g = graphex.Graph()
    with graphex.graph(g, refresh=refresh, **keywords) as slots:
        y = region(slots)
    return g, y


def check(region, refresh, values, state=(), **keywords):
    """Replays with each of `values` equal region(values): the result, its layout, and what becomes of `state`."""
    first = {name: r.value if isinstance(r, Refreshable) else r for name, r in refresh.items()}
    before = [t.clone() for t in state]
    g, y = captured(region, refresh, **keywords)
    for given in (*values, {}):
        for t, old in zip(state, before, strict=True):
            t.copy_(old)
        g.replay(**given)
        mine = [t.clone() for t in (y, *state)]
        for t, old in zip(state, before, strict=True):
            t.copy_(old)
        expected = (region(SimpleNamespace(**first | given)), *state)
        for a, b in zip(mine, expected, strict=True):
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride()
    return g
