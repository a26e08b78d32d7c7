"""Nodes that the native module has no kernel for become islands; the rest of the graph stays native."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import graphex


def test_f64_linear_is_an_island_and_the_rest_is_native():
    weight = torch.randn(8, 4, dtype=torch.float64)

    def function(x):
        return torch.nn.functional.linear(x.relu(), weight) * 2 + 1

    compiled = torch.compile(function, backend="graphex")
    x = torch.randn(3, 4, dtype=torch.float64)
    torch.testing.assert_close(compiled(x), function(x))
    (graph,) = graphex.explain(compiled)["graphs"]
    assert not graph["eager"]
    assert [island["op"] for island in graph["islands"]] == ["aten.mm.default"]
    assert "no kernel of matmul for f64" in graph["islands"][0]["reason"]


def test_fallback_error_names_the_node():
    compiled = torch.compile(lambda x: x @ x, backend="graphex", options={"fallback": "error"})
    with pytest.raises(Exception, match=r"matmul.*f64"):
        compiled(torch.randn(4, 4, dtype=torch.float64))


def test_view_of_an_island_result_that_is_a_slice():
    def function(x):
        top = torch.special.digamma(x)
        return top, top[:, 1:]

    compiled = torch.compile(function, backend="graphex")
    x = torch.randn(3, 4)
    for got, want in zip(compiled(x), function(x), strict=True):
        torch.testing.assert_close(got, want)


def test_inputs_that_come_to_share_memory_run_by_eager():
    """The first call's inputs are separate; later ones overlap in part, or with themselves."""

    def function(x, y):
        x.add_(1)
        return x * y, y + 1

    compiled = torch.compile(function, backend="graphex")
    with torch.no_grad():
        compiled(torch.randn(3, 4), torch.randn(3, 4))
        base = torch.randn(5, 4)
        mine, eagers = base.clone(), base.clone()
        got, want = compiled(mine[:3], mine[1:4]), function(eagers[:3], eagers[1:4])
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(mine, eagers)
    (graph,) = graphex.explain(compiled)["graphs"]
    assert graph["program"]["eager_calls"] == 1


def test_a_written_input_that_overlaps_itself_runs_by_eager():
    def function(x):
        x.add_(1)
        return x * 2

    mine, eagers = torch.zeros(10), torch.zeros(10)
    with torch.no_grad():
        got = torch.compile(function, backend="graphex")(mine.as_strided((3, 4), (2, 1)))
        want = function(eagers.as_strided((3, 4), (2, 1)))
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(mine, eagers)


def directly(function, *inputs):
    """Compiled without AOTAutograd, so that nobody but graphex makes views of results."""
    return graphex.compile_fx(make_fx(function, tracing_mode="fake")(*inputs), inputs)


def tupled(function):
    return lambda x: (function(x),)


def test_a_returned_view_that_only_eager_can_make_shares_memory():
    x = torch.randn(4, 5)
    views = {
        "of an input": lambda x: x.as_strided((2, 3), (5, 1), 1),
        "as another dtype": lambda x: x.view(torch.int32),
        "of a view of an input": lambda x: x[1:].as_strided((2,), (1,), 3),
    }
    for name, function in views.items():
        (got,) = directly(tupled(function), x)([x])
        assert torch.equal(got, function(x)), name
        assert got.data_ptr() == function(x).data_ptr(), name


def test_a_view_by_an_island_of_what_is_returned_too_shares_its_memory():
    x = torch.randn(4, 5)
    y, view = directly(lambda x: (lambda y: (y, y.view(torch.int32)))(x + 1), x)([x])
    assert y.data_ptr() == view.data_ptr()


def test_a_view_by_an_island_that_is_not_returned_leaves_the_rest_native():
    x = torch.randn(4, 5)
    compiled = directly(lambda x: (x.view(torch.int32) + 1,), x)
    assert torch.equal(compiled([x])[0], x.view(torch.int32) + 1)
    (graph,) = graphex.explain(compiled)["graphs"]
    assert not graph["eager"] and len(graph["islands"]) == 1


def test_results_whose_fakes_are_not_true_come_from_eager():
    """Eager saves the statistics of a batch norm in bf16 in f32, their fakes say bf16."""
    x, weight = torch.randn(4, 3, 5, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16)
    mean, var = torch.zeros(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16)
    arguments = (x, weight, None, mean, var, True, 0.1, 1e-5)
    function = torch.ops.aten._native_batch_norm_legit_functional.default
    compiled = directly(lambda x, w, m, v: function(x, w, None, m, v, True, 0.1, 1e-5), x, weight, mean, var)
    for got, want in zip(compiled([x, weight, mean, var]), function(*arguments), strict=True):
        torch.testing.assert_close(got, want)
