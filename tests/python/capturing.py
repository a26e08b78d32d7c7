"""Captures a function with graphex.graph and compares its replays with eager calls."""

import torch

import graphex


def captured(function, *args, **keywords):
    """The graph of function(*args), and the results that its replays refresh."""
    g = graphex.Graph()
    with graphex.graph(g, **keywords):
        results = function(*args)
    return g, results


def check(function, *state, replays=3, **keywords):
    """Replays equal eager calls on the same tensors: results, and what becomes of `state`. Returns the graph."""
    before = [t.clone() for t in state]
    g, results = captured(function, *state, **keywords)
    for t, old in zip(state, before, strict=True):
        assert torch.equal(t, old), "the capture changed a tensor"
    mine = []
    torch.manual_seed(1)
    for _ in range(replays):
        g.replay()
        mine.append([t.clone() for t in (*results, *state)])
    for t, old in zip(state, before, strict=True):
        t.copy_(old)
    torch.manual_seed(1)
    for got in mine:
        expected = (*function(*state), *state)
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b)
            assert a.dtype == b.dtype
    for a, b in zip(results, expected, strict=False):
        assert a.stride() == b.stride() and a.shape == b.shape
    return g
