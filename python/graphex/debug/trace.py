"""A trace of all replays in a scope, in the form that Chrome's about:tracing and Perfetto read."""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..native import core


class Row(NamedTuple):
    """What one worker did in one replay; times are nanoseconds."""

    kind: str  # "kernel", "barrier", "stream wait", "island", "replay"
    replay: int
    thread: int
    begin: int
    end: int
    bytes: int
    step: int
    lane: int
    name: str
    range: str
    source: str


@contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Context: writes what each worker does in replays inside to `path`, when it ends.

    path: a .json, or .json.gz, file for ui.perfetto.dev or about:tracing. Per worker there are kernels (with their
        bytes and GB/s, the stream of the capture, the model's line), waits at barriers and for other streams, islands,
        and the user's ranges around them. A traced replay is a little slower: some 100 ns for each of these.
    Work that is queued on streams should be waited for inside. RuntimeError if a trace is being taken already.
    """
    path = Path(path)
    if not path.name.endswith((".json", ".json.gz")):
        raise ValueError(f"a trace is a .json or .json.gz file, not {path.name!r}")
    core().start_trace()
    try:
        yield
    finally:
        rows = [Row(*row) for row in core().stop_trace()]
        _write(path, {"traceEvents": list(_events(rows)), "displayTimeUnit": "ns", "lost": core().trace_lost()})


def _write(path: Path, data: dict[str, Any]) -> None:
    text = json.dumps(data)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


def _events(rows: list[Row]) -> Iterator[dict[str, Any]]:
    process = os.getpid()
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "graphex"}}
    spans = _launch_spans(rows)
    for row in rows:
        yield _slice(process, row.thread, _title(row), row.kind, row.begin, row.end, _details(row, spans))
    by_worker: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row.kind in ("kernel", "island"):
            by_worker[row.replay, row.thread].append(row)
    for (_, thread), mine in by_worker.items():
        for name, begin, end in _ranges(sorted(mine, key=lambda row: row.begin)):
            yield _slice(process, thread, name, "range", begin, end, {})


def _slice(process: int, thread: int, name: str, kind: str, begin: int, end: int, details: Any) -> dict[str, Any]:
    times = {"ts": begin / 1e3, "dur": (end - begin) / 1e3}
    return {"ph": "X", "name": name, "cat": kind, "pid": process, "tid": thread, **times, "args": details}


def _title(row: Row) -> str:
    return row.name if row.kind in ("kernel", "island") else row.kind


def _launch_spans(rows: list[Row]) -> dict[tuple[int, int], tuple[int, int]]:
    """From the first worker's begin to the last one's end, per launch: what a rate of its bytes refers to."""
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for row in rows:
        if row.kind == "kernel":
            begin, end = spans.get((row.replay, row.step), (row.begin, row.end))
            spans[row.replay, row.step] = min(begin, row.begin), max(end, row.end)
    return spans


def _details(row: Row, spans: dict[tuple[int, int], tuple[int, int]]) -> dict[str, Any]:
    details: dict[str, Any] = {"replay": row.replay}
    if row.kind == "replay":
        return details
    details |= {"step": row.step, "stream": row.lane}
    if row.kind == "kernel":
        begin, end = spans[row.replay, row.step]
        details |= {"bytes": row.bytes, "GB/s": round(row.bytes / max(end - begin, 1), 3)}
    if row.kind in ("barrier", "stream wait"):
        details["before"] = row.name
    return details | {k: v for k, v in (("range", row.range), ("source", row.source)) if v}


def _ranges(rows: list[Row]) -> Iterator[tuple[str, int, int]]:
    """The user's ranges over one worker's rows, each from its first row to its last without another between."""
    open_: list[list[Any]] = []  # name, begin, end
    for row in rows:
        names = row.range.split("/") if row.range else []
        same = 0
        while same < min(len(names), len(open_)) and names[same] == open_[same][0]:
            same += 1
        while len(open_) > same:
            yield tuple(open_.pop())
        open_ += [[name, row.begin, row.end] for name in names[same:]]
        for one in open_:
            one[2] = row.end
    while open_:
        yield tuple(open_.pop())
