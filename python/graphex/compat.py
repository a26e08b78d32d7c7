"""The names that code for accelerators uses, so that a script moves by changing an import.

from graphex.compat import NPUGraph, graph, Stream, stream      # was: from torch.npu import ...
import graphex.compat as cuda                                   # was: from torch import cuda

The device is the CPU: None, 0 or "cpu". An argument that means nothing here is an error, unless any value of it is
satisfied as it is (`blocking` of events: a wait spins briefly, then sleeps).
"""

from __future__ import annotations

from typing import Any

from .capture.callables import make_graphed_callables
from .capture.graph import Graph, graph, graph_pool_handle
from .capture.state import is_capturing as is_current_stream_capturing
from .streams import stream as _streams
from .streams.capturing import GraphCaptureContext, checked_device, graph_capture
from .streams.stream import stream

CUDAGraph = NPUGraph = Graph
StreamContext = stream

__all__ = [
    "CUDAGraph",
    "Event",
    "GraphCaptureContext",
    "NPUGraph",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "default_stream",
    "device_count",
    "graph",
    "graph_capture",
    "graph_pool_handle",
    "is_available",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "stream",
    "synchronize",
]


class Stream(_streams.Stream):
    """graphex.Stream with the arguments of accelerators' streams first."""

    def __init__(self, device: Any = None, priority: int = 0, **keywords: Any) -> None:
        checked_device(device)
        super().__init__(priority=priority, **keywords)


class Event(_streams.Event):
    """graphex.Event with the arguments of accelerators' events."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise ValueError("graphex has no events between processes: interprocess is False")
        super().__init__(enable_timing)


def current_stream(device: Any = None) -> _streams.Stream:
    """The stream that this thread's replays go to."""
    checked_device(device)
    return _streams.current_stream()


def default_stream(device: Any = None) -> _streams.Stream:
    """The calling thread itself."""
    checked_device(device)
    return _streams.default_stream()


def synchronize(device: Any = None) -> None:
    """Waits for the work of all streams."""
    checked_device(device)
    _streams.synchronize()


def is_available() -> bool:
    """True: there is a CPU."""
    return True


def device_count() -> int:
    """1: all cores are one device."""
    return 1


def current_device() -> int:
    """0, the only device."""
    return 0
