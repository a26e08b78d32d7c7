"""One sample through graphex and by eager, and everything compared that a caller could notice.

Two doors: the graph traced and functionalised here and given to graphex.compile_fx, which is quick, and torch.compile.
The reference is eager. Where the same door with eager PyTorch at its end differs from eager too, that is the reference,
and the operator has to be on the list of exceptions.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from check import EXACT, Bound, Sides, clone_arguments, compare_sides, compare_tree, compiled, run_both, snapshot
from graphex.decompositions import decompositions
from noise import Noise
from torch._functorch._aot_autograd.functional_utils import from_fun, has_data_mutation, to_fun
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import graphex

from .samples import Sample, other_data, takes_other_data, together

# PyTorch's samples wrap random operators so that they set this seed when called. Tracing does that once, at capture.
RANDOM_SEED = 42
# Of so many runs with noise the farthest counts, and so many times that is allowed.
NOISY_RUNS, NOISE_MARGIN = 3, 8
HALVES = (torch.bfloat16, torch.float16)
FUNCTIONALIZE = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)
# Results of these are memory that nobody has set.
UNSET = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


class NoReferenceError(Exception):
    """Eager and the door without graphex differ, or nothing can be captured: says how."""


@dataclass
class Outcome:
    """What became of a sample whose results are right."""

    exception: str = ""  # why eager isn't the reference
    island: str = ""  # why it isn't native


@dataclass
class Door:
    """A sample as a function of its tensors by graphex, and captured in the same way but run by eager PyTorch."""

    candidate: Callable[..., list[Any]]
    reference: Callable[..., list[Any]]
    bound: Bound
    program: Any = None  # of the direct door, for explain


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def tensors_of(values: list[Any]) -> list[torch.Tensor]:
    """The tensors among results, dense so that they can be compared."""
    return [value if value.layout is torch.strided else value.to_dense() for value in values if is_tensor(value)]


def bound_of(sample: Sample, nodes: int) -> Bound:
    """A rounding for each node, and sums as long as the largest operand; the least of both for several calls."""
    if sample.together:
        return Bound()
    length = max([1, *(t.numel() for t in sample.tensors)])
    return Bound(operations=max(4, nodes), length=length, computed=sample.computed)


def direct_door(sample: Sample) -> Door:
    """The functional graph with graphex's decompositions, given to compile_fx; for reference without them."""

    @cache
    def plain():
        return functional_graph(sample, {})

    try:
        graph = functional_graph(sample, decompositions())
    except NoReferenceError as why:
        plain()  # raises if the reason is PyTorch's and not graphex's decompositions
        raise AssertionError(f"with graphex's decompositions {why}") from None
    program = graphex.compile_fx(graph, sample.tensors)

    return Door(
        lambda *t: tensors_of(program(list(t))),
        lambda *t: tensors_of(plain()(*t)),
        bound_of(sample, len(graph.graph.nodes)),
        program,
    )


def functional_graph(sample: Sample, table: dict[Any, Any]) -> Any:
    """What AOTAutograd makes of the operator for inference: pure nodes, then the writes to inputs."""

    def function(*tensors):
        with torch._C._ExcludeDispatchKeyGuard(FUNCTIONALIZE), FunctionalTensorMode():
            inside = list(map(to_fun, tensors))
            results = list(filter(is_tensor, sample.call(sample.operator, inside)))
            outside = {id(now): tensor for now, tensor in zip(inside, tensors, strict=True)}
            made = [outside.get(id(result), from_fun(result)) for result in results]
            written = [(tensor, now) for tensor, now in zip(tensors, inside, strict=True) if has_data_mutation(now)]
        for tensor, now in written:
            tensor.copy_(from_fun(now))
        return tuple(made)

    try:
        trace = make_fx(function, tracing_mode="fake", decomposition_table=table)
        return trace(*clone_arguments(tuple(sample.tensors)))
    except Exception as why:
        raise NoReferenceError(f"no graph, {summary(why)}") from None


def dynamo_door(sample: Sample) -> Door:
    """torch.compile of the operator."""

    def call(*arguments, **keywords):  # a method in C by itself is nothing that Dynamo compiles
        return sample.operator(*arguments, **keywords)

    ours, reference = compiled(call), torch.compile(call, backend="aot_eager")
    return Door(
        lambda *t: tensors_of(sample.call(ours, list(t))),
        lambda *t: tensors_of(sample.call(reference, list(t))),
        bound_of(sample, 8),
    )


def summary(why: BaseException) -> str:
    """The kind of error and the first line of its text."""
    return f"{type(why).__name__}: {(str(why).strip().splitlines() or [''])[0]}"


def blank(function: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The function with its results' values set to 0, so that all but these can be compared."""
    return lambda *tensors: [result.zero_() for result in function(*tensors)]


def run_sample(sample: Sample, make_door: Callable[[Sample], Door], name: str) -> Outcome:
    """Two calls with different data, compared; AssertionError if graphex differs from its reference.

    Raises NoReferenceError if there is nothing to compare with.
    """
    if any(t.layout is not torch.strided for t in sample.tensors):
        raise NoReferenceError("a sparse operand")
    with torch.no_grad():
        door = make_door(sample)
        eager = lambda *t: tensors_of(sample.call(sample.operator, list(t)))  # noqa: E731
        if name.removesuffix("(out)") in UNSET:
            eager, door.candidate, door.reference = map(blank, (eager, door.candidate, door.reference))
        outcome = Outcome(island=why_not_native(door.program) if door.program is not None else "")
        kept = []
        for call, tensors in enumerate(data_of(sample)):
            exception, results = compare_call(door, eager, tensors, f"call {call}")
            outcome.exception = outcome.exception or exception
            kept.append((results, snapshot(results)))
        for results, before in kept:
            compare_tree(before, results, EXACT, "results after the last call")
    return outcome


def run_together(samples: list[Sample], name: str) -> Outcome | None:
    """The outcome of many samples in one graph, None where they have to be looked at one by one.

    The bound of several calls is the least that one may have, so nothing passes that wouldn't alone.
    """
    try:
        outcome = run_sample(together(samples), direct_door, name)
    except Exception:
        return None
    return None if outcome.exception else outcome


def data_of(sample: Sample) -> list[tuple[torch.Tensor, ...]]:
    """The sample's own data and other data, which are the same if eager doesn't take the other."""
    own = tuple(sample.tensors)
    return [own, tuple(other_data(sample.tensors)) if takes_other_data(sample) else own]


def compare_call(door: Door, eager: Any, tensors: tuple[torch.Tensor, ...], where: str) -> tuple[str, list[Any]]:
    """Why eager isn't the reference ("" if it is), and the results of graphex."""
    try:
        return "", compare(eager, door, tensors, where)
    except Exception:
        exception = why_no_reference(door, eager, tensors)
        if not exception and not eager_overflows(eager, tensors):
            raise
    if not exception:
        return "", compare(in_float32(eager), door, tensors, f"{where}, compared with eager in float32,")
    return exception, compare(
        door.reference, door, tensors, f"{where}, compared with the graph by eager since {exception},"
    )


def compare(reference: Any, door: Door, tensors: tuple[torch.Tensor, ...], where: str) -> list[Any]:
    """The results of graphex, within the bound or where roundings inside of the reference may move its own."""
    sides = run_both(reference, door.candidate, clone_arguments(tensors), RANDOM_SEED)
    try:
        compare_sides(sides, door.bound, where)
    except AssertionError:
        moves = moves_of(reference, sides, tensors)
        try:
            compare_sides(sides, replace(door.bound, moves=moves), where)
        except AssertionError:
            if not any(t.dtype in HALVES for t in tensors):
                raise
            moves |= put_exact(reference, sides, tensors)
            compare_sides(sides, replace(door.bound, moves=moves), f"{where}, compared with eager in float32,")
    return sides.compiled


def moves_of(reference: Any, sides: Sides, tensors: tuple[torch.Tensor, ...]) -> dict[int, float]:
    """How far each floating-point result moves, by id: by noise of roundings' size, and without those of 16 bits."""
    moves: dict[int, float] = {}

    def note(ones, others, margin):
        for one, other in zip(ones, others, strict=True):
            if one.is_floating_point() and one.shape == other.shape and one.numel():
                away = (one.double() - other.double()).abs()
                moves[id(one)] = max(moves.get(id(one), 0.0), margin * away.nan_to_num(0, 0).max().item())

    for run in range(NOISY_RUNS):
        twins = clone_arguments(tensors)
        torch.default_generator.manual_seed(RANDOM_SEED)
        with Noise(run):
            results = reference(*twins)
        note([*sides.eager_inputs, *sides.eager], [*twins, *results], NOISE_MARGIN)
    if any(t.dtype in HALVES for t in tensors):
        torch.default_generator.manual_seed(RANDOM_SEED)
        with contextlib.suppress(RuntimeError, NotImplementedError):  # an operator that wants several dtypes
            note(sides.eager, in_float32(reference)(*clone_arguments(tensors)), 1)
    return moves


def put_exact(reference: Any, sides: Sides, tensors: tuple[torch.Tensor, ...]) -> dict[int, float]:
    """Puts the results of float32 in the place of eager's; says how far eager's were from them, by id.

    So far may others be: where 16 bits leave eager with a few digits, another order may be nearer, from the other side.
    """
    torch.default_generator.manual_seed(RANDOM_SEED)
    away = {}
    for exact, result in zip(in_float32(reference)(*clone_arguments(tensors)), sides.eager, strict=True):
        if result.dtype in HALVES and result.numel():
            away[id(result)] = (exact.double() - result.double()).abs().nan_to_num(0, 0).max().item()
            result.copy_(exact)
    return away


def eager_overflows(eager: Any, tensors: tuple[torch.Tensor, ...]) -> bool:
    """Whether a float16 result isn't finite, which it may be where fused operators don't round in between."""
    if not any(t.dtype is torch.float16 and bool(t.isfinite().all()) for t in tensors):
        return False
    results = eager(*clone_arguments(tensors))
    return any(r.dtype is torch.float16 and not bool(r.isfinite().all()) for r in results)


def in_float32(eager: Any) -> Callable[..., list[Any]]:
    """The function of tensors of 16 bits with only its results rounded."""

    def run(*tensors):
        half = next(t.dtype for t in tensors if t.dtype in HALVES)
        results = eager(*(t.float() if t.dtype is half else t for t in tensors))
        return [r.to(half) if r.dtype is torch.float32 else r for r in results]

    return run


def why_no_reference(door: Door, eager: Any, tensors: tuple[torch.Tensor, ...]) -> str:
    """How the door without graphex differs from eager; "" if it doesn't."""
    try:
        torch.default_generator.manual_seed(RANDOM_SEED)
        eager(*clone_arguments(tensors))
    except Exception as why:
        raise NoReferenceError(f"eager raises {summary(why)}") from None
    try:
        sides = run_both(eager, door.reference, clone_arguments(tensors), RANDOM_SEED)
    except Exception as why:
        raise NoReferenceError(f"the graph raises {summary(why)}") from None
    try:
        compare_sides(sides, door.bound, "the graph")
    except AssertionError as why:
        return summary(why)
    return ""


def why_not_native(program: Any) -> str:
    """The first island and its reason; "" if all is machine code of graphex."""
    (graph,) = graphex.explain(program)["graphs"]
    if graph["eager"]:
        return f"by eager: {graph['eager']}"
    return "; ".join(dict.fromkeys(f"{i['op']}: {i['reason']}" for i in graph["islands"]))
