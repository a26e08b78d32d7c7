"""Sorting: values and indices are eager's, also where elements are equal."""

import math

import pytest
import torch
from compare import check

pytestmark = pytest.mark.usefixtures("interpreter")

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
NUMBERS = [*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def tied(dtype, *shape):
    """Few different values, and of floats some NaN and zeros of both signs."""
    x = torch.randint(0, 7, shape).to(dtype)
    if dtype.is_floating_point:
        x[torch.rand(shape) < 0.1] = math.nan
        x[torch.rand(shape) < 0.1] = -0.0
    return x


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.bool])
def test_sort(dtype):
    def f(x):
        orders = [x.sort(d, descending=down) for d in (0, 1, -1) for down in (False, True)]
        stable = [x.sort(dim=d, stable=True, descending=down) for d in (0, 2) for down in (False, True)]
        return *orders, *stable, x.argsort(1), x.msort(), x[0, 0].sort(descending=True), x[0, 0].argsort(stable=True)

    x = tied(dtype, 3, 40, 5) if dtype is not torch.bool else torch.rand(3, 40, 5) < 0.5
    check(f, x)
    check(f, x.permute(1, 2, 0))
    check(f, x[:, ::2, 1:3])


@pytest.mark.parametrize("dtype", NUMBERS)
def test_topk(dtype):
    def f(x):
        sides = [x.topk(k, d, largest) for k, d in ((0, 1), (1, 0), (2, 1), (5, 2)) for largest in (True, False)]
        return *sides, x.topk(40, 1), x.topk(9, 1, sorted=False), x[0, :, 0].topk(3), x[:, :1].topk(1, 1)

    x = tied(dtype, 3, 40, 5)
    check(f, x)
    check(f, x.permute(2, 1, 0)[:5].contiguous().permute(2, 1, 0))


@pytest.mark.parametrize("length", [127, 128, 129, 1000, 20000])
@pytest.mark.parametrize("largest", [False, True])
def test_equal_elements_in_long_rows(length, largest):
    for variety in (1, 3, 1000):
        x = torch.randint(0, variety, (3, length)).float()
        ks = [k for k in (1, 2, 50, length // 64, length // 2, length - 1) if k < length]
        check(lambda x, ks=ks: [x.topk(k, largest=largest) for k in ks], x)
        check(lambda x: [x.sort(descending=largest), x.sort(stable=True, descending=largest)], x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float32])
def test_lines_that_eager_sorts_by_radix(dtype):
    for length in (32767, 32768):
        x = torch.randint(0, 2, (length,)).to(dtype)
        check(lambda x: (x.sort(), x.sort(descending=True), x[None].sort()), x)


def test_what_has_no_order():
    check(lambda x: (x.sort(), x.topk(1), x.sort(stable=True, descending=True)), torch.tensor(3.5))
    check(lambda x: (x.sort(1), x.topk(0, 1), x.sort(0)), torch.randn(3, 0, 2))
    row = torch.randint(0, 3, (40,)).float()
    check(lambda x: (x.expand(3, 40).sort(0), x.expand(3, 40).sort(1), x[:1].expand(40).sort()), row)


def test_dynamic_lengths():
    def f(x, y):
        return x.topk(4, -1), x.sort(0), y.sort(), x.topk(x.shape[1] // 2, sorted=False)

    first, *more = [
        (torch.randint(0, 9, (n, 3 * n)).float(), torch.randint(0, 9, (1600 * n,))) for n in (5, 20, 21, 90)
    ]
    check(f, *first, dynamic=True, more=more)


def test_topk_of_bool_is_eagers_error():
    with pytest.raises(RuntimeError, match="bool"):
        torch.compile(lambda x: x.topk(1), backend="graphex")(torch.tensor([True, False]))
