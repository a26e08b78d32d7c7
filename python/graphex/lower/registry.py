"""The table from aten operators to lowerings; the family files fill it by the decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# OpOverload -> function(lowering, node, *args, **kwargs) -> Value, tuple of Values (None for missing ones), or None.
# Tensors among the arguments come as Values, symbolic ints as Sizes, everything else as it stands in the FX node.
LOWERINGS: dict[Any, Callable[..., Any]] = {}


def lowers(*targets: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the decorated function as the lowering of these operators."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for target in targets:
            LOWERINGS[target] = function
        return function

    return register
