"""check(): a function run by eager PyTorch and compiled, and everything that a caller could notice compared.

Values (exact for integers and booleans, within a bound derived from dtype and reduction length otherwise), dtype,
shape, strides, requires_grad, gradients, which tensors share a storage and where in it, which objects are the same
object, the inputs afterwards, and whether an earlier call's results still hold after a later call.

GX_TEST_BACKEND names the backend (default graphex), so that the tests can be tried against another one.
"""

import copy
import os
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils._pytree import tree_flatten, tree_map

BACKEND = os.environ.get("GX_TEST_BACKEND", "graphex")
NATIVE_SOURCE = Path(__file__).resolve().parents[2] / "python" / "src"


def compiled(function, **keywords):
    """torch.compile with the backend under test."""
    return torch.compile(function, backend=BACKEND, **keywords)


# ---- copies of arguments


def storage_key(tensor):
    return tensor.untyped_storage()._cdata


def clone_arguments(arguments):
    """A deep copy that keeps strides, offsets, parameters, and which tensors share a storage or are one object."""
    storages, tensors = {}, {}

    def clone(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in tensors:
            tensors[id(value)] = clone_tensor(value, storages)
        return tensors[id(value)]

    return tree_map(clone, arguments)


def clone_tensor(tensor, storages):
    key = storage_key(tensor)
    if key not in storages:
        storages[key] = tensor.untyped_storage().clone()
    with torch.no_grad():
        plain = torch.empty(0, dtype=tensor.dtype)
        plain.set_(storages[key], tensor.storage_offset(), tensor.shape, tensor.stride())
        plain = plain.conj() if tensor.is_conj() else plain  # lazy marks, which set_ does not carry
        plain = torch._neg_view(plain) if tensor.is_neg() else plain
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(plain, requires_grad=tensor.requires_grad)
    return plain.requires_grad_(tensor.requires_grad)


def clone_function(function):
    """A module is copied, so that its buffers and parameters are not touched twice; anything else runs as it is."""
    owner = getattr(function, "__self__", function)
    if not isinstance(owner, torch.nn.Module):
        return function
    twin = copy.deepcopy(owner)
    return twin if owner is function else getattr(twin, function.__name__)


def state_of(function):
    owner = getattr(function, "__self__", function)
    return list(owner.state_dict(keep_vars=True).values()) if isinstance(owner, torch.nn.Module) else []


# ---- comparison


@dataclass
class Bound:
    """How far a floating-point result may lie from eager's.

    `operations` roundings to the result's dtype, and `length` terms added in fp32 (or fp64 for fp64), whose error
    grows like the root of the length when the order differs. Relative to the value itself and to the tensor's root
    mean square, since a sum's error follows the size of its terms. `moves` says for results, by id, how much farther:
    where terms cancel, their size doesn't show in the result. `computed` is what values had before they were
    cast to the result's dtype.
    """

    operations: int = 4
    length: int = 1
    moves: dict[int, float] = field(default_factory=dict)
    computed: torch.dtype | None = None

    def of(self, expected):
        coarse = self.computed is not None and self.computed.is_floating_point
        result = max(torch.finfo(dtype).eps for dtype in (expected.dtype, *([self.computed] if coarse else [])))
        accumulated = torch.finfo(torch.float64 if expected.dtype == torch.float64 else torch.float32).eps
        relative = self.operations * result + 2 * self.length**0.5 * accumulated
        size = expected.detach().abs().double()
        finite = size[torch.isfinite(size)]
        typical = finite.square().mean().sqrt() if finite.numel() else 0.0
        return relative * (size + typical)


EXACT = None


def compare_values(expected, got, bound, where):
    moves = 0.0 if bound is EXACT else bound.moves.get(id(expected), 0.0)
    expected, got = expected.detach().resolve_conj().resolve_neg(), got.detach().resolve_conj().resolve_neg()
    if expected.is_complex():
        expected, got = torch.view_as_real(expected), torch.view_as_real(got)
    if bound is EXACT or not expected.is_floating_point():
        same = (expected == got) | ((expected != expected) & (got != got))
        assert bool(same.all()), f"{where}: values differ\neager    {expected}\ncompiled {got}"
        return
    odd = ~torch.isfinite(expected)
    assert bool(((expected == got) | (expected.isnan() & got.isnan()) | ~odd).all()), f"{where}: inf or nan differ"
    distance = (expected.double() - got.double()).abs()
    excess = torch.where(odd, torch.zeros_like(distance), distance - bound.of(expected) - moves)
    excess = torch.where(distance.isnan() & ~odd, torch.full_like(excess, float("inf")), excess)
    assert not bool((excess > 0).any()), f"{where}: off by {distance[~odd].max():.3g}\neager    {expected}\ngot {got}"


def strides_that_matter(tensor):
    """Strides of the dimensions that have more than one element: the others address nothing."""
    if tensor.numel() == 0:
        return ()
    return tuple(stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1)


def compare_tensor(expected, got, bound, where):
    assert isinstance(got, torch.Tensor), f"{where}: eager gives a tensor, compiled {type(got)}"
    for fact in ("dtype", "shape", "requires_grad", "device", "layout"):
        want, have = getattr(expected, fact), getattr(got, fact)
        assert want == have, f"{where}: {fact} is {have}, eager's is {want}"
    want, have = strides_that_matter(expected), strides_that_matter(got)
    assert want == have, f"{where}: strides are {have}, eager's are {want}"
    compare_values(expected, got, bound, where)


def compare_tree(expected, got, bound, where):
    flat_expected, shape_expected = tree_flatten(expected)
    flat_got, shape_got = tree_flatten(got)
    assert shape_expected == shape_got, f"{where}: structure is {shape_got}, eager's is {shape_expected}"
    for index, (want, have) in enumerate(zip(flat_expected, flat_got, strict=True)):
        place = f"{where}[{index}]"
        if isinstance(want, torch.Tensor):
            compare_tensor(want, have, bound, place)
        else:
            assert type(want) is type(have), f"{place}: {type(have)}, eager gives {type(want)}"
            assert want == have, f"{place}: {have!r}, eager gives {want!r}"


def sharing(values):
    """For each tensor: the first tensor that is the same object, the first in the same storage, the bytes between."""
    facts, objects, storages = [], {}, {}
    for index, value in enumerate(values):
        if not isinstance(value, torch.Tensor):
            facts.append(None)
            continue
        first = objects.setdefault(id(value), index)
        if value.untyped_storage().nbytes() == 0:  # nothing to share
            facts.append((first, index, 0))
            continue
        place = value.storage_offset() * value.element_size()  # data_ptr is 0 where there are no elements
        base, offset = storages.setdefault(storage_key(value), (index, place))
        facts.append((first, base, place - offset))
    return facts


def gradients(outputs, inputs):
    """Gradients of a fixed mixture of the outputs with regard to the inputs; None where an input has none."""
    roots = [value for value in tree_flatten(outputs)[0] if isinstance(value, torch.Tensor) and value.requires_grad]
    leaves = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf]
    if not roots or not leaves:
        return []
    total = sum((value * torch.linspace(0.5, 1.5, max(value.numel(), 1)).view(value.shape)).sum() for value in roots)
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


# ---- the check


@dataclass
class Sides:
    """One call done twice."""

    eager: object
    compiled: object
    eager_inputs: list
    compiled_inputs: list


def run_both(eager, candidate, arguments, seed):
    twins = clone_arguments(arguments)
    # torch.manual_seed would note a stack trace for each accelerator that isn't there: milliseconds.
    torch.default_generator.manual_seed(seed)
    expected = eager(*arguments)
    torch.default_generator.manual_seed(seed)
    got = candidate(*twins)
    return Sides(expected, got, tree_flatten(arguments)[0], tree_flatten(twins)[0])


def compare_sides(sides, bound, where):
    compare_tree(sides.eager, sides.compiled, bound, f"{where} output")
    compare_tree(sides.eager_inputs, sides.compiled_inputs, bound, f"{where} input afterwards")
    want = sharing(sides.eager_inputs + tree_flatten(sides.eager)[0])
    have = sharing(sides.compiled_inputs + tree_flatten(sides.compiled)[0])
    assert want == have, f"{where}: sharing (same object, same storage, offset) is\n{have}\neager's is\n{want}"


def check(function, *makes, calls=3, bound=None, length=1, operations=4, exact=False, grad=False, **keywords):
    """Compares `calls` calls. Each `make` returns a tuple of arguments; they take turns, so that shapes may change.

    `length` is the longest reduction inside, `operations` the longest chain of roundings; `exact` asks for equal
    bits. Further keywords (dynamic, fullgraph, options) go to torch.compile. Returns the compiled callable.
    """
    bound = EXACT if exact else bound or Bound(operations, length)
    eager = clone_function(function)
    candidate = compiled(function, **keywords)
    kept = []
    for call in range(calls):
        torch.default_generator.manual_seed(1000 + call)
        arguments = makes[call % len(makes)]()
        sides = run_both(eager, candidate, arguments, 2000 + call)
        compare_sides(sides, bound, f"call {call}")
        compare_tree(state_of(eager), state_of(function), bound, f"call {call} module state")
        if grad:
            compare_gradients(eager, function, sides, bound, f"call {call} gradient")
        kept.append((sides, snapshot(sides.compiled)))
    for call, (sides, before) in enumerate(kept):
        compare_tree(before, sides.compiled, EXACT, f"call {call} output after the last call")
    return candidate


def snapshot(tree):
    return tree_map(lambda value: clone_arguments((value,))[0], tree)


def compare_gradients(eager, function, sides, bound, where):
    want = gradients(sides.eager, sides.eager_inputs + state_of(eager))
    have = gradients(sides.compiled, sides.compiled_inputs + state_of(function))
    assert want, f"{where}: the test asks for gradients, but eager's result has none"
    compare_tree(want, have, bound, where)
