"""Named inputs of graphs, pools of working memory, make_graphed_callables, and threads."""

import threading

import pytest
import torch
from capturing import captured
from torch.nn import functional as F

import graphex


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def test_named_inputs_are_bound_without_a_copy():
    x, count, linear = torch.randn(2, 8), torch.zeros(2, 1), torch.nn.Linear(8, 8)

    def region(x, count):
        count.add_(1)
        return linear(x) + count

    g, y = captured(region, x, count, inputs={"x": x, "count": count})
    other, old = torch.randn(4, 8)[1:3], x.clone()
    assert other.storage_offset() == 8
    for total in (1, 2):
        g.replay(x=other)
        torch.testing.assert_close(y, linear(other) + total)
    assert torch.equal(x, old)
    elsewhere = torch.full((2, 1), 10.0)
    g.replay(x=other, count=elsewhere)
    assert elsewhere.tolist() == [[11], [11]] and count.tolist() == [[2], [2]]
    g.replay()
    torch.testing.assert_close(y, linear(x) + 3)
    with torch.inference_mode():
        made_there = torch.randn(2, 8)
        g.replay(x=made_there, count=torch.zeros(2, 1))
        torch.testing.assert_close(y, linear(made_there) + 1)


def test_bound_inputs_that_overlap_are_served_as_by_eager():
    x, z = torch.randn(4), torch.randn(4)
    g, y = captured(lambda: (x.mul_(2), z + 1)[1], inputs={"x": x, "z": z})
    both = torch.arange(6.0)
    g.replay(x=both[:4], z=both[1:5])
    assert both.tolist() == [0, 2, 4, 6, 4, 5] and y.tolist() == [3, 5, 7, 5]


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"y": torch.zeros(3)}, ValueError, "no input 'y'; its named inputs are x"),
        ({"x": torch.zeros(4)}, ValueError, r"shape \(3,\)"),
        ({"x": torch.zeros(3, dtype=torch.float64)}, ValueError, "float64"),
        ({"x": torch.zeros(6)[::2]}, ValueError, r"strides \(2,\)"),
        ({"x": 3}, TypeError, "takes a tensor, not int"),
    ],
)
def test_a_faulty_input_leaves_the_graph_usable(keywords, error, message):
    x = torch.ones(3)
    g, y = captured(lambda: x + 1, inputs={"x": x})
    with pytest.raises(error, match=message):
        g.replay(**keywords)
    g.replay()
    assert y.tolist() == [2, 2, 2]


def test_inputs_that_cannot_be_bound_apart():
    x = torch.ones(2, 3)
    turned = x.t()
    with pytest.raises(graphex.CaptureError, match="'x' shares memory"):
        captured(lambda: x.sum() + turned[0], inputs={"x": x})
    with pytest.raises(graphex.CaptureError, match="another named input"):
        captured(lambda: x.sum(), inputs={"x": x, "turned": turned})
    g, (flat, _) = captured(lambda: (x.view(-1), x + 1), inputs={"x": x})
    with pytest.raises(ValueError, match="view of input 'x'"):
        g.replay(x=torch.zeros(2, 3))
    del flat
    g.replay(x=torch.zeros(2, 3))


def test_graphs_of_one_pool_work_in_one_block():
    linear = torch.nn.Linear(64, 64)
    inputs = [torch.randn(size, 64) for size in (8, 64)]

    def region(x):
        return linear(linear(x).relu())

    alone = [captured(region, x)[0] for x in inputs]
    for g in alone:
        g.replay()
    pool = graphex.graph_pool_handle()
    shared = [captured(region, x, pool=pool) for x in inputs]
    for _ in range(2):
        for (g, y), x in zip(shared, inputs, strict=True):
            g.replay()
            torch.testing.assert_close(y, region(x))
    assert all(g.pool() is pool for g, _ in shared)
    assert pool.idle_bytes == max(g.pool().idle_bytes for g in alone) > 0
    again, y = captured(region, inputs[0], pool=alone[0].pool())
    again.replay()
    torch.testing.assert_close(y, region(inputs[0]))


def test_what_is_no_pool():
    with pytest.raises(TypeError, match="graph_pool_handle"):
        captured(lambda: None, pool=(0, 1))
    with pytest.raises(graphex.CaptureError, match="empty"):
        graphex.Graph().pool()


def test_graphed_functions_return_fresh_results():
    weight = torch.randn(4, 4)

    def function(x, y):
        product = x @ weight
        return {"sum": product + y, "turned": product.t(), "x": x, "part": y[1:], "weight": weight, "n": 3}

    replayed = graphex.make_graphed_callables(function, (torch.randn(4, 4), torch.randn(4, 4)))
    seen = []
    for _ in range(3):
        x, y = torch.randn(4, 4), torch.randn(4, 4)
        got, expected = replayed(x, y), function(x, y)
        seen.append((got, expected))
        assert got["x"] is x and got["weight"] is weight and got["n"] == 3
        assert got["part"].data_ptr() == y[1:].data_ptr()
    for got, expected in seen:
        for name, value in expected.items():
            torch.testing.assert_close(got[name], value)
    with pytest.raises(ValueError, match="'argument 1'"):
        replayed(x, torch.zeros(2))
    with pytest.raises(TypeError, match="2 arguments"):
        replayed(x)


def test_graphed_modules_keep_what_they_store():
    class Keeps(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.dropout = torch.nn.Dropout(0.5)

        def forward(self, x):
            self.last = F.relu(self.linear(x))
            return self.dropout(self.last), self.last

    module = Keeps().eval()
    assert graphex.make_graphed_callables(module, (torch.randn(2, 4),)) is module
    for _ in range(2):
        x = torch.randn(2, 4)
        expected = F.relu(module.linear(x))
        for got in (*module(x), module.last):
            torch.testing.assert_close(got, expected)
    module.train()
    assert (module(torch.ones(2, 4))[0] == 0).any()
    module.eval()
    with torch.enable_grad():
        module(torch.ones(2, 4))[0].sum().backward()
    assert module.linear.weight.grad is not None


def test_several_callables_on_one_pool():
    first, second = graphex.make_graphed_callables(
        (lambda x: x * 2, lambda x, y: x + y), ((torch.ones(2),), (torch.ones(2), torch.ones(2)))
    )
    assert second(first(torch.tensor([1.0, 2.0])), torch.ones(2)).tolist() == [3, 5]
    assert first.graph.pool() is second.graph.pool()
    with pytest.raises(ValueError, match="2 callables"):
        graphex.make_graphed_callables((abs, abs), ((torch.ones(1),),))
    with pytest.raises(TypeError, match="tensors"):
        graphex.make_graphed_callables(abs, (3,))


def test_threads_replay_one_graph_with_inputs_of_their_own():
    linear = torch.nn.Linear(16, 16)
    replayed = graphex.make_graphed_callables(lambda x: F.gelu(linear(x)).softmax(-1), (torch.randn(4, 16),))
    faults = []

    def work(seed):
        x = torch.randn(4, 16, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            expected = F.gelu(linear(x)).softmax(-1)
            for _ in range(200):
                if not torch.allclose(replayed(x), expected, atol=1e-6):
                    faults.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not faults and not any(thread.is_alive() for thread in threads)


def test_one_thread_captures_while_another_replays():
    x = torch.randn(4, 16)
    g, y = captured(lambda: F.gelu(x).softmax(-1))
    expected, done, faults = F.gelu(x).softmax(-1), threading.Event(), []

    def replays():
        while not done.is_set():
            g.replay()
            if not torch.allclose(y, expected, atol=1e-6):
                faults.append(y.clone())

    thread = threading.Thread(target=replays)
    thread.start()
    try:
        for size in range(1, 4):
            z = torch.randn(size, 8)
            other, w = captured(lambda z: z.cos() @ z.t(), z)
            other.replay()
            torch.testing.assert_close(w, z.cos() @ z.t())
    finally:
        done.set()
        thread.join(120)
    assert not faults


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_captures_and_resets_leave_no_memory_behind():
    x, g = torch.randn(4096, 2560), graphex.Graph()  # 40 MiB, as are the result and what lies between

    def turn():
        with graphex.graph(g):
            y = x.cumsum(0).softmax(-1)
        g.replay()
        g.reset()
        del y

    for _ in range(4):
        turn()
    before = resident()
    for _ in range(12):
        turn()
    assert resident() - before < 40 * 2**20
