"""Random regions that read and write rows, columns and slices where refreshable numbers say, beside eager."""

import random
from types import SimpleNamespace

import pytest
import torch

import graphex
from graphex import Refreshable

ROWS, COLUMNS, MOST = 8, 6, 6


def set_row(a, b, n, k, x):
    b[n] = a[k] * 2


def add_to_row(a, b, n, k, x):
    b[k] += a[n]


def scale_slice(a, b, n, k, x):
    b[:n].mul_(x)


def copy_rows(a, b, n, k, x):
    b[n : n + 2].copy_(a[k : k + 2].clone())


def fill_rows(a, b, n, k, x):
    b[n:] = k


def set_column(a, b, n, k, x):
    b[:, n // 2] = a[:, k // 3]


def change_through_views(a, b, n, k, x):
    part = b.narrow(0, n, 2)
    part.add_(k)
    part[1].neg_()
    return part.sum(0) + a[n]


WRITES = [set_row, add_to_row, scale_slice, copy_rows, fill_rows, set_column, change_through_views]
READS = [
    lambda a, b, n, k, x: a[n] * 2 + b[k],
    lambda a, b, n, k, x: a[: n + 1].sum(0) + b[k:].amax(0),
    lambda a, b, n, k, x: a[: n + 1].t() @ b[: n + 1],
    lambda a, b, n, k, x: a[k:].cumsum(0).sum(0),
    lambda a, b, n, k, x: torch.cat([a[:n], b]).mean(0),
    lambda a, b, n, k, x: a * n + b * (k + n),
    lambda a, b, n, k, x: a * x + b / (x * x + 1),
]


def program(choose):
    """A region of 2 to 7 steps over two tensors."""
    steps = [(choose.choice(WRITES + READS), choose.random() < 0.5, choose.random() < 0.5) for _ in range(7)]
    steps = steps[: choose.randint(2, 7)]

    def region(a, b, s):
        results = []
        for step, turned, swapped in steps:
            tensors, numbers = (b, a) if turned else (a, b), (s.k, s.n) if swapped else (s.n, s.k)
            results.append(step(*tensors, *numbers, s.x))
        return [t.clone() for t in results if t is not None]

    return region


@torch.no_grad()
@pytest.mark.parametrize("seed", range(12))
def test_a_random_region(seed):
    choose = random.Random(seed)
    torch.manual_seed(seed)
    region, start = program(choose), torch.randn(2, ROWS, COLUMNS)
    (a, b), g = (t.clone() for t in start), graphex.Graph()
    first = {"n": choose.randint(0, MOST), "k": choose.randint(0, MOST), "x": 0.75}
    declared = {name: Refreshable(value, min=0, max=MOST) for name, value in first.items() if name != "x"}
    with graphex.graph(g, refresh={**declared, "x": first["x"]}) as now:
        results = region(a, b, now)
    for _ in range(6):
        values = {"n": choose.randint(0, MOST), "k": choose.randint(0, MOST), "x": choose.uniform(-2, 2)}
        a.copy_(start[0]), b.copy_(start[1])
        g.replay(**values)
        other = [t.clone() for t in start]
        expected = region(*other, SimpleNamespace(**values))
        for mine, theirs in zip([*results, a, b], [*expected, *other], strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)
    assert not graphex.explain(g)["eager_graphs"]
