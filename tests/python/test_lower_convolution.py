"""Convolutions have eager's values, and its layouts."""

import itertools

import pytest
import torch
from compare import check
from torch.nn import functional as F

LAYOUTS = (torch.contiguous_format, torch.channels_last)
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
CASES = [
    ((2, 3, 32, 32), (8, 3, 16, 16), {"stride": 16}),
    ((2, 6, 9, 11), (8, 6, 3, 3), {"padding": 1}),
    ((1, 6, 12, 11), (8, 6, 3, 2), {"stride": (2, 1), "padding": (0, 1), "dilation": (1, 3)}),
    ((2, 6, 9, 11), (8, 6, 1, 1), {}),
    ((2, 6, 9, 11), (8, 3, 3, 3), {"groups": 2, "padding": "same"}),
    ((2, 6, 9, 11), (6, 1, 3, 3), {"groups": 6, "stride": 2}),
    ((2, 3, 9, 11), (12, 1, 7, 7), {"groups": 3, "padding": 3}),
    ((1, 1, 9, 11), (4, 1, 3, 3), {"padding": 1}),
]


@pytest.mark.parametrize(("shape", "kernel", "keywords"), CASES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_two_dimensions(shape, kernel, keywords, dtype):
    bias = torch.randn(kernel[0], dtype=dtype)
    for of_x, of_weight in itertools.product(LAYOUTS, LAYOUTS):
        x = torch.randn(shape).to(dtype).contiguous(memory_format=of_x)
        weight = (torch.randn(kernel) / 4).to(dtype).contiguous(memory_format=of_weight)
        check(lambda x, w, b: (F.conv2d(x, w, b, **keywords), F.conv2d(x, w, **keywords)), x, weight, bias,
              exact=False, scale=16)  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_and_three_dimensions(dtype):
    x, w, b = torch.randn(2, 8, 40).to(dtype), torch.randn(6, 8, 3).to(dtype), torch.randn(6).to(dtype)
    check(lambda x, w, b: (F.conv1d(x, w, b, padding=1), F.conv1d(x, w, stride=2)), x, w, b, exact=False, scale=16)
    check(lambda x, w, b: F.conv1d(x, w, b, padding=1), x.mT.contiguous().mT, w, b, exact=False, scale=16)
    check(lambda x, w: F.conv1d(x, w, groups=8, padding=3), x, torch.randn(8, 1, 4).to(dtype), exact=False, scale=16)
    check(
        lambda x, w: F.conv1d(x[0], w[:, :2], groups=4)[:, 1:], x, torch.randn(8, 4, 4).to(dtype), exact=False, scale=16
    )
    x, w = torch.randn(2, 3, 6, 8, 8).to(dtype), torch.randn(5, 3, 2, 4, 4).to(dtype)
    check(lambda x, w, b: F.conv3d(x, w, b[:5], (2, 4, 4)), x, w, b, exact=False, scale=16)
    last = x.contiguous(memory_format=torch.channels_last_3d)
    check(lambda x, w: F.conv3d(x, w, padding=1), last, w, exact=False, scale=16)


def test_views_as_operands():
    x, w = torch.randn(3, 9, 11, 6).permute(0, 3, 2, 1)[1:, :, 1:], torch.randn(3, 3, 6, 8).permute(3, 2, 0, 1)
    check(lambda x, w: (F.conv2d(x, w), F.conv2d(x.mT, w[::2]), F.conv2d(x[:, ::2], w[:, 1:4])), x, w,
          exact=False, scale=16)  # fmt: skip


def test_dynamic_sizes():
    def f(x, w, y, d):
        return (
            F.conv1d(x, w, padding=1),
            F.conv2d(y, w[:, :3, None], stride=(1, 2)),
            F.conv1d(x, d, groups=8, padding=3),
        )

    w, d = (torch.nn.Parameter(torch.randn(shape), requires_grad=False) for shape in ((6, 8, 3), (8, 1, 4)))
    first, *more = [(torch.randn(2, 8, n), w, torch.randn(n, 3, 4, 2 * n + 1), d) for n in (9, 10, 33)]
    check(f, *first, dynamic=True, more=more, exact=False, scale=16)


def test_what_is_left_to_eager():
    x, w = torch.randn(1, 4, 8, 8), torch.randn(4, 4, 3, 3)
    check(lambda x, w: F.conv_transpose2d(x, w), x, w, exact=False, native=False)
    check(lambda x, w: F.conv2d(x, w), x.double(), w.double(), exact=False, native=False)
    check(lambda x, w: F.conv2d(x[:0], w), x, w, exact=False, native=False)
    wide = torch.randn(1, 16, 60, 60)
    check(lambda x, w: F.conv2d(x, w), wide, torch.randn(4, 16, 3, 3), exact=False, native=False, scale=16)
    check(lambda x, w: F.conv2d(x, w), wide.bfloat16(), torch.randn(4, 16, 3, 3).bfloat16(), exact=False, scale=16)
    check(lambda x, w: F.conv2d(x, w, groups=16), wide, torch.randn(16, 1, 5, 5), exact=False, native=False, scale=16)
    check(lambda x, w: F.conv2d(x, w, groups=16), wide, torch.randn(16, 1, 3, 3), exact=False, scale=16)
