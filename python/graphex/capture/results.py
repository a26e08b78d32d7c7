"""Results of one replay in memory of their own, where the captured ones have memory that every replay writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from .recording import Input, Layout


class Known:
    """The memory that a graph knows: of its inputs, some of which have names under which others can be bound."""

    def __init__(self, named: Mapping[str, torch.Tensor], inputs: Sequence[Input]) -> None:
        self.named, self.inputs = named, inputs  # `named`: what the named inputs were captured as
        self.bindable = {_storage(t) for t in named.values()}
        self.places: dict[int, int] = {}
        for k, i in enumerate(inputs):
            self.places.setdefault(_storage(i.tensor), k)

    def has(self, t: torch.Tensor) -> bool:
        """Whether the graph makes or uses the tensor's memory."""
        storage = _storage(t)
        return storage in self.places or storage in self.bindable


def _storage(t: torch.Tensor) -> int:
    return t.untyped_storage()._cdata


class Result:
    """Where a result of a replay comes from: a named input, a layout over one of the graph's inputs, or a constant."""

    def __init__(self, constant: Any = None, name: str | None = None, place: int | None = None) -> None:
        self.constant, self.name, self.place = constant, name, place
        self.layout: Layout | None = None
        self.shift = 0

    @classmethod
    def of(cls, leaf: Any, known: Known) -> Result:
        """The place of a captured result."""
        if not isinstance(leaf, torch.Tensor):
            return cls(leaf)
        for name, t in known.named.items():
            if leaf is t:
                return cls(name=name)
        storage = _storage(leaf)
        place = known.places.get(storage)
        if place is None or not (known.inputs[place].made_inside or storage in known.bindable):
            return cls(leaf)  # a weight, say, or a view of one
        result = cls(place=place)
        result.layout, result.shift = Layout.of(leaf), known.inputs[place].layout.offset
        return result

    def take(self, bound: Mapping[str, torch.Tensor], tensors: Sequence[torch.Tensor]) -> Any:
        """The result of a replay with these named inputs, for which the graph had these inputs."""
        if self.name is not None:
            return bound[self.name]
        if self.place is None or self.layout is None:
            return self.constant
        base, layout = tensors[self.place], self.layout
        if Layout.of(base)[:3] == layout[:3] and layout.offset == self.shift:
            return base
        moved = layout.offset - self.shift + base.storage_offset()
        return base.as_strided(layout.shape, layout.strides, moved)


class Results:
    """A structure of captured tensors, of which each replay makes another with tensors of its own."""

    def __init__(self, structure: Any, known: Known) -> None:
        leaves, self.spec = tree_flatten(structure)
        self.results = [Result.of(leaf, known) for leaf in leaves]

    def places(self) -> set[int]:
        """The inputs of the graph in whose memory results lie."""
        return {r.place for r in self.results if r.place is not None}

    def constants(self) -> list[torch.Tensor]:
        """Those of the tensors that are the same at each replay."""
        return [r.constant for r in self.results if isinstance(r.constant, torch.Tensor)]

    def shapes(self) -> list[tuple[int, ...] | None]:
        """Shapes of the tensors, in order; None for a named input."""
        tensors = [r for r in self.results if r.name or r.layout or isinstance(r.constant, torch.Tensor)]
        return [None if r.name else r.layout.shape if r.layout else tuple(r.constant.shape) for r in tensors]

    def take(self, bound: Mapping[str, torch.Tensor], tensors: Sequence[torch.Tensor]) -> Any:
        """The structure of one replay, see Result.take."""
        return tree_unflatten([r.take(bound, tensors) for r in self.results], self.spec)


def with_new_memory(tensors: Sequence[torch.Tensor], inputs: Sequence[Input]) -> list[torch.Tensor]:
    """The graph's inputs with other memory for what its replays make; what a user may have filled is copied."""
    fresh = list(tensors)
    for k, i in enumerate(inputs):
        if i.made_inside:
            fresh[k] = i.layout.empty()
            if i.block.undefined:
                fresh[k].copy_(tensors[k])
    return fresh
