"""Streams in a capture: which join it, what is ordered, and that a fork and join gives eager's values."""

import pytest
import torch
from capturing import captured
from graphex.report import reports_of

import graphex


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def fork_and_join(x, side, cores=None):
    """x's two branches on two streams, and their sum."""
    main = graphex.current_stream()
    side.wait_stream(main)
    with graphex.stream(side):
        a = (x * 2).sin()
        a = a.cumsum(0)
    b = (x + 1).cos()
    b = b.cumsum(1)
    main.wait_stream(side)
    return (a + b,)


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("stream", [None, graphex.Stream(name="capture")])
def test_a_fork_and_join(stream, passes):
    side, x = graphex.Stream(name="side"), torch.randn(40, 30)
    options = None if passes else {"disable_passes": ["merge_common"]}
    g, (y,) = captured(fork_and_join, x, side, stream=stream, options=options)
    assert graphex.current_stream() is graphex.default_stream()
    for _ in range(20):
        x.normal_()
        g.replay()
        torch.testing.assert_close(y, ((x * 2).sin().cumsum(0)) + (x + 1).cos().cumsum(1))


def test_events_join_a_stream_and_bring_it_back():
    x, side = torch.randn(8), graphex.Stream()
    event = graphex.Event()

    def region():
        event.record()
        side.wait_event(event)
        with side:
            y = x * 3
            event.record()
        event.wait()
        return y + 1

    g, y = captured(region)
    g.replay()
    torch.testing.assert_close(y, x * 3 + 1)
    with pytest.raises(graphex.CaptureError, match="recorded in a captured region"):
        event.synchronize()
    with pytest.raises(graphex.CaptureError, match="recorded in a captured region"):
        side.wait_event(event)
    event.record()
    event.synchronize()


def test_one_stream_joins_through_another():
    x = torch.randn(8)
    a, b = graphex.Stream(name="a"), graphex.Stream(name="b")

    def region():
        main = graphex.current_stream()
        a.wait_stream(main)
        b.wait_stream(a)
        with graphex.stream(b):
            y = x * 3
        a.wait_stream(b)
        with graphex.stream(a):
            z = y + 1
        main.wait_stream(a)
        return z * 2

    g, y = captured(region)
    g.replay()
    torch.testing.assert_close(y, (x * 3 + 1) * 2)


def refused(region, message, **keywords):
    g = graphex.Graph()
    with pytest.raises(graphex.CaptureError, match=message), graphex.graph(g, **keywords):
        region()
    assert graphex.current_stream() is graphex.default_stream()
    with pytest.raises(graphex.CaptureError, match="empty"):
        g.replay()


def test_a_stream_that_is_not_brought_back():
    x, side = torch.randn(8), graphex.Stream(name="left behind")

    def region():
        side.wait_stream(graphex.current_stream())
        with graphex.stream(side):
            x.mul_(2)

    before = x.clone()
    refused(region, "left behind joined the capture at .*test_capture_streams.py:.*isn't brought back")
    assert torch.equal(x, before)
    refused(lambda: side.wait_stream(graphex.current_stream()), "left behind")


def test_work_after_the_last_event_is_not_brought_back():
    x, side = torch.randn(8), graphex.Stream(name="left behind")

    def region():
        main = graphex.current_stream()
        side.wait_stream(main)
        event = side.record_event()
        with side:
            x.mul_(2)
        main.wait_event(event)

    refused(region, "left behind")


def test_a_stream_that_has_not_joined():
    x, side = torch.randn(8), graphex.Stream(name="outsider")

    def region():
        with graphex.stream(side):
            return x * 2

    refused(region, "outsider in a captured region that it hasn't joined")
    refused(lambda: side.record_event(), "outsider in a captured region")


def test_events_from_outside():
    event = graphex.Event()
    refused(event.wait, "recorded outside")
    event.record()
    refused(event.wait, "recorded outside")
    main = graphex.current_stream()
    points = []
    captured(lambda: points.append(main.record_event()))
    refused(points[0].wait, "recorded outside")


@pytest.mark.parametrize(
    "call",
    [
        lambda: graphex.synchronize(),
        lambda: graphex.current_stream().synchronize(),
        lambda: graphex.current_stream().query(),
        lambda: graphex.Event().query(),
        lambda: graphex.Event().synchronize(),
    ],
)
def test_nothing_can_be_waited_for_inside(call):
    refused(call, "in a captured region")


def forgets(first, second):
    """A region whose two calls on two streams aren't ordered."""
    a, b = graphex.Stream(name="one"), graphex.Stream(name="two")

    def region():
        main = graphex.current_stream()
        for s in (a, b):
            s.wait_stream(main)
        with a:
            first()
        with b:
            second()
        for s in (a, b):
            main.wait_stream(s)

    return region


def test_what_is_not_ordered_is_refused():
    x, out = torch.randn(8), torch.zeros(8)
    pattern = "two {} memory at .*test_capture_streams.py:.* that one {} at .*nothing orders"
    refused(forgets(lambda: x.mul_(2), lambda: x + 1), pattern.format("reads", "writes"))
    refused(forgets(lambda: x + 1, lambda: x.mul_(2)), pattern.format("writes", "reads"))
    refused(forgets(lambda: x[:5].mul_(2), lambda: x[4:].mul_(2)), pattern.format(".*", ".*"))
    made = []
    refused(forgets(lambda: made.append(x + 1), lambda: torch.add(made[0], 1, out=out)), "nothing orders")


def test_what_needs_no_order():
    x = torch.arange(8.0)
    g, _ = captured(forgets(lambda: x[:4].mul_(2), lambda: x[4:].mul_(3)))
    g.replay()
    assert x.tolist() == [0, 2, 4, 6, 12, 15, 18, 21]
    captured(forgets(lambda: x + 1, lambda: x * 2))


def test_a_join_orders_what_comes_after_it():
    x, side = torch.ones(8), graphex.Stream()

    def region():
        main = graphex.current_stream()
        for _ in range(3):
            side.wait_stream(main)
            with side:
                x.mul_(2)
            main.wait_stream(side)
            x.add_(1)

    g, _ = captured(region)
    g.replay()
    assert x.eq(15).all()


def nodes_of(g):
    """The lines of the graph's text that say what is computed."""
    return [line for line in g._replayer.program.graph.splitlines() if " = " in line and " = input" not in line]


def test_marks_are_kept_from_capture_to_program():
    x, side = torch.randn(8, 8), graphex.Stream(cores=2)

    def region():
        main = graphex.current_stream()
        side.wait_stream(main)
        with side, graphex.range("left"):
            y = torch.softmax(x, 0)
        with graphex.range("right"), graphex.range("inner"), graphex.scope.limit_core_num(1):
            z = x.cumsum(0)
        main.wait_stream(side)
        return y + z

    g, _ = captured(region)
    lines = nodes_of(g)
    assert all('range="left"' in line and "lane=1" in line and "lane_cores=2" in line for line in lines[:2])
    [scan] = [line for line in lines if "cumsum" in line or "scan" in line]
    assert 'range="right/inner"' in scan and "cores=1" in scan and "lane" not in scan
    assert "range" not in lines[-1] and "cores" not in lines[-1]


def test_limit_core_num_in_a_compiled_function():
    def f(x):
        with graphex.scope.limit_core_num(1):
            y = x @ x
        return y.relu() @ x

    x = torch.randn(8, 8)
    compiled = torch.compile(f, backend="graphex", fullgraph=True)
    torch.testing.assert_close(compiled(x), f(x))
    products = [line for line in reports_of(compiled)[0].text.splitlines() if "matmul" in line]
    assert len(products) == 2 and "cores=1" in products[0] and "cores" not in products[1]


def test_record_function_is_a_range():
    x = torch.randn(8)

    def region():
        with torch.profiler.record_function("outer"):
            y = x * 2
        return y.cumsum(0)

    g, y = captured(region)
    g.replay()
    torch.testing.assert_close(y, (x * 2).cumsum(0))
    lines = nodes_of(g)
    assert any('range="outer"' in line for line in lines) and "range" not in lines[-1]


def branches(x, weights, side, several=1):
    """Chains of products over each of `weights`, on streams of their own if `side` is a list of those."""
    main, ends = graphex.current_stream(), []
    for _ in range(several):
        ends = []
        for weight, stream in zip(weights, [main, *side] if side else [main] * len(weights), strict=True):
            if stream is not main:
                stream.wait_stream(main)
            with graphex.stream(stream):
                y = x
                for _ in range(5):
                    y = torch.relu(y @ weight) + 1e-3
                ends.append(y)
        for stream in side:
            main.wait_stream(stream)
        x = sum(ends) / 10
    return x


@pytest.mark.parametrize("count", [2, 3])
def test_branches_run_side_by_side_and_equal_one_stream(count):
    torch.manual_seed(0)
    weights = [torch.randn(48, 48) / 7 for _ in range(count)]
    x, side = torch.randn(4, 48), [graphex.Stream() for _ in range(count - 1)]
    one, expected = captured(branches, x, weights, [], 4)
    several, y = captured(branches, x, weights, side, 4)
    for _ in range(20):
        x.normal_()
        one.replay()
        several.replay()
        assert torch.equal(y, expected)
    row = several._replayer.program.explain()
    assert row["sections"] == 4 and one._replayer.program.explain()["sections"] == 0
    assert several._replayer.program.explain()["arena_bytes"] <= count * one._replayer.program.explain()["arena_bytes"]


def test_a_side_stream_whose_result_nobody_in_the_graph_reads():
    x, cache, side = torch.randn(16, 16), torch.zeros(4, 16, 16), graphex.Stream(cores=1)

    def region():
        main = graphex.current_stream()
        y = x * 2
        side.wait_stream(main)
        with side:
            cache[1].copy_(y.sin())
        z = y.cos().cumsum(0)
        main.wait_stream(side)
        return z @ x

    g, z = captured(region)
    for _ in range(3):
        x.normal_()
        g.replay()
        torch.testing.assert_close(z, (x * 2).cos().cumsum(0) @ x)
        torch.testing.assert_close(cache[1], (x * 2).sin())
    assert cache[0].eq(0).all() and cache[2:].eq(0).all()


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_over_streams(seed):
    """Operators in place and not, on three streams ordered by events, against the same calls one after the other."""
    generator = torch.Generator().manual_seed(seed)

    def number(below):
        return int(torch.randint(below, (), generator=generator))

    plan = [(number(3), number(6), number(6), number(5)) for _ in range(25)]

    def run(state, streams):
        main, last = graphex.current_stream(), {}
        for s in streams[1:]:
            s.wait_stream(main)
        for which, a, b, kind in plan:
            s = streams[which]
            for cell in {a, b}:
                if cell in last and last[cell][0] is not s:
                    s.wait_event(last[cell][1])
            with graphex.stream(s):
                if kind == 0:
                    state[a] = state[b] * 0.5 + 1
                elif kind == 1:
                    state[a].mul_(0.5).add_(state[b].sin())
                elif kind == 2:
                    state[a] = state[b].cumsum(0) / 8
                elif kind == 3:
                    state[a] = torch.softmax(state[a] + state[b], -1)
                else:
                    state[a][1:].copy_(state[b][:-1].flip(0))
                for cell in (a, b):
                    last[cell] = s, s.record_event()
        for s in streams[1:]:
            main.wait_stream(s)
        return state

    start = [torch.randn(8, 8, generator=generator) for _ in range(6)]
    side = [graphex.Stream(), graphex.Stream()]
    inputs = [t.clone() for t in start]
    g = graphex.Graph()
    with graphex.graph(g):
        results = run(list(inputs), [graphex.current_stream(), *side])
    mine = [t.clone() for t in start]
    for _ in range(3):
        g.replay()
        expected = run(list(mine), [graphex.current_stream()] * 3)
        for got, wanted in zip([*results, *inputs], [*expected, *mine], strict=True):
            torch.testing.assert_close(got, wanted)
