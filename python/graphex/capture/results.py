"""Results of one replay in memory of their own, where the captured ones have memory that every replay writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from .recording import Input, Layout


class Result:
    """Where a result of a replay comes from: a named input, a layout over one of the graph's inputs, or a constant."""

    def __init__(self, constant: Any = None, name: str | None = None, place: int | None = None) -> None:
        self.constant, self.name, self.place = constant, name, place
        self.layout: Layout | None = None
        self.shift = 0

    @classmethod
    def of(cls, leaf: Any, named: Mapping[str, torch.Tensor], inputs: Sequence[Input]) -> Result:
        """The place of a captured result. `named`: the tensors that the graph's named inputs were captured as."""
        if not isinstance(leaf, torch.Tensor):
            return cls(leaf)
        for name, t in named.items():
            if leaf is t:
                return cls(name=name)
        storage = leaf.untyped_storage()._cdata
        place = next((k for k, i in enumerate(inputs) if i.tensor.untyped_storage()._cdata == storage), None)
        bindable = any(t.untyped_storage()._cdata == storage for t in named.values())
        if place is None or not (inputs[place].made_inside or bindable):
            return cls(leaf)  # a weight, say, or a view of one
        result = cls(place=place)
        result.layout, result.shift = Layout.of(leaf), inputs[place].layout.offset
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

    def __init__(self, structure: Any, named: Mapping[str, torch.Tensor], inputs: Sequence[Input]) -> None:
        leaves, self.spec = tree_flatten(structure)
        self.results = [Result.of(leaf, named, inputs) for leaf in leaves]

    def places(self) -> set[int]:
        """The inputs of the graph in whose memory results lie."""
        return {r.place for r in self.results if r.place is not None}

    def shapes(self) -> list[tuple[int, ...] | None]:
        """Shapes of the tensors, in order; None for a named input."""
        tensors = [r for r in self.results if r.name or r.layout or isinstance(r.constant, torch.Tensor)]
        return [None if r.name else r.layout.shape if r.layout else tuple(r.constant.shape) for r in tensors]

    def take(self, bound: Mapping[str, torch.Tensor], tensors: Sequence[torch.Tensor]) -> Any:
        """The structure of one replay, see Result.take."""
        return tree_unflatten([r.take(bound, tensors) for r in self.results], self.spec)


def foreign(structure: Any, named: Mapping[str, torch.Tensor], inputs: Sequence[Input]) -> torch.Tensor | None:
    """A tensor in the structure that the graph neither makes nor uses."""
    known = {t.untyped_storage()._cdata for t in named.values()} | {i.tensor.untyped_storage()._cdata for i in inputs}
    for leaf in tree_flatten(structure)[0]:
        if isinstance(leaf, torch.Tensor) and leaf.untyped_storage()._cdata not in known:
            return leaf
    return None


def with_new_memory(tensors: Sequence[torch.Tensor], inputs: Sequence[Input]) -> list[torch.Tensor]:
    """The graph's inputs with other memory for what its replays make; what a user may have filled is copied."""
    fresh = list(tensors)
    for k, i in enumerate(inputs):
        if i.made_inside:
            fresh[k] = i.layout.empty()
            if i.block.undefined:
                fresh[k].copy_(tensors[k])
    return fresh
