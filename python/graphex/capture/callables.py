"""Functions and modules whose calls are replays: their arguments are bound without a copy, their results are fresh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .graph import Graph, graph, graph_pool_handle
from .results import Known, Results


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
        return Graphed(function, sample, pool, options)
    module, original, training = function, function.forward, function.training
    replayed = Graphed(original, sample, pool, options)
    module.forward = lambda *args: (replayed if module.training == training else original)(*args)
    return module


class Graphed:
    """A captured function. Called with tensors like the samples, it returns the function's results."""

    def __init__(
        self,
        function: Callable[..., Any],
        sample: Sequence[torch.Tensor],
        pool: Any,
        options: Mapping[str, Any] | None,
        error_mode: str = "global",
    ) -> None:
        self.function, self.graph, self.count = function, Graph(), len(sample)
        with torch.no_grad(), graph(self.graph, pool, None, error_mode, inputs=_named(sample), options=options):
            results = function(*sample)
        self.results = Results(results, self.graph._known)
        self.learns = any(i.requires_grad for i in self.graph._inputs)
        places = [named.index for named in self.graph._named.values()]
        self.written = [place in self.graph._written for place in places]  # per argument
        del results
        self.fresh = self._let_go()

    def _let_go(self) -> list[int]:
        """The inputs that are memory of results which nobody else holds: each call gives them new memory."""
        inputs = self.graph._inputs
        own = [k for k in sorted(self.results.places()) if inputs[k].made_inside]
        fresh = [k for k in own if all(ref() is None for ref in inputs[k].block.seen)]
        for k in fresh:
            self.graph._tensors[k] = inputs[k].tensor = torch.empty(0)
        return fresh

    def forget_samples(self) -> None:
        """Lets go of the sample arguments, whose place other tensors take at each call."""
        self.graph._known = Known({}, [])
        for named in self.graph._named.values():
            named.tensor = torch.empty(0)
            if named.index is not None:
                place = self.graph._inputs[named.index]
                place.tensor = self.graph._tensors[named.index] = named.tensor
                place.block.storage = None

    def shapes(self) -> list[tuple[int, ...] | None]:
        """Shapes of the results that are tensors, in order; None for an argument that is returned itself."""
        return self.results.shapes()

    def needs_gradients(self, args: Sequence[torch.Tensor]) -> bool:
        """Whether a call with these arguments is one that autograd follows."""
        return torch.is_grad_enabled() and (self.learns or any(t.requires_grad for t in args))

    def __call__(self, *args: torch.Tensor) -> Any:
        """The function's results for these arguments."""
        if len(args) != self.count:
            raise TypeError(f"this graph was captured with {self.count} arguments; got {len(args)}")
        return self.function(*args) if self.needs_gradients(args) else self.run(args, args)

    def run(self, args: Sequence[torch.Tensor], returned: Sequence[torch.Tensor]) -> Any:
        """A replay on these arguments. Where the function returns one of them, the one of `returned` is the result."""
        tensors = self.graph._bound(_named(args))
        for k in self.fresh:
            tensors[k] = self.graph._inputs[k].layout.empty()
        self.graph._run(tensors)
        return self.results.take(_named(returned), tensors)


def _named(args: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"argument {i}": t for i, t in enumerate(args)}
