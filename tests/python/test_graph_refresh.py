"""Refreshable values: a replay with another number or list is what the region does with it, in eager."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from refreshing import ERROR, X, captured, check
from torch.nn import functional as F

import graphex
from graphex import Refreshable


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


FLOATS = {
    "times": lambda s: X * s.f,
    "expression": lambda s: X * (s.f + 1) / 3 + s.f * s.f,
    "divided": lambda s: s.f / (X + 9) - X / s.f,
    "full": lambda s: torch.full((3,), s.f) + torch.full_like(X[0, :3], s.f - 1),
    "alpha": lambda s: torch.add(X, X, alpha=s.f),
    "clamp": lambda s: X.clamp(min=s.f, max=s.f + 1),
    "where": lambda s: torch.where(s.f < X, X, s.f),
    "masked fill": lambda s: X.masked_fill(X > 0, s.f),
    "compared": lambda s: (s.f > X) | (s.f == X),
    "bf16": lambda s: X.bfloat16() * s.f + X.bfloat16(),
    "doubles": lambda s: X.double() * s.f,
    "ints": lambda s: X.int() * s.f,
    "scores": lambda s: (X * s.f).softmax(-1),
}
INTS = {
    "times": lambda s: X * s.n + (s.n + 1),
    "of ints": lambda s: torch.arange(8) * s.n // 2 + X.int()[:, 0] * s.n,
    "compared": lambda s: torch.arange(8) < s.n,
    "row": lambda s: X[s.n] * 2,
    "element": lambda s: X[s.n, s.n - 8 :].sum(0) + X[None, ..., 1, s.n // 2 - 4],
    "rows": lambda s: X[s.n : s.n + 1, 1:].relu(),
    "sum of rows": lambda s: X[: s.n].sum(0) + X[s.n :].sum(0) * 2 + X[:: s.n + 1].sum(0),
    "mean": lambda s: X[: s.n + 1].mean(0),
    "its size": lambda s: X[: s.n].sum(0) / (X[: s.n].shape[0] + 1),
    "products": lambda s: X.t()[:, : s.n] @ X[: s.n],
    "joined": lambda s: torch.cat([X[: s.n], X]).cumsum(0)[-1] * 2,
    "counted": lambda s: torch.arange(s.n).sum(),
    "softmax": lambda s: X.t()[:, : s.n].softmax(-1).sum(-1),
    "narrow": lambda s: X.narrow(0, s.n, 1).select(1, 2) * 2,
}


@pytest.mark.parametrize("name", FLOATS)
def test_floats(name):
    check(FLOATS[name], {"f": 0.5}, [{"f": f} for f in (2.0, -1.5, 0.1)], options=ERROR)


@pytest.mark.parametrize("name", INTS)
def test_ints(name):
    check(INTS[name], {"n": Refreshable(3, min=0, max=7)}, [{"n": n} for n in (4, 0, 1, 7)], options=ERROR)


def test_negative_and_large_ints():
    values = [{"n": n} for n in (-1, -(2**31), 2**31 - 1)]
    check(lambda s: torch.arange(3) * s.n + (s.n - 1) // 2, {"n": 3}, values, options=ERROR)
    check(lambda s: X.select(0, 0) * s.n, {"n": -5}, values, options=ERROR)


def test_ints_that_the_tensors_dtype_may_not_hold():
    region = lambda s: torch.full((3,), s.n, dtype=torch.int8)  # noqa: E731
    check(region, {"n": Refreshable(3, min=-128, max=127)}, [{"n": 127}], options=ERROR)
    g, y = captured(region, {"n": 3})
    with pytest.raises(RuntimeError, match="int8"):
        g.replay(n=1000)
    g.replay(n=100)
    assert y.tolist() == [100] * 3


def test_operators_without_a_kernel():
    region = lambda s: torch.linalg.qr(X * s.f)[1].abs() * s.n + F.leaky_relu(X, s.f)[:4] ** 2  # noqa: E731
    g = check(region, {"f": 0.5, "n": 2}, [{"f": 0.25}, {"f": 2.0, "n": 5}])
    assert graphex.explain(g)["islands"]


def test_writing_to_where_a_number_says():
    cache, row = torch.zeros(8, 4), torch.randn(4)

    def row_of(s):
        cache[s.n] = row * 2
        cache[:, s.n // 2 - 4] += 1
        return cache.sum(0)

    def rows(s):
        part = cache[: s.n]
        part.add_(1)
        cache[s.n : s.n + 1, 1:3] = row[1:3][None, None]
        cache[-1, ::2] = 7
        return part.sum(0)

    n = Refreshable(3, min=0, max=6)
    for region, options in ((row_of, ERROR), (rows, {})):
        check(region, {"n": n}, [{"n": v} for v in (0, 5, 6, 1)], [cache], options=options)


def test_an_index_that_may_count_from_either_end():
    cache = torch.zeros(8, 4)
    fill = lambda s: (cache.select_scatter(X[0], 0, s.n - 4) + cache, cache.add_(s.n))[0]  # noqa: E731
    g, y = captured(fill, {"n": Refreshable(3, min=0, max=11)})
    for n in (0, 3, 4, 11):
        cache.zero_()
        g.replay(n=n)
        assert torch.equal(y[n - 4], X[0]) and y.count_nonzero() == 4


def test_a_decode_step_at_a_position():
    cache, query = torch.randn(2, 2, 16, 8), torch.randn(2, 2, 1, 8)

    def step(s):
        cache[:, :, s.position] = query[:, :, 0] + 1
        seen = cache[:, :, : s.position + 1]
        return F.scaled_dot_product_attention(query, seen, seen)

    position = Refreshable(5, min=0, max=15)
    check(step, {"position": position}, [{"position": p} for p in (0, 1, 8, 15)], [cache])


def test_eager_replays_follow_too():
    x = torch.randn(6)
    region = lambda s: (x[: s.n].mul_(s.f), x.clone())[1]  # noqa: E731
    refresh, values = {"n": Refreshable(2, 0, 4), "f": 3.0}, [{"n": 4}, {"f": 0.5, "n": 0}]
    check(region, refresh, values, [x], options={"force_eager": True})
    z = torch.randn(6)
    g, y = captured(lambda s: (x.mul_(s.f), z + s.n)[1], refresh, inputs={"x": x, "z": z})
    both = torch.arange(7.0)
    g.replay(x=both[:6], z=both[1:], f=2.0, n=1)
    assert both.tolist() == [0, 2, 4, 6, 8, 10, 6] and y.tolist() == [3, 5, 7, 9, 11, 7]


def test_updates_last_and_values_of_one_replay_do_not():
    n = Refreshable(3, min=0)
    g, y = captured(lambda s: torch.ones(2) * s.n + s.f, {"n": n, "f": 0.5})
    g.replay(n=10)
    assert y.tolist() == [10.5, 10.5]
    g.update(n, 4)
    g.update("f", 2)
    for given, expected in (({}, 6), ({"f": 1.0}, 5), ({}, 6)):
        g.replay(**given)
        assert y.tolist() == [expected] * 2
    assert g.replay(fresh=y, n=0).tolist() == [2, 2] and y.tolist() == [6, 6]
    assert [n.value, n.min] == [3, 0]


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"n": 9}, ValueError, "'n' takes values from 0 to 7; got 9"),
        ({"n": -1}, ValueError, "from 0 to 7; got -1"),
        ({"n": 2.0}, TypeError, r"'n' takes an int, not float 2\.0"),
        ({"n": True}, TypeError, "takes an int, not bool True"),
        ({"f": "2"}, TypeError, "takes a float, not str '2'"),
        ({"f": float("nan")}, ValueError, "got nan"),
        ({"f": torch.ones(1)}, TypeError, "takes a float, not Tensor"),
        ({"rows": [1]}, ValueError, r"takes 2 values of shape \(2,\); got 1 value of shape \(1,\)"),
        ({"rows": [1, 2, 3]}, ValueError, "got 3 values"),
        ({"rows": [0, 8]}, ValueError, "'rows' takes values from 0 to 7; got 8"),
        ({"rows": [0.0, 1.0]}, TypeError, "takes torch.int64; got a list of floats"),
        ({"rows": [0, None]}, TypeError, "list of numbers"),
        ({"rows": torch.zeros(2, dtype=torch.int32)}, ValueError, "takes torch.int64 .*; got torch.int32"),
        ({"rows": 3}, TypeError, "takes a list or a tensor, not int 3"),
        ({"small": [0, 300]}, ValueError, "takes torch.int8; got a list with values that it can't hold"),
        ({"m": 3}, ValueError, "no input 'm'; its named inputs are .*"),
    ],
)
def test_a_bad_value_runs_nothing_and_leaves_the_graph_usable(values, error, message):
    count = torch.zeros(1)

    def region(s):
        count.add_(1)
        return X[s.rows].sum(0) * s.n + s.f + s.small.sum()

    refresh = {
        "n": Refreshable(3, min=0, max=7),
        "f": Refreshable(0.5, max=8),
        "rows": Refreshable([0, 1], min=0, max=7),
        "small": torch.zeros(2, dtype=torch.int8),
    }
    g, y = captured(region, refresh)
    with pytest.raises(error, match=message):
        g.replay(**values)
    if "m" not in values:
        with pytest.raises(error, match=message):
            g.update(*next(iter(values.items())))
    assert count.item() == 0
    g.replay()
    torch.testing.assert_close(y, X[:2].sum(0) * 3 + 0.5)


def test_unknown_names_and_declarations():
    g, _ = captured(lambda s: X * s.n, {"n": 3})
    with pytest.raises(ValueError, match="no refreshable 'm'; its refreshables are n"):
        g.update("m", 3)
    with pytest.raises(ValueError, match="no refreshable"):
        g.update(Refreshable(3), 3)
    with pytest.raises(ValueError, match="its refreshables are none"):
        graphex.Graph().update("n", 3)
    for value in ("3", None, {}):
        with pytest.raises(TypeError, match="a Refreshable is an int, a float"):
            captured(lambda s: X, {"n": value})
    with pytest.raises(TypeError, match="of integers or floats, not torch.complex64"):
        Refreshable(torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="Refreshable takes values from 4 to 8; got 3"):
        Refreshable(3, min=4, max=8)
    with pytest.raises(ValueError, match="can't be named 'x'"):
        captured(lambda s: X * s.x, {"x": 3}, inputs={"x": X})
    with pytest.raises(ValueError, match="can't be named 'fresh'"):
        captured(lambda s: X * s.fresh, {"fresh": 3})


def test_what_the_region_decides_by_a_number_is_checked():
    g, y = captured(lambda s: X * 2 if s.n > 2 else X * 3, {"n": 3})
    with pytest.raises(ValueError, match=r"with n = 1 .* holds for n > 2 only, see .*test_graph_refresh.py:\d+"):
        g.replay(n=1)
    with pytest.raises(ValueError, match="n > 2"):
        g.update("n", 2)
    g.replay(n=5)
    assert torch.equal(y, X * 2)
    g, y = captured(lambda s: X * 2 if s.n % 2 else X * 3, {"n": 3})
    with pytest.raises(ValueError, match="n = 4"):
        g.replay(n=4)
    g.replay(n=-1)
    assert torch.equal(y, X * 2)
    g, y = captured(lambda s: X[s.n] + X[0], {"n": 3})
    for n, condition in ((8, "n < 8"), (-1, "n >= 0|0 <= n")):
        with pytest.raises(ValueError, match=condition):
            g.replay(n=n)
    g.replay(n=0)
    assert torch.equal(y, X[0] * 2)
    for region in (lambda s: X * int(s.n), lambda s: X.sum(s.n - 3), lambda s: F.dropout(X, s.f, True)):
        with pytest.raises(graphex.CaptureError, match=r"has one value: Eq\(.*test_graph_refresh"):
            captured(region, {"n": 3, "f": 0.5})


def test_tensors_that_vary_end_with_their_region():
    kept = []
    g, y = captured(lambda s: (kept.append(X[: s.n]), kept[0].sum(0))[1], {"n": Refreshable(3, 0, 8)})
    with pytest.raises(graphex.CaptureError, match="exists only in its captured region"):
        kept[0] + 1
    with pytest.raises(ValueError, match="neither makes nor uses"):
        g.replay(fresh=kept[0])
    with pytest.raises(graphex.CaptureError, match="index in two steps"):
        captured(lambda s: X[s.n, torch.tensor([1])], {"n": 3})
    with pytest.raises(graphex.CaptureError, match=r"Tensor.tolist\(\): values are known only"):
        captured(lambda s: X[: s.n].tolist(), {"n": 3}, capture_error_mode="relaxed")
    g.replay(n=5)
    torch.testing.assert_close(y, X[:5].sum(0))


def test_threads_replay_with_numbers_of_their_own_while_others_capture():
    g, y = captured(lambda s: X[: s.n].sum(0) * s.f, {"n": Refreshable(3, 0, 8), "f": 0.5})
    stop = threading.Event()

    def work(seed):
        with torch.no_grad():
            for step in range(300):
                n, f = (seed + step) % 9, 0.25 * seed
                torch.testing.assert_close(g.replay(n=n, f=f, fresh=y), X[:n].sum(0) * f)

    def capture_others(width):
        made = 0
        with torch.no_grad():
            while not stop.is_set():
                other, z = captured(lambda s: X[: s.n, :width].cos(), {"n": 3}, capture_error_mode="thread_local")
                made += 1
        return made

    with ThreadPoolExecutor(10) as pool:
        others = [pool.submit(capture_others, width) for width in (2, 3)]
        try:
            list(pool.map(work, range(8)))
        finally:
            stop.set()
        assert all(other.result() for other in others)
    from torch.fx.experimental import _config

    assert not _config.backed_size_oblivious


def test_streams_of_a_region_with_numbers():
    side, cache = graphex.Stream(), torch.zeros(8, 4)

    def region(s):
        cache[s.n] = X[s.n] * s.f
        side.wait_stream(graphex.current_stream())
        with graphex.stream(side):
            tail = cache[s.n :].sum(0)
        head = X[: s.n].sum(0)
        graphex.current_stream().wait_stream(side)
        return head + tail

    check(region, {"n": Refreshable(3, 0, 7), "f": 0.5}, [{"n": 7}, {"n": 0, "f": 2.0}], [cache])


def test_a_replay_on_a_stream_takes_numbers():
    stream = graphex.Stream()
    g, y = captured(lambda s: X[: s.n].sum(0) * s.f, {"n": Refreshable(3, 0, 8), "f": 0.5})
    with graphex.stream(stream):
        made = [g.replay(n=n, f=float(n), fresh=y) for n in range(8)]
    stream.synchronize()
    for n, got in enumerate(made):
        torch.testing.assert_close(got, X[:n].sum(0) * n)
