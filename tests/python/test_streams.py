"""Streams and events outside of captures: what runs when, and that nobody sees a value too early."""

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import torch
from capturing import captured

import graphex


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def slow(size=900, times=6):
    """A graph that takes some tens of milliseconds, its input and its result."""
    x = torch.randn(size, size) / size**0.5

    def region():
        y = x
        for _ in range(times):
            y = y @ x
        return y

    g, y = captured(region)
    return g, x, y, region


def test_a_replay_in_a_streams_context_returns_at_once():
    g, x, y, region = slow()
    s = graphex.Stream()
    g.replay()
    y.zero_()
    with graphex.stream(s) as entered:
        assert entered is s is graphex.current_stream()
        g.replay()
        g.replay()
        assert not s.query()
    assert graphex.current_stream() is graphex.default_stream()
    s.synchronize()
    assert s.query()
    torch.testing.assert_close(y, region())


def test_eager_code_in_the_context_sees_the_results():
    g, x, y, region = slow()
    s = graphex.Stream(cores=1)
    expected = region()
    y.zero_()
    with s:
        g.replay()
        assert y.shape == x.shape and not s.query()
        doubled = y + y
        assert s.query()
        g.replay()
        assert y[0, 0].item() == pytest.approx(expected[0, 0].item(), rel=1e-4)
        g.replay()
        array = y.numpy().copy()
    torch.testing.assert_close(doubled, expected * 2)
    torch.testing.assert_close(torch.from_numpy(array), expected)


def test_a_compiled_function_in_the_context_sees_the_results():
    g, x, y, region = slow()
    compiled = torch.compile(lambda t: t * 2, backend="graphex")
    compiled(y)
    expected = region() * 2
    y.zero_()
    with graphex.stream(graphex.Stream()):
        g.replay()
        torch.testing.assert_close(compiled(y), expected)


def test_the_default_stream_waits_at_once():
    g, x, y, region = slow()
    s, t = graphex.Stream(), graphex.Stream()
    y.zero_()
    with graphex.stream(s):
        g.replay()
    graphex.current_stream().wait_stream(s)
    torch.testing.assert_close(y, region())
    y.zero_()
    with graphex.stream(s):
        g.replay()
    event = s.record_event()
    t.wait_event(event)
    assert not t.query()
    graphex.default_stream().wait_event(t.record_event())
    torch.testing.assert_close(y, region())
    assert event.query() and t.query()


def test_chains_of_graphs_over_streams():
    x = torch.zeros(64)
    graphs = [captured(lambda k=k: x.mul_(3).add_(k))[0] for k in range(5)]
    streams = [graphex.Stream(cores=1) for _ in range(3)]
    expected = torch.zeros(64)
    last = None
    for i in range(200):
        stream = streams[i % 3 if i % 7 else 0]
        if last is not None:
            last.wait(stream)
        with graphex.stream(stream):
            graphs[i % 5].replay()
        last = stream.record_event()
        expected = torch.remainder(expected.mul(3).add(i % 5), 1e30)
        if i % 12 == 11:
            graphex.default_stream().wait_event(last)
            torch.testing.assert_close(x, expected, rtol=0, atol=0)
            x.zero_()
            expected.zero_()
            last = None


def test_events_tell_time():
    g, *_ = slow()
    s = graphex.Stream()
    start, end = graphex.Event(enable_timing=True), graphex.Event(enable_timing=True)
    assert start.query()
    start.record(s)
    with graphex.stream(s):
        g.replay()
        end.record()
    begun = time.perf_counter()
    with pytest.raises(RuntimeError, match="reached"):
        start.elapsed_time(end)
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 1e3 * (time.perf_counter() - begun) + 1e3
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        start.elapsed_time(graphex.Event())
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(graphex.Event(enable_timing=True))


def test_an_error_of_queued_work_is_told_at_the_next_wait():
    weight, index, x = torch.randn(8, 4), torch.tensor([2]), torch.zeros(4)
    g, y = captured(lambda: torch.nn.functional.embedding(index, weight))
    add, _ = captured(lambda: x.add_(1))
    s = graphex.Stream()
    index.fill_(99)
    with graphex.stream(s):
        g.replay()
        add.replay()
    with pytest.raises(IndexError, match="99"):
        s.synchronize()
    assert not x.any(), "work behind the failure ran"
    index.fill_(3)
    with graphex.stream(s):
        g.replay()
        add.replay()
    s.synchronize()
    torch.testing.assert_close(y[0], weight[3])
    assert x.eq(1).all()


def test_a_failure_goes_along_with_events():
    weight, index, x = torch.randn(8, 4), torch.tensor([2]), torch.zeros(4)
    g, _ = captured(lambda: torch.nn.functional.embedding(index, weight))
    add, _ = captured(lambda: x.add_(1))
    s, t = graphex.Stream(), graphex.Stream()
    index.fill_(-9)
    with graphex.stream(s):
        g.replay()
    t.wait_stream(s)
    with graphex.stream(t):
        add.replay()
    event = t.record_event()
    with pytest.raises(IndexError):
        event.synchronize()
    assert not x.any()
    graphex.synchronize()


def test_islands_run_on_the_calling_thread_after_what_is_queued():
    seen = []

    @torch.library.custom_op("streams_test::look", mutates_args=())
    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(threading.get_ident())
        return x + 1

    @look.register_fake
    def _(x):
        return torch.empty_like(x)

    g, x, y, region = slow()
    island, z = captured(lambda: look(y) * 2)
    y.zero_()
    with graphex.stream(graphex.Stream()):
        g.replay()
        island.replay()
    assert seen == [threading.get_ident()]
    torch.testing.assert_close(z, (region() + 1) * 2)


def test_what_a_queued_replay_uses_may_be_let_go_of():
    x = torch.randn(600, 600) / 25
    g, y = captured(lambda t: t @ t @ t, x, inputs={"x": x})
    s = graphex.Stream()
    results = []
    others = [torch.randn(600, 600) / 25 for _ in range(8)]
    with graphex.stream(s):
        for other in others:
            results.append(g.replay(x=other.clone(), fresh=y))
    g.reset()
    del g
    s.synchronize()
    for other, result in zip(others, results, strict=True):
        torch.testing.assert_close(result, other @ other @ other)


def test_a_stream_that_is_dropped_finishes_its_work():
    g, x, y, region = slow()
    y.zero_()
    with graphex.stream(graphex.Stream()):
        g.replay()
    del x
    torch.testing.assert_close(y, region())


def test_each_thread_has_its_own_current_stream():
    s = graphex.Stream()
    found = []
    with graphex.stream(s), graphex.stream(None) as same:
        assert same is s
        thread = threading.Thread(target=lambda: found.append(graphex.current_stream()))
        thread.start()
        thread.join()
    assert found == [graphex.default_stream()]


def test_a_context_can_be_entered_again_inside_itself():
    s, t = graphex.Stream(name="a"), graphex.Stream(name="b")
    with s, t, s:
        assert graphex.current_stream() is s
    assert graphex.current_stream() is graphex.default_stream()
    assert "'a'" in repr(s)


def test_threads_replay_on_streams_of_their_own():
    x = torch.randn(32, 64)
    linear = torch.nn.Linear(64, 64)
    g, y = captured(lambda t: linear(t).relu(), x, inputs={"x": x})
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        s = graphex.Stream(cores=1)
        with torch.no_grad(), graphex.stream(s):
            for _ in range(100):
                mine = torch.randn(32, 64, generator=generator)
                result = g.replay(x=mine, fresh=y)
                if not torch.allclose(result, linear(mine).relu(), atol=1e-5):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: graphex.Stream(cores=0), ValueError, "1 or more"),
        (lambda: graphex.Stream(cores=True), ValueError, "1 or more"),
        (lambda: graphex.Stream(cores=[]), ValueError, "at least one"),
        (lambda: graphex.Stream(cores=[0, 0]), ValueError, "different"),
        (lambda: graphex.Stream(cores=[99999]), ValueError, "may not run there"),
        (lambda: graphex.Stream(priority=1.5), TypeError, "integer"),
        (lambda: graphex.stream(3), TypeError, "graphex.Stream, not int"),
        (lambda: graphex.Stream().wait_stream(graphex.Event()), TypeError, "graphex.Stream, not Event"),
        (lambda: graphex.Stream().wait_event(None), TypeError, "graphex.Event, not NoneType"),
        (lambda: graphex.Event().record(torch.Stream(device="cpu")), TypeError, "graphex.Stream, not Stream"),
        (lambda: graphex.scope.limit_core_num(0).__enter__(), ValueError, "1 or more"),
        (lambda: graphex.scope.limit_core_num(1, -1).__enter__(), ValueError, "1 or more"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_stream_runs_on_the_cpus_that_it_is_given():
    cpu = min(os.sched_getaffinity(0))
    s = graphex.Stream(cores=[cpu])
    assert s.cores == 1
    g, y = captured(lambda t: t + 1, torch.zeros(8))
    with s:
        g.replay()
    s.synchronize()
    assert y.eq(1).all()


def test_limit_core_num_is_read_at_replay():
    g, x, y, region = slow(256, 2)
    with graphex.scope.limit_core_num(1):
        g.replay()
    torch.testing.assert_close(y, region())
    with graphex.scope.limit_core_num(2, 8), graphex.scope.limit_core_num(1):
        y.zero_()
        g.replay()
    torch.testing.assert_close(y, region())


def in_a_process(script):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_ends_with_work_queued():
    out = in_a_process(
        """
        import torch, graphex
        x = torch.randn(700, 700)
        g = graphex.Graph()
        with torch.no_grad(), graphex.graph(g):
            y = x @ x @ x
        s = graphex.Stream()
        with graphex.stream(s):
            for _ in range(10): g.replay()
        print("done")
        """
    )
    assert out == "done\n"


def test_streams_after_a_fork():
    in_a_process(
        """
        import os, torch, graphex
        x = torch.zeros(8)
        g = graphex.Graph()
        with torch.no_grad(), graphex.graph(g):
            y = x + 1
        s = graphex.Stream(cores=2)
        def once():
            y.zero_()
            with graphex.stream(s): g.replay()
            s.synchronize()
            return bool(y.eq(1).all())
        assert once()
        child = os.fork()
        if child == 0:
            os._exit(0 if once() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert once()
        """
    )
