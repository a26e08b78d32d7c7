"""Refreshable lists and small tensors."""

from types import SimpleNamespace

import pytest
import torch
from refreshing import ERROR, X, captured

from graphex import Refreshable


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def test_lists_and_tensors():
    table = torch.tensor([[0, 1], [2, 3]], dtype=torch.int32)
    refresh = {"rows": Refreshable([0, 1], min=0, max=7), "table": Refreshable(table, min=0), "weights": [0.5, 2.0]}
    region = lambda s: (X[s.rows] * torch.as_tensor(s.weights)[:, None]).sum(0)[s.table.long()]  # noqa: E731
    region_of = lambda s: region(SimpleNamespace(rows=torch.as_tensor(s.rows), weights=s.weights, table=s.table))  # noqa: E731
    g, y = captured(region, refresh, options=ERROR)
    now = {"rows": [0, 1], "weights": [0.5, 2.0], "table": table.clone()}
    for change in (
        {},
        {"rows": [7, 7]},
        {"rows": torch.tensor([3, 0])},
        {"table": torch.zeros(2, 2, dtype=torch.int32).t()},
        {"weights": [1, 2]},
        {"table": [[1, 1], [2, 2]]},
    ):
        g.replay(**change)
        assert torch.equal(y, region_of(SimpleNamespace(**now | {k: torch.as_tensor(v) for k, v in change.items()})))
    assert table.tolist() == [[0, 1], [2, 3]]
    g.update("rows", [5, 6])
    g.update("table", [[3, 3], [0, 0]])
    g.replay()
    assert torch.equal(y, region_of(SimpleNamespace(**now | {"rows": [5, 6], "table": torch.tensor([[3, 3], [0, 0]])})))
    assert table.tolist() == [[3, 3], [0, 0]]


def test_graphs_may_share_a_declaration():
    declared = {"n": Refreshable(3), "rows": Refreshable([0, 1])}
    (g, y), (other, z) = (captured(lambda s: X[s.rows].sum(0) * s.n, declared) for _ in range(2))
    g.update(declared["rows"], [2, 3])
    g.update(declared["n"], 5)
    g.replay(), other.replay()
    torch.testing.assert_close(y, X[2:4].sum(0) * 5)
    torch.testing.assert_close(z, X[:2].sum(0) * 3)


def test_lists_and_tensors_of_inference_mode():
    with torch.inference_mode():
        table = torch.tensor([1, 2])
        g, y = captured(lambda s: X[s.rows].sum(0) + X[s.table].sum(0), {"rows": [0, 1], "table": table})
        g.update("rows", [3, 3])
    g.update("rows", [4, 5])
    g.update("table", [6, 7])
    g.replay()
    torch.testing.assert_close(y, X[4:].sum(0))


def test_attention_follows_refreshed_lengths():
    from graphex.ops import paged_attention

    keys, values = torch.randn(2, 9, 16, 2, 8)
    query, tables = torch.randn(4, 4, 8), torch.tensor([[3, 4], [5, 6], [0, 0], [0, 0]])

    def region(query, tables):
        return lambda s: paged_attention(query, keys, values, tables, s.lengths)

    lengths = Refreshable([32, 32, 32, 32], min=1, max=32)
    g, y = captured(region(query, tables), {"lengths": lengths}, options=ERROR)
    exact, z = captured(region(query[:2], tables[:2]), {"lengths": [10, 11]}, options=ERROR)
    g.replay(lengths=[10, 11, 1, 1])
    exact.replay()
    assert torch.equal(y[:2], z), "a row depends on its batch"
    for wrong in ([10, 11], [10, 11, 1, 1, 1], [10, 11, 0, 1], [10, 11, 33, 1]):
        with pytest.raises(ValueError, match="'lengths' takes"):
            g.replay(lengths=wrong)
    g.replay()
    torch.testing.assert_close(y, region(query, tables)(SimpleNamespace(lengths=torch.tensor([32] * 4))))
