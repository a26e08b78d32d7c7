"""graphex.graph: what a region may not do, what it says of it, and that nothing is left behind."""

import threading

import pytest
import torch
from capturing import captured, check
from torch.nn import functional as F

import graphex


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


READS = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "__array__": lambda x: __import__("numpy").asarray(x),
    "__bool__": lambda x: 1 if x.sum() > 0 else 2,
    "__int__": lambda x: int(x[0]),
    "__float__": lambda x: float(x[0]),
    "__index__": lambda x: range(x.long()[0]),
    "__repr__": lambda x: print(x),
    "__format__": lambda x: f"{x[0]}",
    "__contains__": lambda x: 1.0 in x,
    "__deepcopy__": lambda x: __import__("copy").deepcopy(x),
    "storage": lambda x: __import__("pickle").dumps(x),
    "untyped_storage": lambda x: bytes(x.untyped_storage()),
    "equal": lambda x: torch.equal(x, x),
    "allclose": lambda x: torch.allclose(x, x),
    "nonzero": lambda x: x.nonzero(),
    "index": lambda x: x[x > 0],
    "unique": lambda x: x.unique(),
    "repeat_interleave": lambda x: torch.repeat_interleave(x, x.long()),
    "_local_scalar_dense": lambda x: torch.full((2,), x[0]),
    "data": lambda x: setattr(x, "data", torch.zeros(1)),
    "set_": lambda x: x.set_(torch.zeros(3)),
    "resize_": lambda x: x.resize_(7),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "sparse": lambda x: x.view(1, 3).to_sparse(),
}


@pytest.mark.parametrize("name", READS)
def test_what_needs_values_is_refused_by_name_and_line(name):
    x, g = torch.tensor([1.0, 2.0, 3.0]), graphex.Graph()
    line = READS[name].__code__.co_firstlineno
    with pytest.raises(graphex.CaptureError, match=rf"{name}.*test_graph_refusals\.py:{line}"), graphex.graph(g):
        x.add_(1)
        READS[name](x)
    assert x.tolist() == [1, 2, 3] and x.shape == (3,)
    with pytest.raises(graphex.CaptureError, match="empty"):
        g.replay()
    with graphex.graph(g):
        y = x + 1
    g.replay()
    assert y.tolist() == [2, 3, 4]


def test_a_refusal_that_the_region_swallows_still_counts():
    x, g = torch.ones(3), graphex.Graph()

    def region():
        try:
            return x + x.sum().item()
        except RuntimeError:
            return x

    with pytest.raises(graphex.CaptureError, match="item"), graphex.graph(g):
        region()
    with pytest.raises(graphex.CaptureError, match="empty"):
        g.replay()


@pytest.mark.parametrize(
    "faulty",
    [
        lambda x: x @ x.view(-1),
        lambda x: x + torch.ones(5),
        lambda x: x.add_(torch.ones(2, 3, 4)),
        lambda x: F.embedding(x, x),
        lambda x: x.long().sigmoid_(),
        lambda x: torch.cat([x, x[0]]),
    ],
)
def test_errors_are_eagers(faulty):
    x = torch.ones(3, 4)
    with pytest.raises((RuntimeError, IndexError)) as eager:
        faulty(x.clone())
    g = graphex.Graph()
    with pytest.raises(type(eager.value)) as mine, graphex.graph(g):
        faulty(x)
    assert str(mine.value) == str(eager.value)
    assert torch.equal(x, torch.ones(3, 4))


def test_an_error_that_the_region_handles_is_its_own_affair():
    x = torch.ones(3)

    def region():
        try:
            return x + torch.ones(5)
        except RuntimeError:
            return x * 2

    g, y = captured(region)
    g.replay()
    assert y.tolist() == [2, 2, 2]


def test_an_exception_in_the_region_leaves_nothing():
    x, g = torch.ones(3), graphex.Graph()
    with pytest.raises(KeyError), graphex.graph(g):
        x.mul_(3)
        raise KeyError("the user's")
    assert x.tolist() == [1, 1, 1] and (x + 1).tolist() == [2, 2, 2]
    check(lambda x: (x * 2,), x)


def test_regions_do_not_nest():
    x, outer, inner = torch.ones(3), graphex.Graph(), graphex.Graph()
    with (
        pytest.raises(graphex.CaptureError, match="inside a captured region"),
        graphex.graph(outer),
        graphex.graph(inner),
    ):
        x.add_(1)
    done, _ = captured(lambda: x + 1)
    with pytest.raises(graphex.CaptureError, match="replay inside"), graphex.graph(outer):
        done.replay()
    check(lambda x: (x * 2,), x)


def test_a_compiled_function_in_a_region_is_recorded_or_refused():
    x = torch.ones(3)
    compiled = torch.compile(lambda x: (x * 3).add_(1), backend="graphex")
    compiled(x)
    g, y = captured(compiled, x)
    x.fill_(2)
    g.replay()
    assert y.tolist() == [7, 7, 7]


def test_a_compiled_graph_called_past_torch_compile_is_refused():
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.ones(3)
    compiled = graphex.compile_fx(make_fx(lambda x: (x * 3,))(x), [x])
    assert compiled([x])[0].tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="called in a captured region"):
        captured(lambda: compiled([x]))
    assert compiled([x])[0].tolist() == [3, 3, 3]


def test_relaxed_mode_reads_what_is_known():
    x, scale = torch.ones(3), torch.tensor(4.0)
    g, y = captured(lambda: x * scale.item() * len(scale.view(1).tolist()), capture_error_mode="relaxed")
    g.replay()
    assert y.tolist() == [4, 4, 4]
    with pytest.raises(graphex.CaptureError, match="item"):
        captured(lambda: (x + 1)[0].item(), capture_error_mode="relaxed")
    with pytest.raises(graphex.CaptureError, match="item"):
        captured(lambda: scale.add_(1).item(), capture_error_mode="relaxed")


@pytest.mark.parametrize(
    ("first", "second", "both"), [("global", "thread_local", False), ("thread_local", "relaxed", True)]
)
def test_captures_in_two_threads(first, second, both):
    x, other, fault = torch.ones(3), [], []

    def capture():
        try:
            other.append(captured(lambda: x + 2, capture_error_mode=second))
        except graphex.CaptureError as why:
            fault.append(why)

    def region():
        y = x + 1
        thread = threading.Thread(target=capture)
        thread.start()
        thread.join(120)
        return y

    g, y = captured(region, capture_error_mode=first)
    g.replay()
    assert y.tolist() == [2, 2, 2]
    assert bool(other) == both and bool(fault) != both


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"stream": object()}, TypeError, "graphex.Stream, not object"),
        ({"capture_error_mode": "strict"}, ValueError, "capture_error_mode is one of"),
        ({"options": {"no_such": 1}}, graphex.OptionError, "no_such"),
    ],
)
def test_wrong_arguments(keywords, error, message):
    with pytest.raises(error, match=message):
        captured(lambda: None, **keywords)
    check(lambda x: (x * 2,), torch.ones(3))
