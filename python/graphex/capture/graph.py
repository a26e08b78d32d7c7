"""Capture and replay of eager code, in the shape of torch.cuda.graph.

g = graphex.Graph()
with graphex.graph(g):
    y = model(x)      # records, computes nothing
x.copy_(prompt)
g.replay()            # y now holds model(prompt)
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from os import PathLike
from types import SimpleNamespace, TracebackType
from typing import Any

import torch

from ..debug import bug, dump
from ..native import core
from ..options import resolve
from ..streams.stream import current_stream
from ..streams.stream import stream as stream_context
from .errors import CaptureError
from .lanes import Lanes
from .reads import RefuseReads
from .recorder import Recorder
from .recording import Input, Layout, plain
from .refreshable import Refreshable
from .refreshing import Refreshing
from .replayer import Replayer
from .results import Known, Results, with_new_memory
from .sources import sources_forgotten
from .state import CAPTURING, LANES, is_capturing

_ERROR_MODES = ("global", "thread_local", "relaxed")
_open = threading.Lock()


class Graph:
    """A captured region. Empty until a `graphex.graph` context, or capture_begin and capture_end, fill it.

    Tensors from outside (static inputs, weights, caches) are read and written where they lie. Tensors made inside that
    are still held at the end are outputs: each replay writes them anew, in the same memory. The graph holds both.
    """

    def __init__(self) -> None:
        self._capture: _Capture | None = None
        self._replayer: Replayer | None = None
        self._inputs: list[Input] = []
        self._tensors: list[torch.Tensor] = []
        self._written: list[int] = []
        self._named: dict[str, _Named] = {}
        self._known = Known({}, [])
        self._refreshing = Refreshing({})
        self._pool: Any = None

    def capture_begin(
        self,
        pool: Any = None,
        capture_error_mode: str = "global",
        *,
        inputs: Mapping[str, torch.Tensor] | None = None,
        refresh: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> SimpleNamespace:
        """Records what this thread does until capture_end. `graphex.graph` says what arguments and result are."""
        if self._replayer is not None or self._capture is not None:
            raise CaptureError("this graphex.Graph holds a graph already; call reset() first, or use a new one")
        capture = _Capture(capture_error_mode, dict(inputs or {}), Refreshing(refresh or {}), resolve(options))
        self._pool, self._capture = _checked_pool(pool), capture
        try:
            return capture.enter()
        except BaseException:
            self._capture = None
            raise

    def capture_end(self) -> None:
        """Ends the recording and compiles it. CaptureError where something in it couldn't be captured."""
        if self._capture is None:
            raise CaptureError("capture_end() without capture_begin()")
        capture, self._capture = self._capture, None
        capture.leave()
        recorder = capture.recorder
        if recorder.failed is not None:
            raise CaptureError(str(recorder.failed))
        recorder.lanes.finish()
        with torch.inference_mode(False), torch.no_grad():
            recorder.recording.finish()
        named = capture.named()
        with sources_forgotten():
            replayer = Replayer(recorder.recording, recorder.fake_mode, capture.values, self._pool)
        capture.refreshing.finish()
        self._replayer, self._refreshing = replayer, capture.refreshing
        self._inputs = recorder.recording.inputs
        self._tensors = [i.tensor for i in self._inputs]
        self._written = [k for k, i in enumerate(self._inputs) if i.block.written]
        self._named, self._known = named, Known({name: n.tensor for name, n in named.items()}, self._inputs)
        self._options = capture.values

    @property
    def _reported(self) -> Any:
        """What graphex.explain looks for."""
        return self if self._replayer is None else self._replayer.reported

    def _abandon(self) -> None:
        if self._capture is not None:
            self._capture.leave()
            self._capture = None

    def replay(self, /, *, fresh: Any = None, **inputs: Any) -> Any:
        """Runs the captured region once. Keywords bind other tensors to named inputs for this replay, without a copy,
        and give refreshable values others, which may be numbers and lists.

        fresh: None, or the region's results (tensors that it made and that are still held, views of them, named inputs)
            in any nesting of containers. Then this replay writes none of the memory that the others share: what it
            makes goes to new tensors, returned in the same nesting. Several threads may do so at once.
        ValueError for a tensor of another dtype, shape or strides than the captured one's, or for one in `fresh` that
        this graph doesn't know.
        """
        if is_capturing():
            raise CaptureError("a replay inside a captured region can't be recorded; end the capture first")
        if self._replayer is None:
            raise CaptureError("this graphex.Graph is empty: nothing was captured since it was made or reset")
        if not inputs and fresh is None:
            return self._run(self._tensors, self._refreshing.numbers_with({}))
        given = {name: value for name, value in inputs.items() if name in self._refreshing.declared}
        if given:
            inputs |= self._refreshing.checked(given)
        numbers = self._refreshing.numbers_with(given and inputs)
        bound = {name: value for name, value in inputs.items() if name not in self._refreshing.numbers}
        if fresh is not None:
            return self._replay_fresh(fresh, bound, numbers)
        self._run(self._bound(bound) if bound else self._tensors, numbers)
        return None

    def update(self, name: str | Refreshable, value: Any) -> None:
        """Gives a refreshable value, named or as it was declared, another one for all later replays.

        ValueError or TypeError for a value that doesn't fit; the graph then keeps the old one.
        """
        self._refreshing.update(name, value)

    def _replay_fresh(self, fresh: Any, inputs: Mapping[str, torch.Tensor], numbers: Sequence[int | float]) -> Any:
        results = Results(fresh, self._known)
        tensors = with_new_memory(self._bound(inputs, views_too=True), self._inputs)
        for unknown in results.constants():
            if not self._known.has(unknown):
                raise ValueError(
                    f"fresh holds a tensor of shape {tuple(unknown.shape)} that this graph neither makes nor uses; "
                    "give it tensors that the captured region made, or its named inputs"
                )
        self._run(tensors, numbers)
        return results.take({**self._known.named, **inputs}, tensors)

    def _run(self, tensors: list[torch.Tensor], numbers: Sequence[int | float] = ()) -> None:
        assert self._replayer is not None
        self._replayer(tensors, numbers)
        if self._written:
            torch.autograd.graph.increment_version([tensors[k] for k in self._written])

    def _bound(self, inputs: Mapping[str, torch.Tensor], views_too: bool = False) -> list[torch.Tensor]:
        """The graph's inputs with these named ones. `views_too`: views of them are made anew for the caller."""
        tensors = list(self._tensors)
        for name, tensor in inputs.items():
            if name not in self._named:
                known = ", ".join(sorted(self._named)) or "none; name them by graphex.graph(g, inputs={...})"
                raise ValueError(f"this graph has no input {name!r}; its named inputs are {known}")
            index = self._named[name].checked(name, tensor, views_too)
            if index is not None:
                tensors[index] = plain(tensor)
        return tensors

    def debug_dump(self, path: str | PathLike[str]) -> None:
        """Writes what the graph consists of: steps, what they read and write, memory. Offsets once it was replayed.

        path: a .json file, or .dot or .gv for Graphviz, in the colours of the streams. ValueError for another one.
        """
        self._filled("dump")
        names = {named.index: name for name, named in self._named.items() if named.index is not None}
        dump.dump(path, self._replayer, self._inputs, names)

    def save_recording(self, path: str | PathLike[str]) -> None:
        """Writes a JSON file for a bug report: the recorded calls, shapes, seed, ranges of integer inputs; no weights.

        `python -m graphex replay-bug FILE` runs it on random inputs and compares with eager PyTorch.
        """
        self._filled("save")
        bug.save(path, self._replayer, self._inputs, list(self._refreshing.numbers.values()), self._options)

    def _filled(self, what: str) -> None:
        if self._replayer is None:
            raise CaptureError(f"this graphex.Graph is empty: there is nothing to {what} until it was captured")

    def pool(self) -> Any:
        """The handle of the graph's pool of working memory, to be given to other captures."""
        if self._replayer is None:
            raise CaptureError("this graphex.Graph is empty: it has a pool once it was captured")
        return self._pool

    def reset(self) -> None:
        """Empties the graph and lets go of its memory; it can then be captured anew."""
        self._abandon()
        self.__init__()  # type: ignore[misc]


def graph_pool_handle() -> Any:
    """A new pool of working memory, for the captures that shall share it.

    Replays one after the other of all graphs of a pool work in one block, as large as the largest of them needs;
    replays at the same time have a block each. Results don't lie in it. `idle_bytes` is what it holds between replays.
    """
    return core().Pool()


def _checked_pool(pool: Any) -> Any:
    if pool is None:
        return graph_pool_handle()
    if not isinstance(pool, core().Pool):
        raise TypeError(f"pool is None, a graph_pool_handle() or a graph's pool(), not {type(pool).__name__}")
    return pool


class _Named:
    """A named input: which argument of the graph it is, and what may take its place."""

    def __init__(self, index: int | None, tensor: torch.Tensor, views: list[Any]) -> None:
        self.index, self.tensor = index, tensor  # None: the region doesn't use it
        self.layout = Layout.of(tensor)
        self.views = views

    def checked(self, name: str, tensor: Any, views_too: bool = False) -> int | None:
        """The argument's place; ValueError if the tensor doesn't fit."""
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"input {name!r} of the graph takes a tensor, not {type(tensor).__name__}")
        wanted, got = self.layout, Layout.of(tensor)
        if wanted != got and wanted.from_its_start() != got.from_its_start():
            raise ValueError(
                f"input {name!r} of the graph was captured as {wanted.dtype} of shape {wanted.shape} and strides "
                f"{wanted.strides}; got {got.dtype} of shape {got.shape} and strides {got.strides}"
            )
        if not views_too and any(view() is not None for view in self.views):
            raise ValueError(f"a view of input {name!r} made in the region is still held and would keep its memory")
        return self.index


class _Capture:
    """A capture under way in this thread."""

    def __init__(
        self, error_mode: str, inputs: dict[str, torch.Tensor], refreshing: Refreshing, values: dict[str, Any]
    ) -> None:
        if error_mode not in _ERROR_MODES:
            raise ValueError(f"capture_error_mode is one of {', '.join(_ERROR_MODES)}, not {error_mode!r}")
        for name in ("fresh", *refreshing.declared):
            if name in inputs or (name == "fresh" and name in refreshing.declared):
                raise ValueError(f"an input can't be named {name!r}: replay() takes another thing by that keyword")
        self.error_mode, self.values = error_mode, values
        self.inputs, self.refreshing = {**inputs, **refreshing.tensors}, refreshing
        self.recorder = Recorder(Lanes(current_stream()), refreshing.symbols)
        self.reads = RefuseReads(self.recorder, error_mode == "relaxed")
        self.thread = threading.get_ident()

    def enter(self) -> SimpleNamespace:
        seen = self.refreshing.region_values()
        if self.refreshing.symbols is not None:
            self.refreshing.symbols.record(self.recorder.recording)
        with _open:
            if self.thread in CAPTURING:
                raise CaptureError("a capture inside a captured region; end the first one before the second begins")
            if CAPTURING and "global" in (self.error_mode, *CAPTURING.values()):
                raise CaptureError(
                    "another thread is capturing; with capture_error_mode='thread_local' in both, both may"
                )
            CAPTURING[self.thread], LANES[self.thread] = self.error_mode, self.recorder.lanes
        core().set_capturing(True)
        self.reads.__enter__()
        self.recorder.__enter__()
        return SimpleNamespace(**seen)

    def leave(self) -> None:
        if threading.get_ident() != self.thread:
            raise CaptureError("a capture ends in the thread that began it")
        self.recorder.__exit__(None, None, None)
        self.reads.__exit__(None, None, None)
        core().set_capturing(False)
        with _open:
            del CAPTURING[self.thread], LANES[self.thread]

    def named(self) -> dict[str, _Named]:
        """Where the named inputs are among the graph's; CaptureError for one that shares memory."""
        recording, found = self.recorder.recording, {}
        storages = [t.untyped_storage()._cdata for t in self.inputs.values()]
        for name, tensor in self.inputs.items():
            if storages.count(tensor.untyped_storage()._cdata) > 1:
                raise CaptureError(f"input {name!r} shares memory with another named input; only one can be bound")
            block = recording.block_of(tensor)
            uses = [k for k, i in enumerate(recording.inputs) if i.block is block]
            layout = Layout.of(tensor)
            if len(uses) > 1 or any(recording.inputs[k].layout != layout for k in uses):
                raise CaptureError(
                    f"input {name!r} shares memory with another tensor that the region uses; it can't be bound apart"
                )
            found[name] = _Named(uses[0] if uses else None, tensor, block.seen if block else [])
        return found


class graph:  # noqa: N801  the name that users of torch.cuda.graph know
    """Context: captures what its body does into `g`. Nothing in it computes, and no tensor from outside changes.

    pool: None, or a handle of graph_pool_handle() or another graph's pool(), whose graphs share working memory.
    stream: the graphex.Stream that is current in the body, beside which others may join; None: the current one.
    capture_error_mode: "global" refuses captures in two threads at once, "thread_local" allows them, "relaxed" also
        lets the region read values (.item(), bool(t)) of tensors from outside, which the graph then holds for good.
    inputs: names for tensors from outside, for which `replay` then takes others.
    refresh: names for values that `replay` and `Graph.update` then replace: graphex.Refreshable or what that takes. The
        context's result has them as attributes: ints and floats as PyTorch's symbolic numbers, lists as tensors, a
        tensor as itself. What the region decides by a number (if, while) is checked at each replay.
    options: as of torch.compile(backend="graphex").
    Raises CaptureError for what can't be captured, with the user's line; the graph is empty then.
    """

    def __init__(
        self,
        g: Graph,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        *,
        inputs: Mapping[str, torch.Tensor] | None = None,
        refresh: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.stream = stream_context(stream)
        self.g, self.pool, self.mode = g, pool, capture_error_mode
        self.inputs, self.refresh, self.options = inputs, refresh, options

    def __enter__(self) -> SimpleNamespace:
        self.stream.__enter__()
        try:
            return self.g.capture_begin(
                self.pool, self.mode, inputs=self.inputs, refresh=self.refresh, options=self.options
            )
        except BaseException:
            self.stream.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.g.capture_end()
            else:
                self.g._abandon()
        finally:
            self.stream.__exit__(kind, value, trace)
