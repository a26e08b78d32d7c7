"""Streams and events.

s = graphex.Stream(cores=2)
with graphex.stream(s):
    g.replay()                  # queued: runs on the stream's own thread and cores
graphex.current_stream().wait_stream(s)
"""

from __future__ import annotations

import atexit
import itertools
import operator
import threading
import weakref
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any

from ..capture.errors import CaptureError
from ..capture.state import lanes
from ..native import core
from .settle import Settle

_numbers = itertools.count(1)
_streams: weakref.WeakSet[Stream] = weakref.WeakSet()


class Event:
    """A point in a stream's work. Recorded anew, it stands for the new point; waits asked for before keep the old.

    enable_timing: elapsed_time is allowed.
    """

    def __init__(self, enable_timing: bool = False) -> None:
        self.enable_timing = bool(enable_timing)
        self._core = core().Event()
        self._point: Any = None  # of a capture

    def record(self, stream: Stream | None = None) -> None:
        """Makes the event stand for the work that the stream, or the current one, has so far."""
        _checked(stream, Stream, "Event.record", optional=True)
        stream = current_stream() if stream is None else stream
        capture = lanes()
        if capture is not None:
            self._point = capture.point(stream)
            return
        self._point = None
        self._core.record(stream._core)

    def wait(self, stream: Stream | None = None) -> None:
        """Lets the stream, or the current one, go on only after the event. The default stream waits at once."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Whether the work before the event is done; True if it was never recorded."""
        self._outside("query")
        return self._core.query()

    def synchronize(self) -> None:
        """Waits for the event. Raises what went wrong in the work before it."""
        self._outside("synchronize")
        self._core.synchronize()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to `end`. RuntimeError unless both were recorded with timing and are reached."""
        _checked(end, Event, "elapsed_time")
        if not (self.enable_timing and end.enable_timing):
            raise RuntimeError("elapsed_time needs two events made with enable_timing=True")
        self._outside("elapsed_time")
        end._outside("elapsed_time")
        return self._core.milliseconds(self._core, end._core)

    def _outside(self, what: str) -> None:
        if lanes() is not None:
            raise CaptureError(f"Event.{what}() in a captured region: nothing runs there that could be waited for")
        if self._point is not None:
            raise CaptureError(
                f"Event.{what}() on an event that was recorded in a captured region, where it stands for a point of "
                "the graph; record it again outside"
            )

    def __repr__(self) -> str:
        return f"graphex.Event(enable_timing={self.enable_timing})"


class Stream:
    """A queue of replays with a thread and cores of its own.

    A replay in `with graphex.stream(s)` is queued and returns at once if the graph has no islands; one with islands
    runs on the calling thread, after what is queued. Eager PyTorch called from Python in there runs on the calling
    thread too, once the stream's work is done, so that it sees the results. Elsewhere call synchronize() or wait first.

    cores: how many, or which CPUs (a list of their numbers); None: as many as PyTorch uses.
    priority: added to the niceness of the stream's threads, so lower is more urgent, as on accelerators. The system
        grants what is below 0 to privileged processes only, and ignores it otherwise.
    name: for messages and traces.
    """

    def __init__(self, cores: int | Iterable[int] | None = None, priority: int = 0, *, name: str | None = None) -> None:
        self.priority = operator.index(priority)
        self.name = name or f"stream {next(_numbers)}"
        if cores is None or isinstance(cores, int):
            if cores is not None and (isinstance(cores, bool) or cores < 1):
                raise ValueError(f"cores of a stream is 1 or more, a list of CPUs, or None; got {cores}")
            count, cpus = cores or 0, []
        else:
            cpus = [operator.index(cpu) for cpu in cores]
            count = len(cpus)
            if not cpus or len(set(cpus)) < count:
                raise ValueError(f"cores of a stream as CPUs is a list of different ones, at least one; got {cpus}")
        self.cores = count or None
        self._core = core().Stream(count, cpus, self.priority)
        self._inside = threading.local()
        _streams.add(self)

    def wait_event(self, event: Event) -> None:
        """What comes next on this stream starts after the event."""
        _checked(event, Event, "wait_event")
        capture = lanes()
        if capture is not None:
            capture.wait(self, event._point)
        elif event._point is not None:
            raise CaptureError(
                "an event that was recorded in a captured region stands for a point of the graph; outside, wait for an "
                "event recorded after the replay"
            )
        elif self._core is None:
            event._core.synchronize()
        else:
            self._core.wait(event._core)

    def wait_stream(self, stream: Stream) -> None:
        """What comes next on this stream starts after what the other one has so far."""
        _checked(stream, Stream, "wait_stream")
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Records the event, or a new one, on this stream and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Waits for the stream's work. Raises what went wrong in it; what was queued behind that was dropped."""
        if lanes() is not None:
            raise CaptureError("Stream.synchronize() in a captured region: nothing runs there that could be waited for")
        if self._core is not None:
            self._core.synchronize()

    def query(self) -> bool:
        """Whether the stream's work is done."""
        if lanes() is not None:
            raise CaptureError("Stream.query() in a captured region: nothing runs there that could be done")
        return self._core is None or self._core.query()

    def __enter__(self) -> Stream:
        self._contexts().append(stream(self))
        return self._contexts()[-1].__enter__()

    def __exit__(self, *why: Any) -> None:
        self._contexts().pop().__exit__(*why)

    def _contexts(self) -> list[stream]:
        if not hasattr(self._inside, "contexts"):
            self._inside.contexts = []
        return self._inside.contexts

    def __repr__(self) -> str:
        return f"<graphex.Stream {self.name!r}, cores={self.cores}, priority={self.priority}>"


class _DefaultStream(Stream):
    """The calling thread itself: what it does is done when the call returns."""

    def __init__(self) -> None:
        self.name, self.cores, self.priority, self._core = "the default stream", None, 0, None
        self._inside = threading.local()


_default = _DefaultStream()
_current = threading.local()


def default_stream() -> Stream:
    """The stream of threads that chose no other: the calling thread itself."""
    return _default


def current_stream() -> Stream:
    """The stream that this thread's replays go to."""
    return getattr(_current, "stream", _default)


class stream:  # noqa: N801  the name that users of torch.cuda.stream know
    """Context: replays of this thread go to stream `s`; None leaves the stream as it is. Yields the stream."""

    def __init__(self, s: Stream | None) -> None:
        _checked(s, Stream, "graphex.stream", optional=True)
        self.stream = current_stream() if s is None else s
        self._settle: Settle | None = None

    def __enter__(self) -> Stream:
        self._before = current_stream()
        self._switch(self.stream)
        if lanes() is None and self.stream._core is not None:
            self._settle = Settle()
            self._settle.__enter__()
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._settle is not None:
            self._settle.__exit__(kind, value, trace)
            self._settle = None
        self._switch(self._before)

    @staticmethod
    def _switch(to: Stream) -> None:
        _current.stream = to
        core().set_current_stream(to._core)


def synchronize() -> None:
    """Waits for the work of all streams. Raises what went wrong in one of them."""
    if lanes() is not None:
        raise CaptureError("graphex.synchronize() in a captured region: nothing runs there that could be waited for")
    for each in list(_streams):
        each.synchronize()


def _checked(value: Any, kind: type, what: str, optional: bool = False) -> None:
    if not isinstance(value, kind) and not (optional and value is None):
        raise TypeError(f"{what} takes a graphex.{kind.__name__}, not {type(value).__name__}")


def _finish() -> None:
    """The memory that queued work uses is about to go."""
    for each in list(_streams):
        with suppress(Exception):  # nobody is left to be told
            each.synchronize()


atexit.register(_finish)
