"""Operators with ordered effects, which AOTAutograd threads tokens through."""

import pytest
import torch
from compare import check


def positive(n):
    x = torch.randn(n, n)
    return x @ x.T + n * torch.eye(n)


def test_operators_that_check_their_results():
    def function(x, y):
        return torch.linalg.inv(x) + 1, torch.linalg.cholesky(x) @ y, torch.linalg.solve(x, y)

    check(function, positive(4), torch.randn(4, 3), exact=False, native=False, scale=64)


def test_the_check_raises_as_in_eager():
    compiled = torch.compile(lambda x: torch.linalg.inv(x), backend="graphex")
    x = positive(3)
    torch.testing.assert_close(compiled(x), torch.linalg.inv(x))
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        compiled(torch.zeros(3, 3))
