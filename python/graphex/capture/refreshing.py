"""What a graph's replays do with its refreshable values: check, hold, and hand over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .errors import CaptureError
from .refreshable import Refreshable
from .symbols import Condition, Symbols

_ACCEPTED_KEPT = 1000


class Refreshing:
    """The refreshable values of one graph."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self.declared = {name: r if isinstance(r, Refreshable) else Refreshable(r) for name, r in declared.items()}
        self.names = [name for name, r in self.declared.items() if r.kind is not torch.Tensor]
        tensors = {name: r for name, r in self.declared.items() if r.kind is torch.Tensor}
        with torch.inference_mode(False):  # inputs of the graph; a list is memory of this graph alone
            self.tensors = {name: r.value.clone() if r.is_list else r.value for name, r in tensors.items()}
        self.symbols = Symbols() if self.names else None
        self.conditions: list[Condition] = []
        self._accepted: set[tuple[Any, ...]] = set()  # numbers for which the conditions hold, seen of late
        self.numbers = {name: self.declared[name].value for name in self.names}  # never changed, but replaced

    def region_values(self) -> dict[str, Any]:
        """What the region sees by each name. Call it once, at the capture's begin."""
        numbers = {n: self.symbols.add(n, self.declared[n]) for n in self.names} if self.symbols else {}
        return {**numbers, **self.tensors}

    def finish(self) -> None:
        """Notes what the recorded graph takes for granted; CaptureError where that leaves a number one value."""
        if self.symbols is None:
            return
        self.conditions = self.symbols.conditions()
        for condition in self.conditions:
            if condition.fixes():
                raise CaptureError(
                    f"graphex can't capture a region for which a refreshable number has one value: {condition.text}, "
                    f"at {condition.line}"
                )

    def name_of(self, name: str | Refreshable) -> str:
        """The name of a declared value, given by name or itself."""
        for known, declared in self.declared.items():
            if name is declared or name == known:
                return known
        known = ", ".join(self.declared) or "none; declare them by graphex.graph(g, refresh={...})"
        raise ValueError(f"this graph has no refreshable {name!r}; its refreshables are {known}")

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """These values as the graph takes them. ValueError or TypeError, before anything ran, for one that can't be."""
        made = {name: self.declared[name].checked(f"refreshable {name!r}", value) for name, value in given.items()}
        if self.conditions and any(name in self.numbers for name in made):
            self._check_conditions({**self.numbers, **{n: v for n, v in made.items() if n in self.numbers}})
        return made

    def _check_conditions(self, values: Mapping[str, Any]) -> None:
        key = tuple(values[name] for name in self.names)
        if key in self._accepted:
            return
        for condition in self.conditions:
            if not condition.holds(values):
                said = ", ".join(f"{name} = {values[name]}" for name in sorted(condition.names.values()))
                raise ValueError(
                    f"with {said} the captured region would have gone another way: it holds for {condition.text} "
                    f"only, see {condition.line}; capture another graph for such values"
                )
        if len(self._accepted) >= _ACCEPTED_KEPT:
            self._accepted = set()
        self._accepted.add(key)

    def update(self, name: str | Refreshable, value: Any) -> None:
        """Sets a value for this and later replays; see Graph.update."""
        name = self.name_of(name)
        value = self.checked({name: value})[name]
        if isinstance(value, torch.Tensor):
            memory = self.tensors[name]
            with torch.inference_mode(memory.is_inference()), torch.no_grad():
                memory.copy_(value)
        else:
            self.numbers = {**self.numbers, name: value}

    def numbers_with(self, given: Mapping[str, Any]) -> Sequence[int | float]:
        """The numbers of a replay, in the graph's order."""
        numbers = self.numbers
        return [given.get(name, value) for name, value in numbers.items()] if numbers else ()
