"""Functions and modules whose calls are replays: their arguments are bound without a copy, their results are fresh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from .graph import Graph, graph, graph_pool_handle
from .recording import Layout


def make_graphed_callables(
    callables: Any, sample_args: Any, *, pool: Any = None, options: Mapping[str, Any] | None = None
) -> Any:
    """Captures a function or module, or a tuple of them on one pool; returns what replays it, in the same form.

    sample_args: a tuple of tensors, or a tuple of such tuples, of the dtypes, shapes and strides that calls will have;
    other ones are a ValueError. Results are new tensors at each call, so several threads may call. A module is
    returned itself, with a forward that replays while it is in the mode, training or not, that it was captured in.
    Calls that need gradients run the original.
    """
    several = isinstance(callables, tuple)
    functions, samples = (callables, sample_args) if several else ((callables,), (sample_args,))
    if len(functions) != len(samples):
        raise ValueError(f"{len(functions)} callables need as many tuples of sample arguments, not {len(samples)}")
    pool = graph_pool_handle() if pool is None else pool
    made = tuple(_graphed(f, tuple(args), pool, options) for f, args in zip(functions, samples, strict=True))
    return made if several else made[0]


def _graphed(function: Any, sample: tuple[Any, ...], pool: Any, options: Mapping[str, Any] | None) -> Any:
    if not all(isinstance(t, torch.Tensor) for t in sample):
        raise TypeError("make_graphed_callables takes sample arguments that are tensors")
    if not isinstance(function, torch.nn.Module):
        return _Graphed(function, sample, pool, options)
    module, original, training = function, function.forward, function.training
    replayed = _Graphed(original, sample, pool, options)
    module.forward = lambda *args: (replayed if module.training == training else original)(*args)
    return module


class _Graphed:
    """A captured function. Called with tensors like the samples, it returns the function's results."""

    def __init__(
        self, function: Callable[..., Any], sample: Sequence[torch.Tensor], pool: Any, options: Mapping[str, Any] | None
    ) -> None:
        self.function, self.graph, self.count = function, Graph(), len(sample)
        inputs = {f"argument {i}": t for i, t in enumerate(sample)}
        with torch.no_grad(), graph(self.graph, pool, inputs=inputs, options=options):
            results = function(*sample)
        leaves, self.spec = tree_flatten(results)
        places = {i.tensor.untyped_storage()._cdata: k for k, i in enumerate(self.graph._inputs)}
        self.results = [_Result.of(leaf, sample, places, self.graph) for leaf in leaves]
        self.learns = any(i.requires_grad for i in self.graph._inputs)
        del results, leaves
        self.fresh = self._let_go()

    def _let_go(self) -> list[int]:
        """The inputs that are memory of results which nobody else holds: each call gives them new memory."""
        inputs = self.graph._inputs
        own = {r.place for r in self.results if r.place is not None and inputs[r.place].made_inside}
        fresh = [k for k in sorted(own) if all(ref() is None for ref in inputs[k].block.seen)]
        for k in fresh:
            self.graph._tensors[k] = inputs[k].tensor = torch.empty(0)
        return fresh

    def __call__(self, *args: torch.Tensor) -> Any:
        """The function's results for these arguments."""
        if len(args) != self.count:
            raise TypeError(f"this graph was captured with {self.count} arguments; got {len(args)}")
        if torch.is_grad_enabled() and (self.learns or any(t.requires_grad for t in args)):
            return self.function(*args)
        tensors = self.graph._bound({f"argument {i}": t for i, t in enumerate(args)})
        for k in self.fresh:
            tensors[k] = self.graph._inputs[k].layout.empty()
        self.graph._run(tensors)
        return tree_unflatten([r.take(args, tensors) for r in self.results], self.spec)


class _Result:
    """Where a result of a call comes from: an argument, a layout over one of the graph's inputs, or a constant."""

    def __init__(self, constant: Any = None, argument: int | None = None, place: int | None = None) -> None:
        self.constant, self.argument, self.place = constant, argument, place
        self.layout: Layout | None = None
        self.shift = 0

    @classmethod
    def of(cls, leaf: Any, sample: Sequence[torch.Tensor], places: Mapping[int, int], g: Graph) -> _Result:
        """The place of a captured result."""
        if not isinstance(leaf, torch.Tensor):
            return cls(leaf)
        for i, t in enumerate(sample):
            if leaf is t:
                return cls(argument=i)
        storage = leaf.untyped_storage()._cdata
        place = places.get(storage)
        if place is None or not (
            g._inputs[place].made_inside or storage in (t.untyped_storage()._cdata for t in sample)
        ):
            return cls(leaf)  # a weight, say, or a view of one
        result = cls(place=place)
        result.layout, result.shift = Layout.of(leaf), g._inputs[place].layout.offset
        return result

    def take(self, args: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> Any:
        """The result of a call with these arguments, for which the graph had these inputs."""
        if self.argument is not None:
            return args[self.argument]
        if self.place is None or self.layout is None:
            return self.constant
        base, layout = tensors[self.place], self.layout
        if Layout.of(base)[:3] == layout[:3] and layout.offset == self.shift:
            return base
        moved = layout.offset - self.shift + base.storage_offset()
        return base.as_strided(layout.shape, layout.strides, moved)
