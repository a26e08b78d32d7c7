"""The context in which serving engines capture: a stream of its own, behind what the current one has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .stream import Stream, current_stream, stream


@dataclass
class GraphCaptureContext:
    """What `graph_capture` gives to its body: the stream to capture on."""

    stream: Stream


def checked_device(device: Any) -> None:
    """ValueError unless this is the CPU: None, 0, "cpu" or torch.device("cpu")."""
    if device is None or device == 0:
        return
    if str(device).partition(":")[0] == "cpu":
        return
    raise ValueError(f"graphex runs on the CPU: device is None, 0 or 'cpu', not {device!r}")


@contextmanager
def graph_capture(device: Any = None) -> Iterator[GraphCaptureContext]:
    """Context in which graphs are captured, as serving engines write it: yields an object with a new `stream`.

    That stream is current in the body and starts behind the one that was; afterwards that one goes on behind it. It
    captures nothing by itself: use `graphex.graph(g, stream=context.stream)` inside.
    """
    checked_device(device)
    before, context = current_stream(), GraphCaptureContext(Stream(name="capture stream"))
    context.stream.wait_stream(before)
    with stream(context.stream):
        yield context
    before.wait_stream(context.stream)
