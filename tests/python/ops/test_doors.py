"""The doors themselves: what passes for a rounding, and what for a fault of PyTorch's."""

import contextlib

import pytest
import torch
from ops import doors
from ops.samples import one_sample

CANCELLING = torch.tensor([3e4, 1.0, -3e4, 0.1, -1.1])


def compare(reference, candidate):
    door = doors.Door(candidate, reference, doors.Bound(4, 5))
    return doors.compare(reference, door, (CANCELLING,), "here")


def test_terms_that_cancel_may_leave_their_roundings():
    compare(lambda x: [x.sum()], lambda x: [x.flip(0).sum() + 1e-3])
    with pytest.raises(AssertionError, match="off by"):
        compare(lambda x: [x.sum()], lambda x: [x.sum() + 1])


def test_an_exact_operator_gets_no_such_room():
    with pytest.raises(AssertionError, match="off by"):
        compare(lambda x: [x * 2], lambda x: [x * 2.00001])


def test_what_16_bits_lose_in_eager_may_be_kept():
    x = torch.tensor([[7.6562, -6.125, 0.0781]]).bfloat16()
    eager = lambda x: [x.log_softmax(1)[:, :1]]  # noqa: E731  a sum of 1.0005 in bf16 is 1
    exact = eager(x.double())[0].bfloat16()
    assert eager(x)[0] == 0 != exact
    doors.compare(eager, doors.Door(lambda x: [exact], eager, doors.Bound(4, 3)), (x,), "here")
    with pytest.raises(AssertionError, match="off by"):
        doors.compare(eager, doors.Door(lambda x: [exact * 3], eager, doors.Bound(4, 3)), (x,), "here")


def test_no_farther_from_float32_than_eager_is_near_enough():
    x = torch.tensor([2.0]).half()
    eager = lambda x: [x * (1.05 if x.dtype is torch.half else 1)]  # noqa: E731  2.1, exactly 2
    for value, good in ((2.1, True), (1.91, True), (1.87, False), (2.22, False)):
        ours = doors.Door(lambda x, value=value: [torch.tensor([value]).half()], eager, doors.Bound(4, 2))
        with contextlib.nullcontext() if good else pytest.raises(AssertionError, match="off by"):
            doors.compare(eager, ours, (x,), "here")


def test_what_only_our_decompositions_prevent_is_a_fault(monkeypatch):
    def asks_for_data(x):
        return x if x.sum() > 0 else -x

    monkeypatch.setattr(doors, "decompositions", lambda: {torch.ops.aten.sin.default: asks_for_data})
    with pytest.raises(AssertionError, match="with graphex's decompositions no graph"):
        doors.direct_door(one_sample("sin", "float32"))
