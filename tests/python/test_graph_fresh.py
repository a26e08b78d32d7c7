"""Replays that return new tensors: what they hold, what they leave alone, and several threads at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from capturing import captured
from torch.nn import functional as F


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def test_each_replay_returns_tensors_of_its_own():
    x = torch.randn(3, 4)
    g, y = captured(lambda x: {"y": x + 1, "parts": [(x * 2).t(), None, 7]}, x, inputs={"x": x})
    g.replay()
    static = y["y"].clone()
    others = [torch.randn(3, 4) for _ in range(3)]
    got = [g.replay(x=other, fresh=y) for other in others]
    for other, made in zip(others, got, strict=True):
        assert torch.equal(made["y"], other + 1) and torch.equal(made["parts"][0], (other * 2).t())
        assert made["parts"][1:] == [None, 7] and made["parts"][0].stride() == (1, 4)
    assert torch.equal(y["y"], static), "a replay with results of its own wrote the memory of the others"
    assert g.replay(x=others[0]) is None and torch.equal(y["y"], others[0] + 1)
    assert torch.equal(g.replay(fresh=y["y"][1:, ::2]), (x + 1)[1:, ::2])


def test_views_inputs_and_what_lies_outside():
    x, cache, weight = torch.randn(2, 3), torch.zeros(2, 3), torch.randn(3, 3)

    def region():
        cache.add_(x)
        return x, x.view(-1), x @ weight, cache, weight

    g, y = captured(region, inputs={"x": x})
    other = torch.randn(2, 3)
    same, flat, product, kept, fixed = g.replay(x=other, fresh=y)
    assert same is other and flat.data_ptr() == other.data_ptr() and kept is cache and fixed is weight
    torch.testing.assert_close(product, other @ weight)
    assert torch.equal(cache, other)


def test_what_the_user_filled_goes_into_each_replays_memory():
    x = torch.randn(2)

    def region():
        buffer = torch.empty(4)
        buffer[:2] = x
        return buffer

    g, buffer = captured(region, inputs={"x": x})
    buffer[2:] = torch.tensor([5.0, 6.0])
    got = g.replay(x=torch.ones(2), fresh=buffer)
    assert got.tolist() == [1, 1, 5, 6] and got.data_ptr() != buffer.data_ptr()


def test_a_tensor_of_another_graph_is_refused():
    x = torch.ones(3)
    g, y = captured(lambda: x + 1, inputs={"x": x})
    with pytest.raises(ValueError, match=r"shape \(5,\) that this graph neither makes nor uses"):
        g.replay(fresh=torch.zeros(5))
    assert g.replay(fresh=y).tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="named 'fresh'"):
        captured(lambda: x + 1, inputs={"fresh": x})


def test_eight_threads_replay_one_graph_a_thousand_times_while_another_captures():
    linear, x = torch.nn.Linear(16, 16), torch.randn(4, 16)
    g, y = captured(lambda: F.gelu(linear(x)).softmax(-1), inputs={"x": x})
    stop, inputs = threading.Event(), torch.randn(8, 5, 4, 16)
    expected = F.gelu(linear(inputs)).softmax(-1)

    def work(seed):
        with torch.no_grad():
            for step in range(1000):
                got = g.replay(x=inputs[seed, step % 5], fresh=y)
                assert torch.allclose(got, expected[seed, step % 5], atol=1e-6), (seed, step)

    def capture_others():
        for width in range(1, 100):
            if stop.is_set():
                return width
            z = torch.randn(2, width)
            with torch.no_grad():
                other, w = captured(lambda z: z.cos().sum(-1), z)
                other.replay()
                torch.testing.assert_close(w, z.cos().sum(-1))
        return 100

    with ThreadPoolExecutor(9) as pool:
        other = pool.submit(capture_others)
        try:
            list(pool.map(work, range(8)))
        finally:
            stop.set()
        assert other.result() > 1
