"""What holds for the operators of a scope: their stream, how many cores, the user's range. Kept from capture to replay.

A mark is an entry of FX's meta["custom"], which AOTAutograd carries along; the lowering turns marks into attributes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import fx

from ..native import core

_ATTRIBUTES = {
    "graphex_lane": "lane",  # the stream of a capture, by number; 0 is the main one
    "graphex_lane_cores": "lane_cores",  # how many cores that stream asks for
    "graphex_segment": "segment",  # between which of the stream's events: nothing fuses across one
    "graphex_round": "round",  # how often the main stream had waited for all others by then
    "graphex_cores": "cores",  # the most that the operator may use
    "graphex_range": "range",
}
_ranges = threading.local()


def marks(lane: int = 0, lane_cores: int | None = None, segment: int = 0, round: int = 0) -> dict[str, Any]:  # noqa: A002
    """The marks that hold for what this thread calls now. Only those that say something."""
    found = {
        "graphex_lane": lane,
        "graphex_lane_cores": (lane_cores or 0) if lane else 0,
        "graphex_segment": segment,
        "graphex_round": round,
        "graphex_cores": core().core_limit(),
        "graphex_range": "/".join(open_ranges()),
    }
    return {name: value for name, value in found.items() if value}


def attributes_of(node: fx.Node) -> dict[str, Any]:
    """The attributes of the IR that a node's marks say."""
    custom = node.meta.get("custom")
    if not custom:
        return {}
    return {attribute: custom[mark] for mark, attribute in _ATTRIBUTES.items() if mark in custom}


def open_ranges() -> list[str]:
    """The names of this thread's ranges, from the outermost on."""
    if not hasattr(_ranges, "names"):
        _ranges.names = []
    return _ranges.names


def push_range(name: str) -> None:
    """Begins a range."""
    open_ranges().append(name)


def pop_range() -> None:
    """Ends the innermost range."""
    open_ranges().pop()


@contextmanager
def range(name: str) -> Iterator[None]:  # noqa: A001  beside stream and graph
    """Context: operators captured inside belong to the range `name` in traces and dumps. Ranges nest."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"graphex.range takes a name, not {name!r}")
    push_range(name)
    try:
        yield
    finally:
        pop_range()
