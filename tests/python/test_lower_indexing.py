"""Gathers and scatters."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from compare import backend, check

pytestmark = pytest.mark.usefixtures("interpreter")


def test_gathers():
    def f(x, i, j, k, m):
        a = [
            x[i],
            x[:, j],
            x[i, j],
            x[i[:, None], j],
            x[0, i],
            x[:, i[:, None], j],
            x[i, :, k],
            x.index_select(1, j),
            F.embedding(i.view(2, 2), x[:, :, 0]),
        ]
        a += [
            x.gather(1, i.view(4, 1, 1)),
            x.gather(2, k.view(1, 2, 2)),
            x[..., k[0]],
            torch.take_along_dim(x, j.view(1, 4, 1), 1),
            x[i.int()],
        ]
        return [*a, x[None, i], torch.where(m, x, 0.0), x[-1, j], x.index_select(0, i[0])]

    x = torch.randn(4, 4, 4)
    args = torch.tensor([0, 1, 3, 2]), torch.tensor([3, 0, 1, 1]), torch.tensor([[0, 1], [2, 3]])
    check(lambda x, i, j, k, m: f(x, i, j, k.view(-1), m), x, *args, x > 0)


def test_negative_indices():
    check(lambda x, i: (x[i], x[:, i], x[-1], x.index_put((i,), x[0])), torch.randn(4, 4), torch.tensor([-1, 0, -4]))


def test_scatters():
    x, i, m = torch.randn(4, 4), torch.tensor([0, 2, 3]), torch.rand(4, 4) > 0.5

    def f(x, i, v, w, m):
        a = [
            x.index_put((i,), v),
            x.index_put((i,), v, accumulate=True),
            x.index_copy(0, i, v),
            x.index_add(0, i, v, alpha=2),
        ]
        a += [
            x.scatter(1, i.view(3, 1), w),
            x.scatter(0, i.view(1, 3), 5.0),
            x.scatter_add(0, i.view(1, 3).expand(3, 3), w),
        ]
        a += [
            x.index_fill(1, i, -1.0),
            x.masked_fill(m, 2.0),
            x.index_put((m,), torch.tensor(3.0)),
            x.index_put((i, i), w[0]),
        ]
        y = x.clone()
        y[:, i] = v[0, 0]
        y[1, i] += 1
        y[m] = 0.5
        return [*a, y, x.index_add(0, i, v) / 2]

    check(f, x, i, torch.randn(3, 4), torch.randn(3, 3), m)


def test_index_out_of_range_is_an_index_error():
    compiled = torch.compile(lambda x, i: x[i], backend=backend())
    assert compiled(torch.randn(4), torch.tensor([1, 2])).shape == (2,)
    with pytest.raises(IndexError):
        compiled(torch.randn(4), torch.tensor([1, 9]))


def test_gathers_of_changing_size():
    check(lambda x, i: (x[i] * 2, x.index_select(0, i)), torch.randn(5, 3), torch.tensor([1, 2]), dynamic=True,
          more=[(torch.randn(7, 3), torch.tensor([6, 0, 1])), (torch.randn(3, 3), torch.arange(3))])  # fmt: skip
