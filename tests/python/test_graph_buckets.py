"""graphex.Buckets: several captured sizes of one function, and the user's policy about them."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.nn import functional as F

import graphex


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def test_a_call_is_padded_and_its_results_are_cut():
    weight, seen = torch.randn(6, 4), []

    def function(x, *, mask):
        seen.append((tuple(x.shape), tuple(mask.shape)))
        return {"y": (x @ weight) * mask.t(), "n": 3, "total": mask.sum()}

    buckets = graphex.Buckets(function, [4, 1, 2], dims={0: 0, "mask": 1}, pad={"mask": 1}, outputs=[0, None])
    for n in (1, 3, 4, 2, 3):
        x, mask = torch.randn(n, 6), torch.rand(1, n)
        got, expected = buckets(x, mask=mask), (x @ weight) * mask.t()
        torch.testing.assert_close(got["y"], expected)
        assert got["y"].shape == expected.shape and got["n"] == 3
        assert got["total"].item() == pytest.approx(mask.sum().item() + buckets.bucket(n) - n)
    assert buckets.captured == (1, 2, 4) and buckets.captures == 3
    assert seen == [((1, 6), (1, 1)), ((4, 6), (1, 4)), ((2, 6), (1, 2))]


def test_other_layouts_arguments_returned_and_empty_calls():
    buckets = graphex.Buckets(lambda x, y: (x, x + y, y), [4], dims=-1, outputs=-1)
    x, y = torch.randn(4, 3).t(), torch.randn(3, 2)[:, :1].expand(3, 4)
    same, total, other = buckets(x, y)
    assert same is x and other is y and torch.equal(total, x + y)
    assert buckets(x[:, :2], x[:, :2])[1].equal(x[:, :2] * 2)
    assert buckets(torch.empty(3, 0), torch.empty(3, 0))[1].shape == (3, 0)


def test_what_is_written_is_written_without_padding():
    cache, steps = torch.zeros(8, 2), torch.zeros(3, dtype=torch.int64)

    def step(rows, slots, steps):
        cache.index_copy_(0, slots, rows)
        steps.add_(1)
        rows.mul_(2)
        return cache.sum(0, keepdim=True).expand(rows.shape)

    buckets = graphex.Buckets(step, [2, 4], pad={1: 7})
    rows, slots = torch.arange(6.0).view(3, 2), torch.tensor([3, 0, 5])
    got = buckets(rows, slots, steps)
    assert steps.tolist() == [1, 1, 1] and torch.equal(rows, torch.arange(6.0).view(3, 2) * 2)
    assert torch.equal(cache[slots], torch.arange(6.0).view(3, 2)) and cache[7].tolist() == [0, 0]
    assert got.tolist() == [[6, 9]] * 3


def test_a_limit_drops_what_was_not_used_for_longest_and_never_what_is_pinned():
    buckets = graphex.Buckets(lambda x: x * 2, lambda n: 2 * (n // 2 + 1), limit=2, pinned=[8])
    for n in (7, 1, 3, 0, 5):  # buckets 8, 2, 4, 2, 6
        x = torch.randn(n)
        assert torch.equal(buckets(x), x * 2)
    assert buckets.captured == (2, 6, 8) and buckets.captures == 4
    for n in (1, 3, 5) * 4:
        x = torch.randn(n)
        assert torch.equal(buckets(x), x * 2)
        assert buckets.bucket(n) in buckets.captured and 8 in buckets.captured
    buckets.unpin(8)
    buckets.pin(2)
    for n in (1, 9, 11):
        buckets(torch.randn(n))
    assert buckets.captured == (2, 10, 12)


def test_warming_up_captures_all_and_runs_nothing():
    counter = torch.zeros(1)

    def function(x):
        counter.add_(1)
        return x + 1

    buckets = graphex.Buckets(function, [1, 2, 8])
    buckets.warm(torch.zeros(3, 2))
    assert buckets.captured == (1, 2, 8) and counter.item() == 0
    assert torch.equal(buckets(torch.zeros(5, 2)), torch.ones(5, 2))
    assert counter.item() == 1 and buckets.captures == 3
    with pytest.raises(ValueError, match="as a list"):
        graphex.Buckets(function, lambda n: n).warm(torch.zeros(1))


def test_a_modules_mode_and_gradients():
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).eval()
    buckets = graphex.Buckets(module, [4])
    x = torch.randn(3, 4)
    torch.testing.assert_close(buckets(x), module(x))
    module.train()
    assert (buckets(torch.ones(3, 4)) == 0).any()
    module.eval()
    with torch.enable_grad():
        buckets(x).sum().backward()
    assert module[0].weight.grad is not None


def test_threads_share_buckets():
    linear = torch.nn.Linear(8, 8)
    buckets = graphex.Buckets(lambda x: F.gelu(linear(x)).softmax(-1), [1, 2, 4, 8], limit=2)

    def work(seed):
        with torch.no_grad():
            for step in range(60):
                x = torch.randn(1 + (seed + step // 20) % 8, 8)
                torch.testing.assert_close(buckets(x), F.gelu(linear(x)).softmax(-1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"sizes": []}, "sizes are ints"),
        ({"sizes": [0, 2]}, "sizes are ints"),
        ({"sizes": [2], "limit": 0}, "limit is None or at least 1"),
        ({"sizes": [2], "pinned": [3]}, "3 can't be pinned; the buckets are 2"),
    ],
)
def test_a_faulty_policy(keywords, message):
    with pytest.raises(ValueError, match=message):
        graphex.Buckets(abs, **keywords)


def test_faulty_calls_leave_the_buckets_usable():
    buckets = graphex.Buckets(lambda x, y: x + y, [2, 4])
    with pytest.raises(ValueError, match="size 5 is above all buckets, which are 2, 4"):
        buckets(torch.zeros(5), torch.zeros(5))
    with pytest.raises(ValueError, match="3 in argument 0, 2 in argument 1"):
        buckets(torch.zeros(3), torch.zeros(2))
    with pytest.raises(ValueError, match="0 dimensions"):
        buckets(torch.zeros(3), torch.zeros(()))
    with pytest.raises(TypeError, match="argument 1 .* is int; expected a tensor"):
        buckets(torch.zeros(3), 2)
    assert buckets.captures == 0
    assert buckets(torch.ones(3), torch.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="float64"):
        buckets(torch.ones(3), torch.ones(3, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"result 0 has shape \(\)"):
        graphex.Buckets(torch.sum, [2])(torch.ones(2))
    with pytest.raises(ValueError, match="outputs has 2 entries; the function returns 1"):
        graphex.Buckets(abs, [2], outputs=[0, 0])(torch.ones(2))
    with pytest.raises(ValueError, match="no argument of this call varies"):
        graphex.Buckets(abs, [2], dims={})(torch.ones(2))
    with pytest.raises(ValueError, match=r"int64, which can't be padded with 0\.5"):
        graphex.Buckets(abs, [2], pad=0.5)(torch.ones(1, dtype=torch.int64))
    with pytest.raises(ValueError, match="made 3 of 4; expected an int, at least 4"):
        graphex.Buckets(abs, lambda n: 3)(torch.ones(4))
    assert buckets(torch.ones(3), torch.ones(3)).tolist() == [2, 2, 2]


def test_arguments_are_not_kept():
    buckets = graphex.Buckets(lambda x, y: x + y, [4], dims={0: 0})
    x, y = torch.ones(4, 2), torch.ones(2)
    refs = weakref.ref(x), weakref.ref(y)
    assert buckets(x, y).shape == (4, 2)
    del x, y
    gc.collect()
    assert [ref() for ref in refs] == [None, None]
