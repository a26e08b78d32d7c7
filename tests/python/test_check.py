"""check() itself: stands in for the compiler and makes one mistake at a time; each must be noticed."""

import check as checking
import pytest
import torch
from check import check, clone_arguments, sharing


def randn(*shape):
    return lambda: (torch.randn(*shape),)


def one_buffer():
    buffer = torch.zeros(4, 5)

    def double(x):
        torch.mul(x, 2, out=buffer)
        return buffer

    return double


def forgets_the_write(x):
    return x + 1


# name: (what eager does, what the broken compiler's code does instead)
MISTAKES = {
    "value": (lambda x: x * 2, lambda x: x * 2.001),
    "value of an integer": (lambda x: (x > 0).sum(), lambda x: (x > 0).sum() + 1),
    "nan": (lambda x: x / x.abs().clamp(min=0), lambda x: torch.where(x > 0, torch.nan, x.sign())),
    "dtype": (lambda x: x * 2, lambda x: (x * 2).double()),
    "shape": (lambda x: x.sum(0), lambda x: x.sum(0, keepdim=True)),
    "strides": (lambda x: x.t() + 1, lambda x: (x.t() + 1).contiguous()),
    "structure": (lambda x: (x + 1, None), lambda x: (x + 1,)),
    "an integer": (lambda x: (x + 1, 4), lambda x: (x + 1, 5)),
    "a copy for a view": (lambda x: x[1:], lambda x: x[1:].clone()),
    "a view for a copy": (lambda x: x.clone(), lambda x: x.view_as(x)),
    "two outputs for one": (lambda x: (lambda y: (y, y))(x + 1), lambda x: (x + 1, x + 1)),
    "another place in the storage": (lambda x: x[1:3, 0:1], lambda x: x[1:3, 1:2]),
    "a lost write": (lambda x: x.add_(1) + 0, forgets_the_write),
    "a write too many": (lambda x: x + 1, lambda x: x.add_(1).clone()),
    "an earlier result overwritten": (lambda x: x * 2, one_buffer()),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_noticed(name, monkeypatch):
    eager, wrong = MISTAKES[name]
    monkeypatch.setattr(checking, "compiled", lambda function, **_: wrong)
    with pytest.raises(AssertionError):
        check(eager, randn(4, 5))


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_right_passes(name, monkeypatch):
    eager, _ = MISTAKES[name]
    monkeypatch.setattr(checking, "compiled", lambda function, **_: function)
    check(eager, randn(4, 5), exact=True)


def test_a_lost_gradient_is_noticed(monkeypatch):
    monkeypatch.setattr(checking, "compiled", lambda function, **_: lambda x: function(x.detach()))
    with pytest.raises(AssertionError, match="requires_grad"):
        check(lambda x: x * 2, lambda: (torch.randn(3, requires_grad=True),), grad=True)


def test_a_wrong_gradient_is_noticed(monkeypatch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    monkeypatch.setattr(checking, "compiled", lambda function, **_: Wrong.apply)
    with pytest.raises(AssertionError, match="gradient"):
        check(lambda x: x * 2, lambda: (torch.randn(3, requires_grad=True),), grad=True)


def test_module_state_is_compared(monkeypatch):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return x + self.count

    monkeypatch.setattr(checking, "compiled", lambda module, **_: lambda x: x + 1)
    with pytest.raises(AssertionError):
        check(Counter(), randn(3))
    monkeypatch.setattr(checking, "compiled", lambda module, **_: module)
    check(Counter(), randn(3))


def test_clones_keep_sharing_strides_and_objects():
    base = torch.randn(6, 8)
    parameter = torch.nn.Parameter(torch.randn(3))
    arguments = (base, base[1:, ::2], base.t(), base, {"p": parameter}, 3, torch.randn(2, 4).expand(5, 2, 4))
    twins = clone_arguments(arguments)
    assert isinstance(twins[4]["p"], torch.nn.Parameter) and twins[5] == 3
    flat = [*arguments[:4], parameter, arguments[6]]
    flat_twins = [*twins[:4], twins[4]["p"], twins[6]]
    assert sharing(flat) == sharing(flat_twins)
    for old, new in zip(flat, flat_twins, strict=True):
        assert torch.equal(old, new) and old.stride() == new.stride() and old.requires_grad == new.requires_grad
        assert old.data_ptr() != new.data_ptr()


def test_clones_keep_conjugate_and_negative_marks():
    values = (torch.randn(3, dtype=torch.complex64).conj(), torch.randn(3, dtype=torch.complex64).conj().imag)
    twins = clone_arguments(values)
    assert twins[0].is_conj() and twins[1].is_neg()
    assert all(torch.equal(old, new) for old, new in zip(values, twins, strict=True))


def test_sharing_of_a_view_without_elements():
    x = torch.randn(4, 5)
    assert sharing([x, x[2:2]]) == [(0, 0, 0), (1, 0, 40)]
