"""Complex tensors inside a graph: native where rotary embeddings use them, islands elsewhere, eager at the borders."""

from __future__ import annotations

import pytest
import torch
from compare import check

pytestmark = pytest.mark.usefixtures("interpreter")


def rotary(x, positions):
    """As DeepSeek-V2 and Llama 4 write it: [batch, heads, length, size] turned by [length] angles."""
    inverse = 1.0 / 100.0 ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])
    angles = torch.outer(positions, inverse)
    factors = torch.polar(torch.ones_like(angles), angles) * 1.5
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * factors[None, None]).flatten(3).type_as(x)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_rotary_embedding_is_native(dtype):
    lengths = [(torch.randn(2, 3, n, 8).to(dtype), torch.arange(n) * 1.0) for n in (5, 9, 1)]
    check(rotary, *lengths[0], more=lengths[1:], exact=False)


def test_views_and_products():
    def f(x, y, real):
        a, b = torch.view_as_complex(x), torch.complex(y[..., 0], y[..., 1])
        product = a.transpose(0, 1) * b[0, 1:2].unsqueeze(0)
        low, high = (b * real).chunk(2, 1)
        made = [product, a * (0.5 - 2j), real[0, 0] * b[-1], low * high, a[:, ::2]]
        return [torch.view_as_real(one) * 2 for one in made]

    check(f, torch.randn(3, 4, 2), torch.randn(3, 4, 2), torch.randn(3, 4), exact=False)


def test_products_of_infinities_are_eagers():
    values = torch.tensor([1.0, 0.0, -0.0, torch.inf, -torch.inf, torch.nan])
    x = torch.cartesian_prod(values, values)

    def f(x):
        a = torch.view_as_complex(x)
        return torch.view_as_real(a[:, None] * a), torch.view_as_real(a * 2.0)

    check(f, x, exact=False)


def test_other_operators_are_islands():
    def f(x):
        a = torch.view_as_complex(x + 1)
        spectrum = torch.fft.fft(a)
        turned = torch.view_as_real(torch.exp(a).t() + spectrum[0, 0])
        return a.abs() * 2, turned + 1, spectrum.real.sum(), torch.view_as_real((a * spectrum).contiguous())

    report = check(f, torch.randn(3, 3, 2), native=None, exact=False, scale=8)
    assert report["native"] and report["islands"] and not report["eager_graphs"], str(report)


def test_lazy_conjugates_run_by_eager():
    check(lambda x: torch.view_as_real(torch.view_as_complex(x).conj() + 1), torch.randn(3, 2), native=False)


def test_complex_inputs_and_results_run_by_eager():
    for f in (lambda x: torch.view_as_complex(x) * 2, lambda x: x * 2):
        x = torch.randn(3, 2)
        args = x if f(x).is_complex() else torch.view_as_complex(x)
        assert check(f, args, native=False, exact=False)["eager_graphs"] == 1
