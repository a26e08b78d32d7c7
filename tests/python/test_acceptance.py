"""Programs that have caught other graph compilers: aliasing, in-place order, empty shapes, errors, random numbers.

Each runs by eager PyTorch and compiled, on the first call and on later ones with other data (see check.py).
"""

import ctypes
import threading
import time

import pytest
import torch
from check import check, compiled

pytestmark = pytest.mark.usefixtures("backend")


def randn(*shape, **keywords):
    return lambda: (torch.randn(*shape, **keywords),)


def many(*shapes):
    return lambda: tuple(torch.randn(*shape) for shape in shapes)


# ---- writes into inputs, and what reads them around the write


def shift_down(x):
    x[1:] = x[:-1].clone()


def shift_up_and_return(x):
    x[:-1] = x[1:].clone()
    return x.sum(1)


def slice_scatter_then_zero(x, src):
    y = torch.slice_scatter(x, src[1:3], 0, 1, 3)
    x.zero_()
    return y


def diagonal_scatter_then_fill(x, src):
    y = torch.diagonal_scatter(x, src)
    x.fill_(7)
    return y


def copy_all_then_add(dst, src):
    dst[0:, :] = src[0:, :]
    src.add_(1)


def read_between_writes(x):
    x.add_(1)
    y = x * 2
    x.mul_(3)
    return y, x[0]


def swap_halves(x):
    half = x.shape[0] // 2
    low = x[:half].clone()
    x[:half] = x[half : 2 * half]
    x[half : 2 * half] = low
    return x


def transpose_into_self(x):
    x.copy_(x.t().clone())


def write_through_two_views(x):
    x[:, 0] += 1
    x[0, :] += x[:, 0]
    return x.view(-1)[::2] + 0


def index_put_accumulate(x):
    index = torch.tensor([0, 2, 0, 1])
    x.index_put_((index,), torch.ones(4, x.shape[1]), accumulate=True)
    return x


WRITES = {
    "shift down": (shift_down, [randn(5, 7), randn(5, 7)]),
    "shift down, large": (shift_down, [randn(300, 130)]),
    "shift up": (shift_up_and_return, [randn(6, 5)]),
    "slice_scatter, zero_": (slice_scatter_then_zero, [many((5, 4), (5, 4))]),
    "slice_scatter, zero_, large": (slice_scatter_then_zero, [many((5, 4096), (5, 4096))]),
    "diagonal_scatter, fill_": (diagonal_scatter_then_fill, [many((5, 5), (5,))]),
    "diagonal_scatter, fill_, wide": (diagonal_scatter_then_fill, [many((33, 70), (33,))]),
    "copy all, add_": (copy_all_then_add, [many((4, 6), (4, 6))]),
    "copy all, add_, large": (copy_all_then_add, [many((64, 513), (64, 513))]),
    "read between writes": (read_between_writes, [randn(4, 9)]),
    "swap halves": (swap_halves, [randn(8, 5)]),
    "transpose into self": (transpose_into_self, [randn(37, 37)]),
    "two views": (write_through_two_views, [randn(6, 6)]),
    "index_put accumulate": (index_put_accumulate, [randn(3, 5)]),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_into_inputs(name):
    function, makes = WRITES[name]
    check(function, *makes)


# A compiler may drop an operation that changes nothing, but not the copy that it made.
NO_OPS = {
    "x / 1.0": lambda x: x / 1.0,
    "x * 1": lambda x: x * 1,
    "x + 0": lambda x: x + 0,
    "x - 0": lambda x: x - 0,
    "x ** 1": lambda x: x**1,
    "clone": lambda x: x.clone(),
    "to(copy=True)": lambda x: x.to(x.dtype, copy=True),
    "cat of one": lambda x: torch.cat([x]),
    "slice_scatter of all": lambda x: torch.slice_scatter(x, x),
    "where of twins": lambda x: torch.where(x > 0, x, x),
}


@pytest.mark.parametrize("name", NO_OPS)
def test_no_op_result_is_a_copy(name):
    function = NO_OPS[name]
    check(function, randn(4, 5), exact=True)
    candidate = compiled(function)
    for call in range(3):
        x = torch.full((4, 5), float(call))
        candidate(x).add_(1)
        assert torch.equal(x, torch.full((4, 5), float(call)))


@pytest.mark.parametrize("name", NO_OPS)
def test_no_op_then_add_in_place_inside(name):
    function = NO_OPS[name]

    def program(x):
        y = function(x)
        y.add_(1)
        return y

    check(program, randn(4, 5), exact=True)


# ---- views, splits and scatters


def split_and_reorder(x):
    a, b, c = x.split([3, 2, 3], dim=1)
    return torch.cat([c, a, b], dim=1)


def index_add_broadcast(x, value):
    return x.index_add(0, torch.tensor([0, 2, 2]), value.expand(3, x.shape[1]))


def index_add_alpha_then_half(x, value):
    y = x.index_add(0, torch.tensor([1, 0, 1]), value, alpha=3)
    return y, y / 2


def flat_store(buf, index, values):
    buf.view(-1)[index] = values
    return buf


def flat_store_arguments(rows):
    return lambda: (torch.randn(rows, rows), torch.randperm(rows * rows)[:16], torch.randn(16))


def test_view_of_an_input_is_kept():
    check(lambda x: x[0:-1], randn(5, 4), exact=True)
    check(lambda x: (x[0:-1], x[1:], x.t()), randn(5, 4), exact=True)


def test_split_and_cat_in_another_order():
    check(split_and_reorder, randn(1, 8), exact=True)
    check(split_and_reorder, randn(5, 8), exact=True)


def test_index_add_with_a_broadcast_value():
    check(index_add_broadcast, many((3, 5), (1, 5)), length=3)
    check(index_add_broadcast, many((3, 5), (1, 1)), length=3)


def test_index_add_with_alpha_then_divided():
    check(index_add_alpha_then_half, many((3, 5), (3, 5)), length=3)


def test_flat_store():
    check(flat_store, flat_store_arguments(8), exact=True)


@pytest.mark.perf
def test_flat_store_copies_nothing():
    """The store's time may not follow the buffer's size: a copy of 64 MiB would take a thousand times longer."""
    candidate = compiled(flat_store)
    best = {}
    for rows in (256, 4096):
        torch._dynamo.reset()
        arguments = flat_store_arguments(rows)()
        candidate(*arguments)
        best[rows] = min(seconds(lambda given=arguments: candidate(*given)) for _ in range(200))
    assert best[4096] < 2 * best[256]


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def test_full_square_of_three_lengths_is_one_compile():
    lowest = torch.finfo(torch.float32).min

    def program(x):
        return torch.full((x.shape[0], x.shape[0]), lowest)

    torch._dynamo.utils.counters.clear()
    check(program, randn(3), randn(4), randn(5), dynamic=True, exact=True)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


# ---- results of earlier calls, random numbers, memory, floating-point mode, threads


def test_an_earlier_result_stays():
    candidate = compiled(lambda x: (x @ x.t()).relu() + 1)
    kept = []
    for call in range(8):
        torch.manual_seed(call)
        x = torch.randn(40, 24)
        kept.append((candidate(x), torch.relu(x @ x.t()) + 1))
    for got, want in kept:
        torch.testing.assert_close(got, want)


def test_dropout_differs_between_calls_and_follows_the_seed():
    candidate = compiled(lambda x: torch.nn.functional.dropout(x, 0.5, training=True))
    x = torch.ones(64, 64)
    torch.manual_seed(3)
    first, second = candidate(x), candidate(x)
    torch.manual_seed(3)
    again, torch_state = candidate(x), torch.get_rng_state()
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert set(first.unique().tolist()) == {0.0, 2.0}
    assert 0.45 < float((first == 0).float().mean()) < 0.55
    torch.manual_seed(3)
    assert not torch.equal(torch_state, torch.get_rng_state()), "the call took nothing from the generator"


def resident_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


@pytest.mark.parametrize("calls", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_calls_leave_memory_flat(calls):
    candidate = compiled(lambda x: x + 1)
    x = torch.randn(1000)
    for _ in range(2000):
        candidate(x)
    before = resident_kib()
    for _ in range(calls):
        candidate(x)
    # A leak of one small object a call would be 100 bytes x calls; 4 KiB results would be far more.
    assert resident_kib() - before < max(512, calls * 64 // 1024)


def floating_point_environment():
    """The x86-64 fenv_t: x87 control word at 0, MXCSR (rounding, flush modes, masks) at 28. Sticky flags masked out."""
    libm = ctypes.CDLL("libm.so.6")
    state = (ctypes.c_uint8 * 32)()
    assert libm.fegetenv(state) == 0
    raw = bytes(state)
    return raw[0:2], int.from_bytes(raw[28:32], "little") & ~0x3F


def test_denormals_and_the_floating_point_mode_are_kept():
    before = floating_point_environment()
    candidate = compiled(lambda x: x * 2.0**-124)
    for value in (0.1875, 0.375, 0.09375):
        x = torch.full((37,), value)
        got = candidate(x)
        assert torch.equal(got, torch.full((37,), value * 2.0**-124)) and bool((got != 0).all())
        assert floating_point_environment() == before
    assert float(torch.tensor(1e-40) * 1.0) != 0.0


def test_the_callers_flush_mode_is_obeyed_and_left():
    candidate = compiled(lambda x: x * 2.0**-124)
    x = torch.full((20_000,), 0.1875)
    candidate(x)
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush denormals")
    try:
        inside = floating_point_environment()
        want, got = x[:8] * 2.0**-124, candidate(x)[:8]
        assert torch.equal(got, want) and floating_point_environment() == inside
    finally:
        torch.set_flush_denormal(False)
    assert bool((candidate(x) != 0).all())


def test_two_threads_with_changing_shapes():
    candidate = compiled(lambda x, y: (x @ y).relu().sum(1) + x[:, 0], dynamic=True)
    torch.manual_seed(0)
    jobs = [(torch.randn(rows, 16), torch.randn(16, 24)) for rows in range(2, 40)]
    wants = [(x @ y).relu().sum(1) + x[:, 0] for x, y in jobs]
    candidate(*jobs[0])
    faults = []

    def work(order):
        try:
            for index in order:
                torch.testing.assert_close(candidate(*jobs[index]), wants[index])
        except BaseException as fault:  # noqa: BLE001
            faults.append(fault)

    orders = [list(range(len(jobs))) * 5, list(reversed(range(len(jobs)))) * 5]
    threads = [threading.Thread(target=work, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[0]
