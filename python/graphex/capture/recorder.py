"""What stands between the region's code and PyTorch: it records calls, answers with tensors of the right layout, and
computes nothing.

Operators that only view memory run, since they touch none. Calls in place return their argument. All others are
inferred by fake tensors and answered with uninitialised memory, which a replay fills.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from ..streams.marks import marks, pop_range, push_range
from ..streams.stream import current_stream
from .errors import CaptureError, at_user_line, stack_trace
from .lanes import Lanes
from .recording import Block, Layout, Recording
from .sized import Sized, is_fixed, varies
from .symbols import NUMBERS, Symbols, by_present_values, oblivious

aten = torch.ops.aten

_DEPENDS_ON_DATA = (fake_tensor.DynamicOutputShapeException, fake_tensor.DataDependentOutputException)
_NO_FAKE = (fake_tensor.UnsupportedFakeTensorException, fake_tensor.UnsupportedOperatorException)
_METADATA_ONLY = (aten._fused_sdp_choice.default,)  # decides by the layout of real tensors
_MOVES_MEMORY = ("resize_", "resize_as_", "set_", "resize", "_resize_output_", "set_data")
_UNDEFINED = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")


@cache
def _is_composite(func: Any) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


@cache
def _packet(func: Any) -> str:
    return func._schema.name.partition("::")[2]


@cache
def _has_dtype(func: Any) -> bool:
    """Whether the operator makes a tensor out of numbers alone, in a dtype that may be left out."""
    arguments = func._schema.arguments
    return any(a.name == "dtype" for a in arguments) and not any("Tensor" in str(a.type) for a in arguments)


class Recorder(TorchDispatchMode):
    """Records the calls of one thread into a Recording."""

    def __init__(self, lanes: Lanes, symbols: Symbols | None = None) -> None:
        super().__init__()
        self.recording = Recording()
        self.lanes, self.symbols = lanes, symbols
        self.ranges = 0  # of the profiler's that are open
        self.fake_mode = FakeTensorMode(shape_env=None if symbols is None else symbols.env)
        if symbols is not None:
            self.fake_mode.cache_enabled = False  # an entry asks for more of sizes than the operator does
        self.failed: CaptureError | None = None

    def refuse(self, message: str) -> CaptureError:
        """The error for what can't be recorded. The capture is lost, also where the region's code catches it."""
        self.failed = at_user_line(f"graphex can't capture {message}")
        return self.failed

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch.inference_mode(False), torch.no_grad():
            if self.symbols is None:
                return self._record(func, args, kwargs or {})
            with oblivious():
                result = self._record(func, args, kwargs or {})
            self.symbols.note_line()
            return result

    def _record(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if not isinstance(func, torch._ops.OpOverload):
            raise self.refuse(f"{func}")
        if func.namespace == "profiler":
            return self._range(func, args, kwargs)
        tensors = [a for a in tree_flatten((args, kwargs))[0] if isinstance(a, torch.Tensor)]
        for t in tensors:
            self._check(func, t)
        if func in _METADATA_ONLY:
            return self._infer(func, args, kwargs, []) if varies((args, kwargs)) else func(*args, **kwargs)
        if _is_composite(func):
            with self:
                return func.decompose(*args, **kwargs)
        if _packet(func) in _MOVES_MEMORY:
            raise self.refuse(f"{func}, which gives a tensor other memory")
        if torch.Tag.inplace_view in func.tags:
            return self._relay(func, args, kwargs)
        if func is aten.lift_fresh.default:
            return self._call(aten.clone.default, args, kwargs)
        if func.is_view and not func._schema.is_mutable:
            return self._view(func, args, kwargs)
        return self._call(_with_its_writes(func, args), args, kwargs)

    def _check(self, func: Any, t: torch.Tensor) -> None:
        if isinstance(t, Sized):
            return
        plain = type(t).__torch_dispatch__ is torch.Tensor.__torch_dispatch__ and not is_traceable_wrapper_subclass(t)
        if not plain or t.device.type != "cpu" or t.layout != torch.strided or t.is_quantized:
            kind = f"{type(t).__name__} on {t.device}, {t.layout}, {t.dtype}"
            raise self.refuse(f"{func} on a tensor that isn't a plain one in the CPU's memory ({kind})")

    def _range(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """torch.profiler.record_function: a range of the graph, and still one of the profiler's."""
        if _packet(func).startswith("_record_function_enter"):
            push_range(args[0])
            self.ranges += 1
        elif _packet(func).startswith("_record_function_exit") and self.ranges:
            pop_range()
            self.ranges -= 1
        return func(*args, **kwargs)

    # -- calls that touch no memory --------------------------------------------------------------------------------

    def _view(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        source = args[0]
        if func.namespace not in ("aten", "prims"):
            raise self.refuse(f"{func}, a custom operator whose result shares memory with an argument")
        if varies((args, kwargs)):
            return self._varying_view(func, args, kwargs)
        made = func(*args, **kwargs)
        parts = made if isinstance(made, list | tuple) else [made]
        node, block = self._node(source), self.recording.block_of(source)
        assert block is not None
        if any(part.untyped_storage()._cdata != source.untyped_storage()._cdata for part in parts):
            raise self.refuse(f"{func}, which returned memory of its own")
        block.seen += map(weakref.ref, parts)
        if func is aten.as_strided.default or all(Layout.of(part) in block.nodes for part in parts):
            return made  # as_strided counts from the storage's start: its result is known by its layout alone
        nodes, keywords = self._as_nodes((node, *args[1:]), kwargs)
        call = self.recording.call(func, nodes, keywords, stack_trace())
        for i, part in enumerate(parts):
            block.nodes.setdefault(Layout.of(part), self._item(call, i) if part is not made else call)
        return made

    def _varying_view(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if func is aten.as_strided.default:
            raise self.refuse(f"{func} of a tensor whose size or place follows a refreshable number")
        made = self._infer(func, args, kwargs, [])
        nodes, keywords = self._as_nodes(args, kwargs)
        call = self.recording.call(func, nodes, keywords, stack_trace())
        block = self._block(args[0])
        if isinstance(made, torch.Tensor):
            return Sized.of(made, call, block)
        return type(made)(Sized.of(part, self._item(call, i), block) for i, part in enumerate(made))

    def _block(self, t: torch.Tensor) -> Block:
        block = t.block if isinstance(t, Sized) else self.recording.block_of(t)
        assert block is not None
        return block

    def _place(self, t: torch.Tensor) -> tuple[Block, Layout]:
        """Where a tensor lies; of one that varies nothing is said but whose memory it is."""
        varied = Layout(t.dtype, (0,), (1,), 0)
        return self._block(t), varied if isinstance(t, Sized) else Layout.of(t)

    def _relay(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """x.t_() and the like: x is then known by its new layout."""
        if isinstance(args[0], Sized):
            raise self.refuse(f"{func} on a tensor whose size or place follows a refreshable number")
        block = self.recording.block_of(args[0])
        if _packet(func) == "detach_":
            return func(*args, **kwargs)
        if block is None or block.made is None:
            raise self.refuse(f"{func} on a tensor from outside, whose shape the capture would change")
        return func(*args, **kwargs)

    # -- calls that compute ----------------------------------------------------------------------------------------

    def _call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        results = self._infer(func, args, kwargs, pairs)
        leaves, spec = tree_flatten(results)
        if not all(leaf is None or isinstance(leaf, torch.Tensor) for leaf in leaves):
            raise self.refuse(f"{func}, which returns {type(leaves[0]).__name__} that depends on data")
        node = self._note(func, args, kwargs, leaves)
        several = isinstance(results, list | tuple)
        arguments = {id(fake): real for fake, real in pairs}
        made = []
        for i, leaf in enumerate(leaves):
            argument = arguments.get(id(leaf))
            made.append(self._result(func, leaf, node, i if several else None) if argument is None else argument)
        return tree_unflatten(made, spec)

    def _note(self, func: Any, args: Any, kwargs: dict[str, Any], leaves: list[Any]) -> torch.fx.Node:
        if _has_dtype(func) and kwargs.get("dtype") is None:
            kwargs = {**kwargs, "dtype": leaves[0].dtype}  # not the default dtype of some later day
        nodes, keywords = self._as_nodes(args, kwargs)
        writes = [self._place(t) for t in _written(func, args, kwargs)]
        self._mark(args, kwargs, writes)
        node = self.recording.call(func, nodes, keywords, stack_trace())
        for block, _ in writes:
            block.written = True
        return node

    def _mark(self, args: Any, kwargs: dict[str, Any], writes: list[tuple[Block, Layout]]) -> None:
        """Notes on which stream the next call is, and what else holds for it."""
        reads = []
        if self.lanes.forked:
            tensors = [a for a in tree_flatten((args, kwargs))[0] if isinstance(a, torch.Tensor)]
            reads = [self._place(t) for t in tensors]
        try:
            lane = self.lanes.note(stream := current_stream(), reads, writes)
        except CaptureError as why:
            self.failed = why
            raise
        self.recording.marks = marks(lane, stream.cores, self.lanes.segments[lane], self.lanes.rounds)

    def _result(self, func: Any, leaf: Any, call: torch.fx.Node, index: int | None) -> torch.Tensor | None:
        if leaf is None:
            return None
        if leaf.device.type != "cpu" or leaf.layout != torch.strided or leaf.is_quantized:
            raise self.refuse(f"{func}, whose result is {leaf.layout}, {leaf.dtype} on {leaf.device}")
        node = call if index is None else self._item(call, index)
        if not is_fixed(leaf):
            return Sized.of(leaf, node, Block(None))
        made = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype)
        self.recording.add_result(made, node, _packet(func) in _UNDEFINED)
        if self.lanes.forked:
            self.lanes.note(current_stream(), [], [self._place(made)])
        return made

    def _item(self, call: torch.fx.Node, index: int) -> torch.fx.Node:
        return self.recording.call(operator.getitem, (call, index))

    def _infer(self, func: Any, args: Any, kwargs: dict[str, Any], pairs: list[Any]) -> Any:
        def fake(t: torch.Tensor) -> torch.Tensor:
            made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
            made = made.conj() if t.is_conj() else made._neg_view() if t.is_neg() else made
            pairs.append((made, t))
            return made

        try:
            with self.fake_mode:
                fakes = tree_map_only(torch.Tensor, fake, (tuple(args), kwargs))
                try:
                    return func(*fakes[0], **fakes[1])
                except _DEPENDS_ON_DATA:
                    if self.symbols is None:
                        raise
                    with by_present_values():
                        return func(*fakes[0], **fakes[1])
        except _DEPENDS_ON_DATA:
            raise self.refuse(f"{func}, whose result's size or value depends on data") from None
        except _NO_FAKE:
            raise self.refuse(f"{func}, which says nothing of its result (torch.library.register_fake does)") from None
        except Exception:
            if not varies((args, kwargs)):
                _raise_as_eager(func, args, kwargs)
            raise

    def _node(self, t: torch.Tensor) -> torch.fx.Node:
        if isinstance(t, Sized):
            return t.node
        try:
            return self.recording.node_of(t)
        except ValueError as why:
            raise self.refuse(str(why)) from None

    def _as_nodes(self, args: Any, kwargs: dict[str, Any]) -> Any:
        in_nodes = tree_map_only(torch.Tensor, self._node, (tuple(args), kwargs))
        if self.symbols is not None:
            in_nodes = tree_map_only(NUMBERS, self._number, in_nodes)
        return tree_map_only(torch.Generator, self.recording.generator, in_nodes)

    def _number(self, number: Any) -> Any:
        assert self.symbols is not None
        return self.symbols.node_of(number, self.recording.graph)


def _written(func: Any, args: Any, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The arguments that the operator's schema says it writes."""
    found = []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            found += [t for t in (value if isinstance(value, list | tuple) else [value]) if t is not None]
    return found


def _with_its_writes(func: Any, args: Any) -> Any:
    """The operator itself, or where its schema hides that it writes running statistics, the one that tells."""
    if func is aten.native_batch_norm.default and args[3] is not None and args[5]:
        return aten._native_batch_norm_legit.default
    return func


def _raise_as_eager(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> None:
    """Raises what eager PyTorch says of a call that can't be. On copies: nothing of the user's may change."""
    copies = tree_map_only(torch.Tensor, lambda t: t.detach().clone(), (args, kwargs))
    func(*copies[0], **copies[1])
