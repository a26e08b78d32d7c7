"""Operators that are native as compositions of ours: pooling, norms of any order, functions computed in f64."""

import itertools
import math

import pytest
import torch
from compare import check
from torch.nn import functional as F


def spread(*shape):
    return torch.randn(*shape) * 3


POOLS = [
    {"kernel_size": 3},
    {"kernel_size": (2, 3), "stride": 1, "padding": (1, 0)},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 5, "ceil_mode": True},
]


@pytest.mark.parametrize("options", POOLS)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_average_pool(options, layout):
    x = spread(2, 3, 11, 8).contiguous(memory_format=layout)
    for include, divisor in itertools.product((True, False), (None, 7)):
        keywords = {**options, "count_include_pad": include, "divisor_override": divisor}
        check(lambda x, k=keywords: F.avg_pool2d(x, **k), x, exact=False)


@pytest.mark.parametrize("options", [*POOLS, {"kernel_size": 2, "dilation": 3, "padding": 1}])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_max_pool_and_its_indices(options, layout):
    x = spread(2, 3, 11, 8).round().contiguous(memory_format=layout)  # with ties
    x[0, 0, 2, 3], x[1, 1], x[1, 2, 5:7, 4] = math.nan, -math.inf, math.nan
    check(lambda x: F.max_pool2d_with_indices(x, **options), x)


def test_pools_of_one_and_three_dimensions():
    check(lambda x: (F.max_pool1d(x, 3, 2), F.avg_pool1d(x, 4, 3)), spread(3, 20), exact=False)
    check(lambda x: (F.max_pool3d(x, 2), F.avg_pool3d(x, (3, 2, 1))), spread(2, 6, 5, 7), exact=False)


def test_a_pool_over_a_large_window_is_left_whole():
    check(lambda x: F.avg_pool2d(x, 9), spread(1, 2, 20, 20), exact=False, native=False)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_unpooling_keeps_the_layout(layout):
    x = spread(2, 3, 6, 8).contiguous(memory_format=layout)
    largest, where = F.max_pool2d(x, 2, return_indices=True)
    check(lambda x, i: F.max_unpool2d(x, i, 2), largest, where)
    largest, where = F.max_pool3d(spread(2, 3, 6, 8), (1, 2, 2), return_indices=True)
    check(lambda x, i: F.max_unpool3d(x, i, (1, 2, 2)), largest, where)
    check(lambda x, i: F.max_unpool2d(x, i, 2), largest[:0], where[:0])


@pytest.mark.parametrize("index", [-1, 4])
def test_unpooling_to_a_place_outside_of_the_plane_is_an_error(index):
    where = torch.tensor([[[index]], [[0]]])  # the flat place is inside the other plane
    with pytest.raises(IndexError):
        torch.compile(lambda x, i: F.max_unpool2d(x, i, 2), backend="graphex")(spread(2, 1, 1), where)


def test_take_by_an_index_of_any_shape():
    for index in (torch.tensor(-2), torch.tensor([[3, -6, 0], [5, 1, 1]]).t()):
        check(torch.take, spread(2, 3).t(), index)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, -1, -2.5, math.inf, -math.inf])
def test_norms_of_any_order(order):
    x = spread(4, 5)
    x[1, 2] = 0
    for dim, keepdim in ((None, False), (1, True), ((0, 1), False)):
        check(lambda x, d=dim, k=keepdim: torch.linalg.vector_norm(x, order, d, k), x, exact=False, scale=4)
    check(lambda x: torch.linalg.vector_norm(x, order), torch.tensor(-2.5), exact=False)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 1e20, -1e20, 3e38, math.inf, -math.inf, math.nan, 0.5, 1.0000001]


@pytest.mark.parametrize("name", ["asinh", "acosh", "atanh", "angle"])
def test_functions_of_one_number(name):
    def function(x):
        return getattr(torch, name)(x)

    x = torch.cat([torch.tensor(SPECIAL), spread(100), 1 + torch.rand(100) * 1e-3])
    check(function, x, exact=False)
    check(lambda x: torch.signbit(function(x)), torch.tensor([0.0, -0.0]), native=None)
    check(function, torch.tensor([1, 2, 3]), exact=False)
    check(function, x.to(torch.bfloat16), exact=False)


def test_hypot():
    pairs = torch.tensor(list(itertools.product(SPECIAL, SPECIAL)))
    check(lambda x, y: torch.hypot(x, y), pairs[:, 0], pairs[:, 1], exact=False)
    check(lambda x, y: torch.hypot(x, y), spread(5, 1), spread(4), exact=False)


@pytest.mark.parametrize("decimals", [-2, -1, 1, 3])
def test_rounding_to_decimals(decimals):
    check(lambda x: torch.round(x, decimals=decimals), spread(50) * 100)


def test_copies_of_views():
    def function(x):
        parts = torch.unbind_copy(x, 1) + torch.split_copy(x, 2)
        return torch.view_copy(x, (20,)), torch.permute_copy(x, (1, 0)), torch.narrow_copy(x, 0, 1, 2), *parts

    check(function, spread(4, 5))


def test_sums_of_matrix_products_and_scatters():
    check(
        lambda x, a, b: torch.addbmm(x, a, b, beta=0.5, alpha=2),
        spread(5),
        spread(3, 4, 6),
        spread(3, 6, 5),
        exact=False,
        scale=8,
    )
    index = torch.tensor([[0, 1, 1], [2, 2, 0]])
    check(lambda x, s: x.scatter_reduce(0, index, s, "sum"), spread(3, 3), spread(2, 3), exact=False)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_interpolation(mode, align):
    check(
        lambda x: F.interpolate(x, size=(9, 7), mode=mode, align_corners=align),
        spread(2, 3, 5, 4),
        exact=False,
        scale=8,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_nearest_element_of_a_grid_is_eagers(dtype):
    x, grid = spread(1, 2, 9, 9).to(dtype), (torch.rand(1, 30, 30, 2) * 2 - 1).to(dtype)
    check(lambda x, g: F.grid_sample(x, g, "nearest", align_corners=True), x, grid, native=False)


def test_evenly_spaced_integers_are_eagers():
    check(lambda x: x + torch.linspace(4.3, 50, 50, dtype=torch.int64), torch.zeros(50), native=False)


def turned(x):
    """The same tensor, its last dimension the slowest in memory."""
    return x.permute(*range(x.dim())[::-1]).contiguous().permute(*range(x.dim())[::-1])


KEEPING_THE_FORMAT = {
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)),
    "avg_pool3d of a block": lambda x: F.avg_pool3d(x, 2),
    "view_copy": lambda x: torch.view_copy(x, (8, -1)),
    "nll_loss": lambda x: F.nll_loss(x, x[:, 0].long() % 4, reduction="none"),
}


@pytest.mark.parametrize("name", KEEPING_THE_FORMAT)
@pytest.mark.parametrize("layout", [turned, lambda x: x.contiguous(memory_format=torch.channels_last)])
def test_layouts_of_decomposed_results(name, layout):
    check(KEEPING_THE_FORMAT[name], layout(spread(2, 4, 6, 6).abs()), exact=False)


def test_average_pool_of_volumes_is_row_major():
    x = spread(2, 3, 4, 6, 6).contiguous(memory_format=torch.channels_last_3d)
    check(lambda x: F.avg_pool3d(x, 2), x, exact=False)


def test_a_grid_with_places_that_are_not_numbers_is_eagers():
    grid = torch.tensor([[[[float("nan"), 0.0], [float("inf"), 0.0], [0.25, -2.0]]]])
    check(lambda x, g: F.grid_sample(x, g, align_corners=False), torch.ones(1, 1, 4, 4), grid, native=False)


def test_causal_attention_with_a_mask_besides():
    q = spread(1, 2, 5, 8)
    check(lambda q, m: F.scaled_dot_product_attention(q, q, q, m, is_causal=True), q, torch.zeros(5, 5), native=False)


@pytest.mark.parametrize("dim", [0, 1])
def test_filling_counts_from_the_end(dim):
    check(lambda x, i: x.index_fill(dim, i, 9.0), spread(3, 4), torch.tensor([-1, 0]))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_scalars_that_the_dtype_cannot_hold_wrap_as_eagers(dtype):
    x = torch.tensor([44, 1], dtype=dtype)
    check(lambda x: (x + 300, x == 300, x * -1, torch.full_like(x, -1)), x, native=False)
