"""Zeros with signs, NaN, what is equal and what is huge, by the kernels themselves: eager's bits."""

import math

import pytest
import torch
import torch.nn.functional as F
from compare import check

pytestmark = pytest.mark.usefixtures("backend")
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


ODD = "sin tan tanh asin atan sinh asinh atanh expm1 log1p erf sqrt neg trunc round floor ceil sign deg2rad".split()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_sign_of_zero(dtype):
    def f(x):
        return [getattr(torch, name)(x) for name in ODD]

    x = torch.tensor([-0.0, 0.0] * 16, dtype=dtype)
    got, expected = torch.compile(f, backend="graphex")(x), f(x)
    assert [g.signbit().tolist() for g in got] == [e.signbit().tolist() for e in expected]


ZEROS = {  # of two tensors of zeros
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "clamp(min tensor)": lambda a, b: a.clamp(min=b),
    "clamp(max tensor)": lambda a, b: a.clamp(max=b),
    "clamp(tensors)": lambda a, b: a.clamp(b, b),
    "clamp(0)": lambda a, b: a.clamp(min=0.0),
    "clamp(-0)": lambda a, b: b.clamp(-0.0, 0.0),
    "hardshrink": lambda a, b: F.hardshrink(a),
    "gelu": lambda a, b: F.gelu(a),
    "gelu(tanh)": lambda a, b: F.gelu(a, approximate="tanh"),
}


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_sign_of_zeros_that_equal_each_other(dtype):
    def f(a, b):
        return [made(a, b) for made in ZEROS.values()]

    a, b = (torch.tensor(row, dtype=dtype).repeat(64) for row in ([0.0, -0.0, 0.0, -0.0], [-0.0, 0.0, 0.0, -0.0]))
    for name, ours, expected in zip(ZEROS, torch.compile(f, backend="graphex")(a, b), f(a, b), strict=True):
        assert ours.signbit().equal(expected.signbit()), name


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_number_beside_nan_is_the_result(dtype):
    a, b = (torch.tensor(row, dtype=dtype) for row in ([math.nan, 1, math.nan, 2], [3, math.nan, math.nan, 5]))
    check(lambda a, b: (torch.fmax(a, b), torch.fmin(a, b), a.clamp(b, b), a.clamp(min=b), a.clamp(max=b)), a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("shape", "dim"), [((5, 67), 1), ((33, 5), 0), ((3, 4, 7), 1), ((2, 20000), 1)])
def test_an_extreme_with_its_index_is_the_element_there(shape, dim, dtype):
    def f(x):
        kept = x.max(dim, keepdim=True)
        return *x.max(dim), *x.min(dim), *kept, x.max(dim).values + 1

    zeros = torch.zeros(shape).copysign(torch.randn(shape)).to(dtype)
    holes = torch.where(torch.rand(shape) < 0.05, math.nan, zeros)
    check(f, zeros, more=[(torch.randn(shape).to(dtype),), (holes,)])
    for ours, expected in zip(torch.compile(f, backend="graphex")(zeros), f(zeros), strict=True):
        assert ours.signbit().equal(expected.signbit())


def test_an_extreme_of_a_transposed_tensor_with_its_index():
    check(lambda x: (*x.max(1), *x.min(0, keepdim=True)), torch.randn(6, 5, 4).permute(2, 0, 1))


@pytest.mark.parametrize("count", [17, 300, 4096, 10007])
def test_equal_elements_normalise_to_nothing(count):
    def f(x):
        return F.layer_norm(x, (count,)), F.group_norm(x[None], 1), F.layer_norm(x, (count,), x[0])

    for value in (12345.678, 3.4e38):
        for ours in torch.compile(f, backend="graphex")(torch.full((4, count), value)):
            assert not ours.any()
    check(f, torch.full((4, count), 12345.678))


def test_normalised_zeros_are_positive_as_in_eager():
    def f(x):
        return F.layer_norm(x, (8,)), F.layer_norm(x, (8,), x[0]), F.layer_norm(x, (8,), x[0], x[1])

    x = torch.zeros(4, 8).copysign(torch.randn(4, 8))
    for ours, expected in zip(torch.compile(f, backend="graphex")(x), f(x), strict=True):
        assert ours.signbit().equal(expected.signbit())
