"""The streams of a capture: which joined it, and by vector clocks, what happens before what.

Each stream is a lane with a clock of its own. A recorded event is a copy of its lane's knowledge of all clocks; a wait
takes that knowledge over. The recording itself is one sequence, so values are right in any case; the lanes say what may
run side by side, and the clocks find what the region forgot to order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .errors import CaptureError, user_frame
from .recording import Block, Layout


@dataclass(frozen=True)
class Point:
    """What an event that was recorded in a capture stands for: how far its stream's knowledge of all lanes went."""

    of: Lanes
    clock: dict[int, int]


@dataclass
class _Access:
    lane: int
    time: int
    layout: Layout
    written: bool
    line: str


@dataclass
class Lanes:
    """The streams of one capture. `main` is the one that the capture began on."""

    main: Any
    numbers: dict[Any, int] = field(default_factory=dict)
    clocks: list[dict[int, int]] = field(default_factory=list)  # per lane: how much of each lane comes before its next
    segments: list[int] = field(default_factory=list)  # per lane: how many events it has recorded and waited for
    rounds: int = 0  # how often the main stream had waited for all that the others had done
    joined_at: list[str] = field(default_factory=list)
    accesses: dict[int, list[_Access]] = field(default_factory=dict)  # by id of the block
    forked: bool = False  # before the first event nothing can be unordered

    def __post_init__(self) -> None:
        self._add(self.main)

    def _add(self, stream: Any) -> int:
        lane = self.numbers[stream] = len(self.clocks)
        self.clocks.append({lane: 0})
        self.segments.append(0)
        self.joined_at.append(_line())
        return lane

    def point(self, stream: Any) -> Point:
        """Records an event on a stream of the capture."""
        self.forked = True
        lane = self.lane_of(stream, "an event was recorded on")
        self.segments[lane] += 1
        return Point(self, dict(self.clocks[lane]))

    def wait(self, stream: Any, point: Point | None) -> None:
        """Orders what comes next on the stream behind the point; with that the stream joins the capture."""
        if point is None or point.of is not self:
            raise CaptureError(
                f"{stream.name} waits in a captured region for an event that was recorded outside of it, at {_line()}; "
                "wait for it before the capture, or before each replay"
            )
        lane = self.numbers[stream] if stream in self.numbers else self._add(stream)
        clock = self.clocks[lane]
        for other, time in point.clock.items():
            clock[other] = max(clock.get(other, 0), time)
        clock[lane] += 1  # a wait alone has to be brought back too
        self.segments[lane] += 1
        if lane == 0 and not self._left_behind():
            self.rounds += 1

    def lane_of(self, stream: Any, what: str) -> int:
        """The stream's lane; CaptureError if it isn't in the capture."""
        if stream not in self.numbers:
            raise CaptureError(
                f"{what} {stream.name} in a captured region that it hasn't joined, at {_line()}; record an event on "
                f"{self.main.name} and let {stream.name} wait for it first"
            )
        return self.numbers[stream]

    def note(self, stream: Any, reads: list[tuple[Block, Layout]], writes: list[tuple[Block, Layout]]) -> int:
        """Notes a call on a stream, with the memory that it touches. Returns the lane."""
        lane = self.lane_of(stream, "a call on")
        if not self.forked:
            return lane
        self.clocks[lane][lane] += 1
        for accesses, written in ((reads, False), (writes, True)):
            for block, layout in accesses:
                self._touch(block, _Access(lane, self.clocks[lane][lane], layout, written, _line()))
        return lane

    def _touch(self, block: Block, access: _Access) -> None:
        known, clock = self.accesses.setdefault(id(block), []), self.clocks[access.lane]
        for other in known:
            ordered = clock.get(other.lane, 0) >= other.time
            if not ordered and (other.written or access.written) and _surely_overlap(other.layout, access.layout):
                raise self._unordered(other, access)
        known[:] = [a for a in known if not (a.lane == access.lane and a.layout == access.layout and access.written)]
        known.append(access)

    def _unordered(self, first: _Access, second: _Access) -> CaptureError:
        names = {lane: stream.name for stream, lane in self.numbers.items()}
        does = {True: "writes", False: "reads"}
        a, b = names[first.lane], names[second.lane]
        return CaptureError(
            f"{b} {does[second.written]} memory at {second.line} that {a} {does[first.written]} at {first.line}, and "
            f"nothing orders the two; record an event on {a} and let {b} wait for it"
        )

    def finish(self) -> None:
        """CaptureError for a stream that isn't brought back to the main one."""
        for stream in self._left_behind():
            raise CaptureError(
                f"{stream.name} joined the capture at {self.joined_at[self.numbers[stream]]} and isn't brought back: "
                f"record an event on it after its last call and let {self.main.name} wait for that"
            )

    def _left_behind(self) -> list[Any]:
        """The streams that did what the main one doesn't come after."""
        known = self.clocks[0]
        return [s for s, lane in self.numbers.items() if known.get(lane, 0) < self.clocks[lane][lane]]


def _line() -> str:
    file, line, _ = user_frame()
    return f"{file}:{line}"


def _surely_overlap(a: Layout, b: Layout) -> bool:
    """Whether two tensors over one storage share an element. Interleaved ones are taken not to."""
    if a == b:
        return 0 not in a.shape
    if not (a.is_contiguous() and b.is_contiguous()):
        return False
    (a0, a1), (b0, b1) = a.extent(), b.extent()
    size, other = a.dtype.itemsize, b.dtype.itemsize
    return a0 * size < b1 * other and b0 * other < a1 * size
