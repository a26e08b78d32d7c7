"""Reductions, normalisation, matrix products, attention."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from compare import check

pytestmark = pytest.mark.usefixtures("interpreter")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_reductions(dtype):
    def f(x):
        a = [
            x.sum(),
            x.sum(1),
            x.sum((0, 2), keepdim=True),
            x.mean(-1),
            x.mean(),
            x.amax(1),
            x.amin((0, 1)),
            x.max(),
            x.min(),
        ]
        a += [
            x.prod(1),
            x.argmax(),
            x.argmin(1),
            x.argmax(-1, keepdim=True),
            *x.max(1),
            *x.min(0, keepdim=True),
            x.cumsum(1),
        ]
        a += [
            (x > 0).any(),
            (x > 0).all(1),
            (x > 9).sum(),
            (x > 0).any(0),
            x.var(1),
            x.std(-1, correction=0),
            *torch.var_mean(x, 1),
        ]
        return [
            *a,
            x.norm(dim=-1),
            x.logsumexp(1),
            x.sum(1, dtype=torch.float64),
            x.abs().mean((0, 1)),
            x.count_nonzero(),
        ]

    check(f, torch.randn(3, 4, 5).to(dtype), exact=False, scale=16)


def test_reductions_of_integers_and_scalars():
    def f(i, b, s):
        a = [
            i.sum(),
            i.sum(0),
            b.sum(),
            i.prod(),
            i.amax(0),
            b.any(),
            b.all(),
            i.cumsum(0),
            i.argmax(),
            b.max(),
            s.sum(),
            s.cumsum(0),
        ]
        return [
            *a,
            s.argmax(),
            s.max(),
            s.mean(),
            *s.max(0),
            s.softmax(0),
            i.int().sum(),
            i.float().mean(0),
            s.amax(),
            s.any(),
        ]

    check(f, torch.arange(6).view(2, 3), torch.tensor([True, False]), torch.tensor(5.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_normalisation(dtype):
    def f(x, w, b):
        a = [
            x.softmax(-1),
            x.softmax(0),
            x.log_softmax(1),
            F.layer_norm(x, (8,), w, b),
            F.layer_norm(x, (4, 8)),
            F.normalize(x),
        ]
        a += [
            F.rms_norm(x, (8,), w),
            x.float().softmax(-1).to(x.dtype),
            F.softmin(x, 1),
            x.softmax(-1, dtype=torch.float32),
        ]
        a += [
            F.group_norm(x.view(3, 4, 8), 2, w[:4], b[:4]),
            F.batch_norm(x, b[:4], w[:4].abs(), w[:4], b[:4]),
            F.cosine_similarity(x, x + 1),
        ]
        return a

    check(f, torch.randn(3, 4, 8).to(dtype), torch.randn(8).to(dtype), torch.randn(8).to(dtype), exact=False, scale=16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_matrix_products(dtype):
    def f(x, y, b, v):
        a = [
            x @ y,
            x[0] @ y[0],
            F.linear(x, y[0].t(), b),
            F.linear(x[0], y[1].t()),
            x[0] @ v,
            v @ y[0],
            v @ v,
            torch.baddbmm(x @ y, x, y),
        ]
        a += [
            torch.addmm(b, x[0], y[0], beta=0.5, alpha=2),
            torch.addmm(b, x[0], y[0], beta=0),
            torch.outer(v, b),
            torch.einsum("bij,bjk->bik", x, y),
        ]
        return [
            *a,
            torch.matmul(x.unsqueeze(1), y),
            torch.addmv(b, y[0].t(), v),
        ]

    x, y = torch.randn(2, 4, 6).to(dtype), torch.randn(2, 6, 5).to(dtype)
    check(f, x, y, torch.randn(5).to(dtype), torch.randn(6).to(dtype), exact=False, scale=16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention(dtype):
    def f(q, k, v, m):
        a = [F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True)]
        a += [
            F.scaled_dot_product_attention(q, k, v, attn_mask=m),
            F.scaled_dot_product_attention(q, k, v, attn_mask=m[:, :1] > 0, scale=0.3),
        ]
        return [*a, F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)]

    q, k, v = torch.randn(3, 2, 4, 5, 8).to(dtype)
    m = torch.randn(2, 4, 5, 5).to(dtype)
    m[..., 0] = 1
    check(f, q, k, v, m, exact=False, scale=16)


def test_argmin_of_no_rows():
    check(lambda x: x.argmin(1), torch.empty(0, 3))


def test_lengths_that_change():
    def f(x):
        return (
            x.mean(0),
            x.var(0),
            x.softmax(0),
            x.sum(0) / x.shape[0],
            x @ x.t(),
            F.layer_norm(x, (4,)),
            x.argmax(0),
            x.cumsum(0),
        )

    check(f, torch.randn(5, 4), dynamic=True, more=[(torch.randn(9, 4),), (torch.randn(2, 4),)], exact=False, scale=16)


def test_operands_that_are_not_row_major():
    def f(x, y, i, b):
        a = [
            x.cumsum(0),
            x.argmax(0),
            x.sum(1),
            x.softmax(0),
            x.mean((0, 2)),
            x @ y,
            x.transpose(1, 2) @ x,
            x.index_select(1, i),
        ]
        a += [
            x[:, i],
            x.gather(1, i.view(1, 2, 1)),
            x.index_add(1, i, x[:, :2]),
            torch.cat([x, x], 1),
            x.amax(2),
            x.prod(0),
        ]
        a += [
            x.index_put((i,), x[0]),
            x.scatter(0, i.view(1, 2, 1), 2.0),
            torch.baddbmm(b, x, y),
            x.var(1),
            x.any(1),
            x.sort(1)[0],
        ]
        return [
            *a,
            F.layer_norm(x, (4,)),
            x.flip(1),
            x.roll(1, 2),
            x.to(torch.float64),
            x > 0,
            torch.where(x > 0, x, y.mT),
        ]

    x = torch.randn(4, 5, 3).permute(2, 1, 0)
    y = torch.randn(3, 5, 4).transpose(1, 2)
    check(f, x, y, torch.tensor([0, 2]), torch.randn(5), exact=False, scale=16, native=None)
    wide = torch.randn(6, 10, 4)[::2, ::2]
    check(f, wide, y, torch.tensor([0, 2]), torch.randn(5), exact=False, scale=16, native=None)


def test_running_sums_of_small_integers_wrap():
    def f(x, y):
        return x.cumsum(0, dtype=torch.int8), y.cumsum(1, dtype=torch.int32), y.t().cumsum(0, dtype=torch.int16)

    check(f, torch.randint(0, 100, (40,)), torch.rand(3, 5) * 2**28)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_variances_are_eagers_where_f32_would_overflow_or_cancel(dtype):
    def f(x):
        return [x.var(1), x.std(1), x.var(0), x.std(), *torch.var_mean(x, 1), *torch.std_mean(x, 1, correction=0)]

    most = torch.finfo(torch.bfloat16).max
    for row in ([most, -most, 0, 0], [most**0.5, -(most**0.5)] * 2, [2e19, -2e19, 3e19, 1], [4096, 4097, 4098, 4095]):
        check(f, torch.tensor([row, row[::-1], [1.0, 2, 3, 4]]).to(dtype), exact=False)


@pytest.mark.parametrize("value", [2.0, math.inf, -math.inf, math.nan])
def test_a_scalar_that_isnt_finite_shows_in_what_is_reduced(value):
    def f(x):
        softmaxes = x.softmax(0), x.log_softmax(0), (-x).softmax(0)
        return *softmaxes, x.logsumexp(0), x.std(), x.max(0), x.amin(), x.argmin(), x.cumsum(0), x.norm(), x.nansum()

    check(f, torch.tensor(value), native=None)
    check(f, torch.tensor([value]), native=None)
