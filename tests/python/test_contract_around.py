"""PyTorch's features around a compiled call: autocast, subclasses, transforms, hooks, stances, unusual tensors."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("backend")


class Plain(torch.Tensor):
    """A subclass that only has a name of its own."""


class Counting(nn.Parameter):
    """A weight as servers make them: it sees the functions that are called with it."""

    seen = 0

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen += 1
        return super().__torch_function__(function, types, args, kwargs or {})


def compiled(function, **keywords):
    return torch.compile(function, backend="graphex", **keywords)


def same(function, *args):
    """The compiled function gives eager's results and types, twice."""
    run = compiled(function)
    for _ in range(2):
        got, expected = run(*args), function(*args)
        assert type(got) is type(expected)
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("function", [lambda x: x * 2, lambda x: x.t(), lambda x: torch.special.digamma(x * 2)])
def test_a_subclass_that_leaves_the_dispatcher_alone(function):
    same(function, torch.rand(3, 4).as_subclass(Plain))


def test_a_parameter_of_a_class_of_its_own():
    linear = nn.Linear(4, 5)
    linear.weight = Counting(linear.weight.detach(), requires_grad=False)
    with torch.no_grad():
        same(linear, torch.rand(2, 4))
    assert Counting.seen


def test_a_subclass_that_wraps_others():
    from torch.testing._internal.two_tensor import TwoTensor

    pair = TwoTensor(torch.rand(3, 3), torch.rand(3, 3))
    with torch.no_grad():
        got, expected = compiled(lambda x: (x @ x).relu() + 1)(pair), (pair @ pair).relu() + 1
    torch.testing.assert_close(got.a, expected.a)
    torch.testing.assert_close(got.b, expected.b)


@pytest.mark.parametrize("where", ["around", "inside"])
def test_autocast(where):
    linear, x = nn.Linear(8, 8).requires_grad_(False), torch.rand(3, 8)

    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=where == "inside" or torch.is_autocast_enabled("cpu")):
            return linear(x)

    run = compiled(function)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=where == "around"):
        got, expected = run(x), function(x)
    assert got.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: torch.vmap(f),
        lambda f: torch.func.grad(lambda x: f(x).sum()),
        lambda f: lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1],
    ],
    ids=["vmap", "grad", "jvp"],
)
def test_transforms_inside_and_outside(transform):
    def function(x):
        return torch.softmax(x * 2, -1) * x

    x = torch.rand(5, 4)
    same(transform(function), x)
    torch.testing.assert_close(transform(compiled(function))(x), transform(function)(x))


def test_hooks():
    linear = nn.Linear(4, 4).requires_grad_(False)
    linear.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    linear.register_forward_hook(lambda module, inputs, output: output * 2)
    same(linear, torch.rand(2, 4))


@pytest.mark.parametrize("make", [lambda x: x.to_sparse(), lambda x: x.to_sparse_csr()], ids=["coo", "csr"])
def test_a_sparse_input(make):
    same(lambda x, y: x @ y, make(torch.eye(4)), torch.rand(4, 3))


def test_lazily_conjugated_and_negated_inputs():
    z = torch.randn(4, dtype=torch.complex64).conj()
    same(lambda x: x * 2, z.imag)
    same(lambda x: x.real + x.imag * 2, z)


def test_sizes_marked_as_unknown():
    run = compiled(lambda x: (x * 2).sum(0), fullgraph=True)
    for rows in (4, 1, 9):
        x = torch.rand(rows, 3)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        torch.testing.assert_close(run(x), (x * 2).sum(0))


def test_expressions_of_sizes_stay_general():
    run = compiled(lambda x: nn.functional.pad(x, (0, -x.shape[-1] % 4)), dynamic=True, fullgraph=True)
    for width in (5, 8, 3, 1, 13):
        x = torch.rand(2, width)
        torch.testing.assert_close(run(x), nn.functional.pad(x, (0, -width % 4)))


@pytest.mark.parametrize("stance", ["force_eager", "eager_on_recompile", "fail_on_recompile"])
def test_stances(stance):
    run, x = compiled(lambda x: x * 2), torch.rand(3)
    run(x)
    with torch.compiler.set_stance(stance):
        torch.testing.assert_close(run(x), x * 2)


def test_more_recompiles_than_dynamos_limit():
    def function(x, text):
        return x + len(text)

    run, x = compiled(function), torch.rand(3)
    for length in range(2 * torch._dynamo.config.recompile_limit):
        torch.testing.assert_close(run(x, "a" * length), x + length)


def test_reset_and_copies():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).requires_grad_(False)
    run, x = compiled(model), torch.rand(2, 3)
    expected = run(x)
    torch._dynamo.reset()
    assert torch.equal(run(x), expected)
    assert torch.equal(copy.deepcopy(run)(x), expected)
