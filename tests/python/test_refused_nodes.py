"""Nodes that the native module has no kernel for become islands; the rest of the graph stays native."""

import pytest
import torch

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
        top = torch.sort(x, 1).values
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
