"""A function captured at several sizes, on one pool and one set of weights; each call is padded to the next of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .callables import Graphed
from .errors import CaptureError
from .graph import graph_pool_handle
from .padding import Padding, resized
from .state import is_capturing

Key = tuple[int, int, tuple[str, ...], bool | None]  # size, positional arguments, keywords, a module's mode


class _Call(NamedTuple):
    """The tensors of a call: positional ones, then those by keyword."""

    names: tuple[int | str, ...]
    tensors: tuple[torch.Tensor, ...]


class Buckets:
    """A function of tensors whose calls are replays of captures for a few sizes.

    A call of size n is padded to a bucket, a size that isn't smaller, and its results are cut back to n. A bucket is
    captured at the first call that needs it. Captures share a pool and read weights where they are; several threads
    may call at once. An argument that the function writes holds the values afterwards as if it hadn't been padded.

    function: takes tensors by position or keyword and returns tensors in any nesting of containers.
    sizes: the buckets, or a function from a size to its bucket.
    dims: the dimension that varies, of all arguments, or by position or name: {0: 0, "mask": 1}; arguments that
        aren't listed, or are None, don't vary and are bound as they are.
    pad: the number that padding holds, for all arguments or by position or name; 0 where not listed.
    outputs: the dimension of all results that varies, or an entry for each tensor of the result; None: it doesn't.
    limit: how many captures to keep besides pinned ones; the one that wasn't used for longest makes room. None: all.
    pinned: buckets that never make room.
    pool, options: as of graphex.graph.
    Calls that need gradients run the function itself. ValueError, with nothing run, for a size above all buckets and
    for arguments that don't fit together.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        sizes: Iterable[int] | Callable[[int], int],
        *,
        dims: int | Mapping[int | str, int | None] = 0,
        pad: float | Mapping[int | str, float] = 0,
        outputs: int | None | Sequence[int | None] = 0,
        limit: int | None = None,
        pinned: Iterable[int] = (),
        pool: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if limit is not None and limit < 1:
            raise ValueError(f"limit is None or at least 1, the capture that a call needs; not {limit}")
        self.function, self.limit, self.options = function, limit, options
        self.pool = graph_pool_handle() if pool is None else pool
        self._sizes: Callable[[int], int] | tuple[int, ...] = sizes if callable(sizes) else _checked(sizes)
        self._padding = Padding(dims, pad, outputs)
        self._pinned: set[int] = set()
        self.pin(*pinned)
        self._kept: dict[Key, Graphed] = {}  # the one used last is last
        self._captures = 0
        self._lock, self._capturing = threading.Lock(), threading.Lock()

    @property
    def captured(self) -> tuple[int, ...]:
        """The buckets that are captured now, in increasing order."""
        with self._lock:
            return tuple(sorted({key[0] for key in self._kept}))

    @property
    def captures(self) -> int:
        """How many captures were made so far; it grows on and on where `limit` is too small for the calls."""
        return self._captures

    def pin(self, *sizes: int) -> None:
        """From now on these buckets, once captured, never make room for others."""
        for size in sizes:
            if isinstance(self._sizes, tuple) and size not in self._sizes:
                raise ValueError(f"{size} can't be pinned; the buckets are {_listed(self._sizes)}")
        self._pinned.update(sizes)

    def unpin(self, *sizes: int) -> None:
        """These buckets may make room again."""
        self._pinned.difference_update(sizes)

    def bucket(self, n: int) -> int:
        """The bucket of a size."""
        if isinstance(self._sizes, tuple):
            fitting = [size for size in self._sizes if size >= n]
            if not fitting:
                raise ValueError(f"size {n} is above all buckets, which are {_listed(self._sizes)}")
            return fitting[0]
        size = self._sizes(n)
        if isinstance(size, bool) or not isinstance(size, int) or size < max(n, 1):
            raise ValueError(f"the function from size to bucket made {size!r} of {n}; expected an int, at least {n}")
        return size

    def warm(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> None:
        """Captures all listed buckets, the largest first, for arguments like these of any size. Runs none of them."""
        if not isinstance(self._sizes, tuple):
            raise ValueError("warm() needs sizes as a list, not as a function from size to bucket")
        call = _call(args, kwargs)
        self._padding.size_of(call.names, call.tensors)
        for size in reversed(self._sizes):
            self._graphed(size, call)

    def __call__(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        """The function's results for these arguments."""
        if is_capturing():
            raise CaptureError("a call of graphex.Buckets inside a captured region; capture the function itself there")
        call = _call(args, kwargs)
        n = self._padding.size_of(call.names, call.tensors)
        size = self.bucket(n)
        padded = tuple(self._padding.padded(name, t, size) for name, t in zip(*call, strict=True))
        graphed = self._graphed(size, call)
        if graphed.needs_gradients(call.tensors):
            return self.function(*args, **kwargs)
        results = graphed.run(padded, call.tensors)
        self._padding.copy_back(call.names, call.tensors, padded, graphed.written)
        return self._padding.cut(results, n, size, call.tensors)

    # -- captures ----------------------------------------------------------------------------------------------------

    def _graphed(self, size: int, call: _Call) -> Graphed:
        keywords = tuple(name for name in call.names if isinstance(name, str))
        key = (size, len(call.names) - len(keywords), keywords, getattr(self.function, "training", None))
        graphed = self._used(key)
        if graphed is not None:
            return graphed
        with self._capturing:
            graphed = self._used(key)  # another thread may have captured it while this one waited
            if graphed is None:
                graphed = self._capture(key, call)
                self._keep(key, graphed)
        return graphed

    def _used(self, key: Key) -> Graphed | None:
        with self._lock:
            graphed = self._kept.pop(key, None)
            if graphed is not None:
                self._kept[key] = graphed
            return graphed

    def _capture(self, key: Key, call: _Call) -> Graphed:
        size, count, keywords, _ = key
        sample = [resized(t, self._padding.dim_of(name), size) for name, t in zip(*call, strict=True)]

        def function(*tensors: torch.Tensor) -> Any:
            return self.function(*tensors[:count], **dict(zip(keywords, tensors[count:], strict=True)))

        graphed = Graphed(function, sample, self.pool, self.options, "thread_local")
        self._padding.check_results(graphed.shapes(), size)
        graphed.forget_samples()
        return graphed

    def _keep(self, key: Key, graphed: Graphed) -> None:
        with self._lock:
            self._captures += 1
            self._kept[key] = graphed
            loose = [k for k in self._kept if k[0] not in self._pinned]
            if self.limit is not None and len(loose) > self.limit:
                del self._kept[loose[0]]


def _call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
    names: tuple[int | str, ...] = (*range(len(args)), *sorted(kwargs))
    call = _Call(names, (*args, *(kwargs[name] for name in sorted(kwargs))))
    for name, t in zip(*call, strict=True):
        if not isinstance(t, torch.Tensor):
            raise TypeError(
                f"argument {name!r} of graphex.Buckets is {type(t).__name__}; expected a tensor (functools.partial "
                "binds others)"
            )
    return call


def _checked(sizes: Iterable[int]) -> tuple[int, ...]:
    kept = tuple(sorted(set(sizes)))
    if not kept or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in kept):
        raise ValueError(f"sizes are ints, at least 1, or a function from a size to its bucket; got {kept}")
    return kept


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))
