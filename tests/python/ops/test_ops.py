"""Every operator of PyTorch's own op_db, in six dtypes, equals eager: see doors.py for what is compared.

One sample for each operator and dtype runs always, through the direct door, and a tenth of them through torch.compile;
in-place variants, and tensors given as out=, with one sample in one dtype. Every sample runs with ./dev test --slow.
"""

import itertools

import pytest
import torch
from ops.doors import NoReferenceError, direct_door, dynamo_door, run_sample, run_together
from ops.exceptions import listed
from ops.samples import (
    OUTS,
    channels_last,
    draw,
    dtypes_of,
    grouped,
    laid_out,
    largest_samples,
    layouts,
    layouts_after,
    one_sample,
    operators,
    samples_of,
    turned,
    with_out,
)

COMPILED = [name for name in operators() if draw(name, "torch.compile") % 10 == 0 and dtypes_of(name)]
# What can't be captured as one graph goes through torch.compile, which may break it.
COMPILED += sorted({name for name, _ in listed() if name in operators() and name not in COMPILED})
CASES = [(name, dtype) for name in operators() for dtype in dtypes_of(name)]

# FakeTensor, and so graphex, gives results of operands that aren't row-major other strides than eager.
FAKE_STRIDES = {
    "copysign",
    "div.floor_rounding",
    "floor_divide",
    "native_dropout_backward",
    "normal",
    "resize_as_",
}
IN_PLACE = [name for name, op in operators().items() if op.inplace_variant and dtypes_of(name)]
# Samples in one graph.
TOGETHER = 16
WITH_OUT = [name for name, op in operators().items() if op.supports_out and dtypes_of(name)]


def exception_of(sample, make_door, name):
    """Why eager isn't the reference for this sample; "" if it is, and graphex equals it."""
    try:
        return run_sample(sample, make_door, name).exception
    except NoReferenceError as why:
        return str(why)


def check(sample, make_door, name, dtype, index):
    try:
        exception = exception_of(sample, make_door, name)
    except Exception as fault:
        fault.add_note(f"sample {index} of {name} in {dtype}")
        raise
    names = {name, name.removesuffix("(out)")}
    assert not exception or any((each, dtype) in listed() for each in names), (
        f"sample {index} of {name} in {dtype}: {exception}"
    )


@pytest.mark.parametrize("name", operators())
def test_one_sample_for_each_dtype(name):
    for dtype in dtypes_of(name):
        if sample := one_sample(name, dtype):
            check(sample, direct_door, name, dtype, "that stands for all")


def check_every(samples, door_of, name, dtype):
    """Many samples in one graph, which is quicker, and one by one where that goes wrong."""
    for group in grouped(samples, TOGETHER):
        if len(group) > 1 and all(door_of(sample) is direct_door for sample in group) and run_together(group, name):
            continue
        for sample in group:
            check(sample, door_of(sample), name, dtype, sample.index)


def writing_door(sample):
    """A new shape of an operand is for AOTAutograd to pass on, which only torch.compile has."""
    return direct_door if layouts_after(sample) == layouts(sample.tensors) else dynamo_door


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name):
    dtypes = dtypes_of(name)
    dtype = dtypes[draw(name, "in place") % len(dtypes)]
    if sample := one_sample(name, dtype, in_place=True):
        check(sample, writing_door(sample), f"{name}_", dtype, "that stands for all")


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", IN_PLACE)
def test_every_sample_in_place(name):
    for dtype in dtypes_of(name):
        check_every(samples_of(name, dtype, in_place=True), writing_door, f"{name}_", dtype)


def check_out(name, dtype, change):
    sample = one_sample(name, dtype)
    given = with_out(sample, change) if sample else None
    if given:
        check(given, writing_door(given), f"{name}(out)", dtype, f"that stands for all, with out= ({change.__name__}),")


@pytest.mark.parametrize("name", WITH_OUT)
def test_out(name):
    dtypes = dtypes_of(name)
    place = draw(name, "out")
    check_out(name, dtypes[place % len(dtypes)], OUTS[place // len(dtypes) % len(OUTS)])


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", WITH_OUT)
def test_every_kind_of_out(name):
    for dtype, change in itertools.product(dtypes_of(name), OUTS):
        torch._dynamo.reset()  # sizes seen before would be dynamic ones, which some fakes refuse for an empty out
        check_out(name, dtype, change)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_every_sample(name, dtype):
    check_every(samples_of(name, dtype), lambda sample: direct_door, name, dtype)


def layout_cases():
    for name in operators():
        if "float32" in dtypes_of(name):
            for change in (turned, channels_last):
                mark = pytest.mark.xfail(strict=True, reason="FakeTensor's strides aren't eager's")
                marks = [pytest.mark.slow, *([mark] if change is turned and name in FAKE_STRIDES else [])]
                yield pytest.param(name, change, marks=marks, id=f"{name}-{change.__name__}")


@pytest.mark.parametrize(("name", "change"), list(layout_cases()))
def test_other_layouts(name, change):
    for index, sample in enumerate(largest_samples(name, "float32")):
        try:
            assert not run_sample(laid_out(sample, change), direct_door, name).exception
        except NoReferenceError:  # an operator that wants its own layout
            continue
        except Exception as fault:
            fault.add_note(f"sample {index} of {name}, {change.__name__}")
            raise


@pytest.mark.parametrize("name", COMPILED)
def test_through_torch_compile(name):
    dtypes = dtypes_of(name)
    dtype = dtypes[draw(name) % len(dtypes)]
    if sample := one_sample(name, dtype):
        check(sample, dynamo_door, name, dtype, "that stands for all, through torch.compile,")


@pytest.mark.parametrize(("name", "dtype"), listed())
def test_an_exception_is_still_one(name, dtype):
    cases = listed_samples(name, dtype)
    assert any(exception_of(sample, door, name) for sample, door in cases), "take it off exceptions.txt"


def listed_samples(name, dtype):
    """The samples of a name on the list, with their doors."""
    plain = name.removesuffix("(out)")
    if name in operators():
        yield from ((sample, direct_door) for sample in samples_of(name, dtype))
    elif plain != name:
        made = (with_out(one_sample(plain, dtype), change) for change in OUTS)
        yield from ((sample, writing_door(sample)) for sample in made if sample)
    else:
        yield from ((sample, writing_door(sample)) for sample in samples_of(name.removesuffix("_"), dtype, True))
