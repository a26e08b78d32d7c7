"""Shapes with nothing in them, scalars, and errors: eager's results, or eager's kind of error, and never a crash."""

import pytest
import torch
from check import check, compiled

pytestmark = pytest.mark.usefixtures("backend")


def randn(*shape):
    return lambda: (torch.randn(*shape),)


def many(*shapes):
    return lambda: tuple(torch.randn(*shape) for shape in shapes)


# ---- empty and scalar shapes


def linear_relu(x, weight):
    return torch.relu(x @ weight.t())


EDGES = {
    "argmin of no rows": (lambda x: x.argmin(1), [randn(0, 3)]),
    "sum of no columns": (lambda x: x.sum(1), [randn(3, 0)]),
    "batch of none": (linear_relu, [many((0, 4), (5, 4))]),
    "batch of none, then some": (linear_relu, [many((0, 4), (5, 4)), many((3, 4), (5, 4)), many((0, 4), (5, 4))]),
    "softmax of no rows": (lambda x: x.softmax(-1), [randn(0, 3)]),
    "cat with an empty": (lambda x, y: torch.cat([x, y]), [many((0, 3), (2, 3))]),
    "cumsum of a scalar": (lambda x: x.cumsum(0), [lambda: (torch.tensor(5.0),)]),
    "scalar in, scalar out": (lambda x: x * 2 + 1, [lambda: (torch.randn(()),)]),
    "amax of one": (lambda x: x.amax(), [randn(1)]),
    "empty slice": (lambda x: x[2:2] + 1, [randn(4, 3)]),
}


@pytest.mark.parametrize("name", EDGES)
def test_empty_and_scalar_shapes(name):
    function, makes = EDGES[name]
    check(function, *makes, calls=3, length=4)


@pytest.mark.parametrize("name", ["argmin of no columns", "amax of nothing"])
def test_reducing_nothing_is_eagers_error(name):
    function, shape = {
        "argmin of no columns": (lambda x: x.argmin(1), (3, 0)),
        "amax of nothing": (lambda x: x.amax(), (0,)),
    }[name]
    same_error(function, lambda: (torch.randn(shape),))


# ---- errors


def same_error(function, make, allowed=()):
    """Eager raises, and the compiled function raises the same kind; Dynamo wraps what it finds while it traces."""
    with pytest.raises(Exception) as eager:  # noqa: PT011
        function(*make())
    with pytest.raises((eager.type, *allowed, torch._dynamo.exc.TorchRuntimeError)):
        compiled(function)(*make())


OUT_OF_RANGE = {
    "embedding": lambda index, table: torch.nn.functional.embedding(index, table),
    "index": lambda index, table: table[index],
    "index_select": lambda index, table: table.index_select(0, index),
    "gather": lambda index, table: table.gather(0, index[:, None].expand(-1, table.shape[1])),
    "index_put": lambda index, table: table.index_put((index,), torch.zeros(())),
    "index_add": lambda index, table: table.index_add(0, index, torch.ones(index.shape[0], table.shape[1])),
    "index_copy": lambda index, table: table.index_copy(0, index, torch.ones(index.shape[0], table.shape[1])),
}


@pytest.mark.parametrize("bad", [7, 1 << 40, -8])
@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_index_out_of_range(name, bad):
    """Good indices, then a bad one (eager's kind of error), then good ones again: one fault breaks no later call."""
    function = OUT_OF_RANGE[name]
    table = torch.randn(7, 5)
    good = torch.tensor([0, 6, 3])
    candidate = compiled(function)
    want = function(good, table)
    torch.testing.assert_close(candidate(good, table), want)
    with pytest.raises((IndexError, RuntimeError)) as eager:
        function(torch.tensor([0, bad, 3]), table)
    with pytest.raises(eager.type):
        candidate(torch.tensor([0, bad, 3]), table)
    torch.testing.assert_close(candidate(good, table), want)
