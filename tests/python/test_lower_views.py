"""Views, aliasing, writes to inputs, movement: values, strides and sharing as in eager."""

from __future__ import annotations

import pytest
import torch
from compare import backend, check

pytestmark = pytest.mark.usefixtures("interpreter")


def grid(*shape: int) -> torch.Tensor:
    n = 1
    for s in shape:
        n *= s
    return torch.arange(float(n)).view(*shape)


def test_every_kind_of_view():
    def f(x):
        y = x + 1
        a = [
            y[1:],
            y[:, 1:4:2],
            y[-1],
            y.select(1, 2),
            y.t(),
            y.transpose(0, 1)[1:],
            y.unsqueeze(1),
            y.view(-1),
            y.view(2, 2, 6),
        ]
        a += [
            y.permute(1, 0),
            y.expand(3, 4, 6),
            y.diagonal(1),
            y.unfold(1, 3, 2),
            y.squeeze(),
            y.movedim(0, 1),
            y[1:, 2:].t(),
        ]
        a += [
            *y.split(4, 1),
            *y.chunk(2),
            *y.unbind(1),
            y.reshape(3, 8),
            y.t().reshape(3, 8),
            y.as_strided((2, 3), (6, 1), 3),
        ]
        return [v * 2 for v in a] + [y.narrow(1, 1, 3).clone()]

    check(f, grid(4, 6))


def test_views_of_inputs_alias_them():
    def f(x):
        return x[1:], x.t(), x.view(-1), x[0, 1], x

    x = grid(3, 4)
    outputs = torch.compile(f, backend=backend())(x)
    assert all(out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for out in outputs)
    check(f, grid(3, 4))
    check(f, grid(4, 4)[1:])  # an input with a storage offset


def test_outputs_that_alias_each_other():
    def f(x):
        y = x * 2
        return y, y[1:], y.t()

    a, b, c = torch.compile(f, backend=backend())(grid(3, 3))
    a.zero_()
    assert b.eq(0).all() and c.eq(0).all()
    second = torch.compile(lambda p, q: (p.mul_(2), q + 1), backend=backend())
    a, b, _ = torch.compile(f, backend=backend())(grid(3, 3))
    ea, eb, _ = f(grid(3, 3))
    got, expected = second(a, b)[1], (ea.mul_(2), eb + 1)[1]
    assert a.equal(ea) and b.equal(eb) and got.equal(expected)


def test_inputs_written_in_place():
    def shift(x):
        x[1:] = x[:-1].clone()

    def scatter_then_zero(x, src):
        y = torch.slice_scatter(x, src[1:3], 0, 1, 3)
        x.zero_()
        return y

    def diagonal_then_fill(x, src):
        y = torch.diagonal_scatter(x, src)
        x.fill_(2)
        return y

    def copy_then_add(dst, src):
        dst[0:, :] = src[0:, :]
        src.add_(1)

    def through_views(x):
        x.view(-1)[2:5].mul_(3)
        x.t()[1].add_(x[0, 0])
        return x[1]

    def put(buf, idx, vals):
        buf.view(-1)[idx] = vals
        return buf

    def swap(x, y):
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)

    check(swap, grid(3), -grid(3))
    check(shift, grid(4, 3), more=[(grid(4, 3) * 2,)])
    check(scatter_then_zero, grid(4, 3), -grid(4, 3), more=[(grid(4, 3) * 2, grid(4, 3))])
    check(diagonal_then_fill, grid(3, 3), torch.ones(3))
    check(copy_then_add, grid(3, 3), -grid(3, 3))
    check(through_views, grid(3, 3))
    check(put, grid(4, 4), torch.tensor([1, 7, -2]), torch.tensor([9.0, 8.0, 7.0]))
    check(lambda x: x.resize_(2, 2) if False else x.copy_(torch.arange(4)), grid(4))


def test_written_column_major_and_strided_inputs():
    check(lambda x: x.add_(1), grid(3, 4).t())
    check(lambda x: x[:, 1].mul_(2), grid(3, 4).t())
    check(lambda x: x.add_(x), grid(6, 4)[::2])
    check(lambda x, y: (x.add_(y), y.mul_(2)), grid(3, 4)[:, ::2], grid(3, 2))


def test_kept_values():
    def f(x):
        y = x[0:-1]
        return y + 1, y

    check(f, grid(5, 2))
    check(lambda x: torch.cat(x.split([3, 2, 3], 1)[::-1], 1), grid(1, 8))


def test_movement():
    def f(x, y):
        a = [
            torch.cat([x, y], 1),
            torch.cat([x, y.double()], 0),
            torch.stack([x, y]),
            torch.stack([x, y], -1),
            x.repeat(2, 3),
        ]
        a += [
            x.repeat(2, 1, 1),
            torch.nn.functional.pad(x, (1, 2)),
            torch.nn.functional.pad(x, (-1, 1, 2, 0), value=3.0),
        ]
        a += [
            x.flip(0),
            x.flip(0, 1),
            x.roll(1, 0),
            x.roll(5),
            x.roll((1, -1), (0, 1)),
            x.tile(2, 1),
            x.repeat_interleave(2, 1),
        ]
        a += [
            torch.cat([torch.empty(0), x]),
            x.t().contiguous(),
            x.t().clone(),
            x.new_zeros(2),
            torch.zeros_like(x.t()),
            x.tril(),
        ]
        return [
            *a,
            x.triu(1),
            torch.select_scatter(x, y[:, 0], 1, -1),
            torch.slice_scatter(x, y[:, :2], 1, -2),
            torch.rot90(x),
        ]

    check(f, grid(3, 4), -grid(3, 4))


def test_creation():
    def f(x):
        n = x.shape[0]
        a = [
            torch.arange(5),
            torch.arange(2, 9, 3),
            torch.arange(0.5, 3, 0.25),
            torch.arange(5.0),
            torch.full((2, 2), 7),
            x.new_full((2,), 3),
        ]
        a += [
            torch.zeros(3, dtype=torch.bool),
            torch.ones(2, 3, dtype=torch.bfloat16),
            torch.full((n, n), torch.finfo(x.dtype).min),
        ]
        return [
            *a,
            torch.eye(3),
            torch.linspace(0, 1, 5),
            torch.tensor([1, 2, 3]) + n,
            torch.full((2,), 1 / 3),
            torch.arange(n - 1, -1, -1),
        ]

    check(f, torch.rand(3))


def test_shapes_that_change():
    def f(x):
        n = x.shape[0]
        mask = torch.full((n, n), torch.finfo(torch.float32).min).triu(1)
        return (
            x[1:] + x[:-1],
            mask,
            x.repeat(2, 1),
            x.view(-1)[: n // 2],
            torch.cat([x, x]),
            n * 2 + 1,
            x.sum() / n,
            x.flatten(),
        )

    more = [(grid(n, 3),) for n in (4, 5, 9)]
    check(f, grid(3, 3), dynamic=True, more=more, exact=False)


def test_an_empty_batch():
    check(lambda x: (x + 1, x.sum(0), x @ x.new_ones(3, 2), torch.cat([x, x])), torch.empty(0, 3))


def test_floats_made_of_sizes():
    def f(x):
        n = x.shape[0]
        return x * n**-0.5, x + n / 3, torch.full((2,), n / 7), x.pow(2) / (n * 1.5), torch.special.digamma(x * (n / 2))

    check(f, torch.ones(3), dynamic=True, more=[(torch.ones(5),), (torch.ones(9),)], native=None)


def test_padding_by_sizes_known_at_run_time():
    def f(x):
        to_eight = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[1] % 8))
        last_four = torch.nn.functional.pad(x, (0, 0, 4 - x.shape[1], 0), value=2.0)  # pads or crops
        return to_eight + 1, last_four * 2

    lengths = [(torch.randn(2, n, 3),) for n in (5, 11, 16, 3, 2)]
    check(f, *lengths[0], more=lengths[1:], dynamic=True)


def test_sizes_that_may_be_zero_keep_layouts_simple():
    """torch writes Max(1, n) into strides where a size n isn't known to be positive."""

    def f(x):
        frames = x.unfold(1, 10, 5)[:, :-1].contiguous()
        y = frames.transpose(1, 2) * 2
        return frames.sum(1), y, y[:, 3] + 1, y[:, 2:, 1:], frames.view(x.shape[0], -1) - 1

    lengths = [(torch.randn(2, n),) for n in (40, 51, 20, 10)]
    check(f, *lengths[0], more=lengths[1:], dynamic=True, exact=False, scale=4)


def test_a_maximum_that_is_a_size_stays():
    def f(x):
        y = x.new_ones(3, max(1, x.shape[0] - 4), 2) * 3
        return y, y[:, 0] * 2, y.transpose(0, 1).contiguous()

    check(f, torch.randn(6, 2), more=[(torch.randn(n, 2),) for n in (9, 5, 3)], dynamic=True, native=None)


def test_a_new_tensor_filled_part_by_part():
    """As latent attention builds its queries: the parts are copied into slices, whose layouts have gaps."""

    def f(x, y):
        z = x.new_empty(x.shape[0], 3, x.shape[1] + y.shape[1])
        z[:, :, : x.shape[1]] = x[:, None]
        z[:, :, x.shape[1] :] = y.transpose(0, 1).reshape(y.shape)[:, None]
        return z, z.transpose(1, 2) * 2

    check(f, torch.randn(4, 5), torch.randn(4, 2), more=[(torch.randn(5, 5), torch.randn(5, 2))])
