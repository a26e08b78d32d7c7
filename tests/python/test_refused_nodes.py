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
