"""Shapes with nothing in them, scalars, and errors: eager's results, or eager's kind of error, and never a crash."""

import gc
import weakref

import pytest
import torch
from check import BACKEND, check, compiled

import graphex

pytestmark = pytest.mark.usefixtures("backend")
ours = pytest.mark.skipif(BACKEND != "graphex", reason="asks for what graphex promises beyond torch.compile's contract")


def randn(*shape):
    return lambda: (torch.randn(*shape),)


def many(*shapes):
    return lambda: tuple(torch.randn(*shape) for shape in shapes)


# ---- empty and scalar shapes


def linear_relu(x, weight):
    return torch.relu(x @ weight.t())


EDGES = {
    "argmin of no rows": (lambda x: x.argmin(1), [randn(0, 3)]),
    "sum of no columns": (lambda x: x.sum(1), [randn(3, 0)]),
    "batch of none": (linear_relu, [many((0, 4), (5, 4))]),
    "batch of none, then some": (linear_relu, [many((0, 4), (5, 4)), many((3, 4), (5, 4)), many((0, 4), (5, 4))]),
    "softmax of no rows": (lambda x: x.softmax(-1), [randn(0, 3)]),
    "cat with an empty": (lambda x, y: torch.cat([x, y]), [many((0, 3), (2, 3))]),
    "cumsum of a scalar": (lambda x: x.cumsum(0), [lambda: (torch.tensor(5.0),)]),
    "scalar in, scalar out": (lambda x: x * 2 + 1, [lambda: (torch.randn(()),)]),
    "amax of one": (lambda x: x.amax(), [randn(1)]),
    "empty slice": (lambda x: x[2:2] + 1, [randn(4, 3)]),
}


@pytest.mark.parametrize("name", EDGES)
def test_empty_and_scalar_shapes(name):
    function, makes = EDGES[name]
    check(function, *makes, calls=3, length=4)


NO_ELEMENTS = {
    "argmin of no columns": (lambda x: x.argmin(1), (3, 0)),
    "amax": (lambda x: x.amax(), (0,)),
    "max": (lambda x: x.max(), (0,)),
    "min": (lambda x: x.min() + 1, (0, 3)),
    "max of a bool": (lambda x: (x > 0).max(), (0,)),
    "aminmax": (lambda x: torch.aminmax(x), (0,)),
}


@pytest.mark.parametrize("name", NO_ELEMENTS)
def test_reducing_nothing_is_eagers_error(name):
    function, shape = NO_ELEMENTS[name]
    same_error(function, lambda: (torch.randn(shape),))


@pytest.mark.parametrize("function", [lambda x: x - True, lambda x: True - x, lambda x: x - (x > 1)])
def test_subtracting_a_bool_is_eagers_error(function):
    same_error(function, lambda: (torch.arange(3),))


# ---- what a tensor carries beside its elements


def lazily_negated():
    return (torch.tensor([1 + 2j, 3 + 4j]).conj().imag,)


MARKED = {
    "a negated input": (lambda x: x + 0, [lambda: (torch.view_as_real(torch.randn(2, 2) + 1j)[..., 1].t(),)]),
    "a lazily negated input": (lambda x: x * 3, [lazily_negated]),
    "written": (lambda x: (x.add_(1), x * 2), [lazily_negated]),
    "made inside": (lambda x: torch._neg_view(x * 2) + 1, [randn(4, 3)]),
    "returned": (lambda x: torch._neg_view(x * 2), [randn(4, 3)]),
}


@pytest.mark.parametrize("name", MARKED)
def test_lazy_marks(name):
    function, makes = MARKED[name]
    check(function, *makes)


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor.*")
def test_a_quantized_value_inside():
    check(lambda x: torch.quantize_per_tensor(x.sin(), 0.1, 0, torch.qint8).dequantize() * 2, randn(4, 3))


LYING_FAKES = {  # the fake results that nothing takes have another dtype or shape than eager's
    "batch norm in bf16": (
        lambda x, w: torch.nn.functional.batch_norm(x, None, None, w, w, training=True),
        lambda: (torch.randn(4, 3, 5).bfloat16(), torch.randn(3).bfloat16()),
    ),
    "embedding bag": (
        lambda i, w: torch.nn.functional.embedding_bag(i, w, torch.tensor([0, 2]), mode="sum"),
        lambda: (torch.tensor([1, 2, 4, 5, 4]), torch.randn(10, 3).bfloat16()),
    ),
}


@pytest.mark.parametrize("name", LYING_FAKES)
def test_an_islands_results_that_nothing_takes(name):
    function, make = LYING_FAKES[name]
    check(function, make, operations=16)


HUGE = {  # no loop may set out to count through them
    "zeros": lambda: torch.zeros(2**40, 2**10).sum(),
    "a chain": lambda: (torch.full((2**40, 2**10), 2.0) + 1).mean(),
    "arange": lambda: torch.arange(2**50).sum(),
    "a broadcast": lambda: (torch.ones(2**24, 1) * torch.ones(2**24)).amax(),
}


@pytest.mark.parametrize("name", HUGE)
def test_values_beyond_any_memory_are_eagers_error(name):
    same_error(HUGE[name], tuple)


def test_ints_that_are_no_sizes():
    """2^62 as an argument is a number, not a size that could be rounded up."""
    candidate, x = compiled(lambda x, s: x * s), torch.arange(5)
    for number in (3, 2**40, 2**62, 2**63 - 1, -(2**63)):
        assert torch.equal(candidate(x, number), x * number)


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1.0, -1, 2, 3, -2.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_powers_of_special_values(dtype, exponent):
    x = torch.tensor([-0.0, 0.0, float("inf"), -float("inf"), float("nan"), -1.0, 4.0], dtype=dtype)
    check(lambda x: x.pow(exponent), lambda: (x.clone(),))


@pytest.mark.parametrize("shift", [((1,), (2,)), ((1, -2), (2, 3)), ((5,), ()), ((-7,), (0,))])
def test_roll_keeps_the_memory_format_as_eager_does(shift):
    check(lambda x: x.roll(*shift) + 0, lambda: (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),))


@ours
def test_writing_a_tensor_of_inference_mode_outside_of_it_is_eagers_error():
    with torch.inference_mode():
        x = torch.ones(3)
    candidate = compiled(lambda x: (x.mul_(2), x + 1)[1])
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        candidate(x)
    with torch.inference_mode():
        y = torch.ones(3)
        assert torch.equal(candidate(y), torch.full((3,), 3.0)) and torch.equal(y, torch.full((3,), 2.0))


# ---- errors


def same_error(function, make, allowed=()):
    """Eager raises, and the compiled function raises the same kind; Dynamo wraps what it finds while it traces."""
    with pytest.raises(Exception) as eager:  # noqa: PT011
        function(*make())
    with pytest.raises((eager.type, *allowed, torch._dynamo.exc.TorchRuntimeError)):
        compiled(function)(*make())


OUT_OF_RANGE = {
    "embedding": lambda index, table: torch.nn.functional.embedding(index, table),
    "index": lambda index, table: table[index],
    "index_select": lambda index, table: table.index_select(0, index),
    "gather": lambda index, table: table.gather(0, index[:, None].expand(-1, table.shape[1])),
    "index_put": lambda index, table: table.index_put((index,), torch.zeros(())),
    "index_add": lambda index, table: table.index_add(0, index, torch.ones(index.shape[0], table.shape[1])),
    "index_copy": lambda index, table: table.index_copy(0, index, torch.ones(index.shape[0], table.shape[1])),
}


@pytest.mark.parametrize("bad", [7, 1 << 40, -8])
@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_index_out_of_range(name, bad):
    """Good indices, then a bad one (eager's kind of error), then good ones again: one fault breaks no later call."""
    function = OUT_OF_RANGE[name]
    table = torch.randn(7, 5)
    good = torch.tensor([0, 6, 3])
    candidate = compiled(function)
    want = function(good, table)
    torch.testing.assert_close(candidate(good, table), want)
    with pytest.raises((IndexError, RuntimeError)) as eager:
        function(torch.tensor([0, bad, 3]), table)
    with pytest.raises(eager.type):
        candidate(torch.tensor([0, bad, 3]), table)
    torch.testing.assert_close(candidate(good, table), want)


@ours
def test_an_island_hands_out_a_view_that_repeats_elements():
    def rows(x):
        return (x.as_strided((2, 3), (0, 1)),)

    check(lambda x: rows(x)[0] + 1, randn(6, 6))
    x = torch.randn(6, 6)
    with torch.no_grad():
        (got,) = graphex.compile_fx(torch.fx.symbolic_trace(rows), [x])(x)
    assert torch.equal(got, rows(x)[0])
    assert got.stride() == (0, 1)


@pytest.mark.parametrize(
    "function", [lambda x: torch.full((2,), 300, dtype=torch.int8) + x, lambda x: x.masked_fill(x == 0, 300)]
)
def test_a_value_that_does_not_fit_is_eagers_error(function):
    x = torch.zeros(2, dtype=torch.int8)
    for run in (function, compiled(function)):
        with pytest.raises(RuntimeError, match="without overflow"):
            run(x)


def test_an_input_that_is_given_other_memory():
    def swap(x, y):
        x.data = y
        return x + 1

    x, y = torch.zeros(6), torch.ones(3)
    assert torch.equal(compiled(swap)(x, y), torch.full((3,), 2.0))
    assert x.shape == (3,) and x.data_ptr() == y.data_ptr()


@ours
def test_the_first_calls_inputs_live_no_longer_than_their_owner():
    x = torch.rand(100)
    gone = weakref.ref(x)
    run = compiled(lambda x: x * 2 + 1)
    with torch.no_grad():
        run(x)
    del x
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_clamping_keeps_the_sign_of_zero(dtype):
    def f(x):
        ends = [x.clamp(0, 6), x.clamp(min=0.0), x.clamp(max=0.0), x.clamp(min=-0.0), x.clamp(-0.0, 0.0)]
        return [*ends, torch.nn.functional.relu6(x), torch.nn.functional.hardtanh(x, 0.0, 1.0), x + 0.0, x + -0.0]

    x = torch.tensor([-0.0, 0.0, -1.0, 1.0] * 9, dtype=dtype)
    got, expected = compiled(f)(x), f(x)
    assert [g.signbit().tolist() for g in got] == [e.signbit().tolist() for e in expected]


# ---- copies that read along one dimension and write along another


TRANSPOSES = {
    "last two": lambda x: x.transpose(-1, -2).contiguous(),
    "first and last": lambda x: x.transpose(0, 2).contiguous(),
    "rotated": lambda x: x.permute(1, 2, 0).contiguous(),
    "of a slice": lambda x: x[1:, 2:, 3:].permute(2, 0, 1).contiguous(),
    "into channels_last": lambda x: x.unsqueeze(0).contiguous(memory_format=torch.channels_last),
}


MADE = {
    "zeros": lambda out: torch.zeros(out.shape, out=out),
    "full": lambda out: out.copy_(torch.full((9, 20), 3.0).t()),
    "arange": lambda out: out.copy_(torch.arange(180.0).view(9, 20).t()),
    "expanded": lambda out: out.copy_(torch.arange(9.0).expand(20, 9)),
    "one value": lambda out: out.copy_(torch.ones(()).expand(9, 20).t()),
}


@pytest.mark.parametrize("name", MADE)
def test_a_turned_result_of_what_is_made_on_the_way(name):
    check(MADE[name], lambda: (torch.randn(9, 20).t(),), exact=True)
    check(MADE[name], lambda: (torch.randn(20, 9),), exact=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.bool])
@pytest.mark.parametrize("name", TRANSPOSES)
def test_copies_that_transpose(name, dtype):
    def make(*shape):
        return lambda: (torch.randint(-9, 9, shape).to(dtype),)

    shapes = [make(3, 70, 65), make(5, 16, 130), make(2, 3, 4), make(2, 64, 128)]
    check(TRANSPOSES[name], *shapes, calls=4, exact=True)


def overwritten(x, n):
    y = x.clone()
    y[n - 9 : n - 5] = 1.0
    return y, x.select_scatter(x[0] * 2, 0, n - 4), x.select_scatter(x[0] * 2, 0, n)


@ours
def test_indices_that_count_from_the_end_by_a_number_that_varies():
    run, x = torch.compile(overwritten, backend="graphex", dynamic=True), torch.randn(8, 4)
    for n in (3, 2, 5, 4):
        torch.testing.assert_close(run(x, n), overwritten(x, n))


@ours
def test_numbers_that_vary_in_small_integers():
    run = torch.compile(lambda n: torch.full((3,), n, dtype=torch.int8), backend="graphex", dynamic=True)
    assert [run(n).tolist() for n in (3, 5, 127)] == [[n] * 3 for n in (3, 5, 127)]
    with pytest.raises(RuntimeError, match="int8"):
        run(1000)
