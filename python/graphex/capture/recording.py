"""A recording: memory that a region saw, the calls on it, and how both become one graph with inputs and no outputs.

A value is known by its memory and layout, not by its tensor object: two tensors that lie alike over one storage are one
node. A node stands for memory, as tensors do, so calls in place need no care here; AOTAutograd functionalises the
graph. Results live in memory of their own which is an input of the graph, written at its end.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.multiprocessing.reductions import StorageWeakRef

aten = torch.ops.aten


class Layout(NamedTuple):
    """How a tensor lies over its storage: sizes, strides and offset in elements."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    conj: bool = False
    neg: bool = False

    @classmethod
    def of(cls, t: torch.Tensor) -> Layout:
        """The layout of a strided tensor."""
        return cls(t.dtype, tuple(t.shape), t.stride(), t.storage_offset(), t.is_conj(), t.is_neg())

    def empty(self) -> torch.Tensor:
        """A tensor with this layout over memory of its own, from the first element on; not of inference mode."""
        if torch.is_inference_mode_enabled():
            with torch.inference_mode(False):
                return self.empty()
        return self.marked(torch.empty_strided(self.shape, self.strides, dtype=self.dtype))

    def marked(self, t: torch.Tensor) -> torch.Tensor:
        """A tensor of this shape with this layout's marks for conjugate and negative views."""
        t = t.conj() if self.conj else t
        return t._neg_view() if self.neg else t

    def from_its_start(self) -> Layout:
        """The layout without what no reader of the tensor sees: its offset, and strides of sizes 1."""
        strides = tuple(stride if n > 1 else 0 for n, stride in zip(self.shape, self.strides, strict=True))
        return self._replace(strides=strides, offset=0)

    def extent(self) -> tuple[int, int]:
        """First and one past the last element that it touches, counted from the storage's start."""
        if 0 in self.shape:
            return self.offset, self.offset
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return self.offset, self.offset + last + 1

    def is_contiguous(self) -> bool:
        """Whether it is row-major without gaps; strides of sizes 1 don't count."""
        expected = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != expected:
                return False
            expected *= n
        return True


@dataclass
class Block:
    """One storage that the region saw."""

    ref: StorageWeakRef | None  # keeps its identity, not its memory; None: it has none, its size varies
    storage: torch.UntypedStorage | None = None  # held, if it is the user's
    nodes: dict[Layout, fx.Node] = field(default_factory=dict)
    written: bool = False
    made: Layout | None = None  # the layout of the result that it was made for; None if it is the user's
    undefined: bool = False  # made by an operator that leaves its contents as they are
    seen: list[Any] = field(default_factory=list)  # weak references to tensors over it that the region made

    def held(self) -> torch.Tensor:
        """A tensor over it, if it is still held: one that the region made, whose version then counts our writes."""
        for tensor in (ref() for ref in self.seen):
            if tensor is not None:
                return tensor
        assert self.ref is not None
        storage = torch.UntypedStorage._new_with_weak_ptr(self.ref.cdata)
        return torch.empty(0, dtype=torch.uint8).set_(storage)


@dataclass
class Input:
    """An input of the recorded graph: its placeholder, and the tensor that it stands for."""

    node: fx.Node
    tensor: torch.Tensor
    block: Block
    layout: Layout
    made_inside: bool = False
    requires_grad: bool = False


class Recording:
    """What a region did: an FX graph of ATen overloads, the memory it saw, and, when finished, the graph's inputs."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.blocks: dict[int, Block] = {}
        self.inputs: list[Input] = []
        self.numbers: list[Any] = []  # SymInts and SymFloats: the graph's inputs behind the tensors
        self.root = torch.nn.Module()  # holds the generators that calls draw from
        self.only_eager = ""  # why no functional graph can be made of it
        self.marks: dict[str, Any] = {}  # of the calls to come, see streams.marks

    def block_of(self, t: torch.Tensor) -> Block | None:
        """The memory of a tensor, if the region has seen it."""
        return self.blocks.get(t.untyped_storage()._cdata)

    def node_of(self, t: torch.Tensor) -> fx.Node:
        """The node of a tensor; memory that the region didn't make becomes an input."""
        storage, layout = t.untyped_storage(), Layout.of(t)
        block = self.blocks.get(storage._cdata)
        if block is None:
            block = self.blocks[storage._cdata] = Block(StorageWeakRef(storage), storage)
        node = block.nodes.get(layout)
        if node is None:
            node = self._new_layout(block, layout, t)
            block.nodes[layout] = node
        return node

    def _new_layout(self, block: Block, layout: Layout, t: torch.Tensor) -> fx.Node:
        if block.made is None:
            node = self._placeholder()
            self.inputs.append(Input(node, t, block, layout, requires_grad=t.requires_grad))
            return node
        base = block.nodes[block.made]
        if layout.dtype != block.made.dtype or layout.conj or layout.neg:
            raise ValueError(f"a view as {layout.dtype} that no operator made")
        return self.call(aten.as_strided.default, (base, *layout[1:4]))

    def _placeholder(self) -> fx.Node:
        at = self.inputs[-1].node if self.inputs else None
        with self.graph.inserting_after(at) if at else self.graph.inserting_before():
            return self.graph.placeholder(f"memory_{len(self.inputs)}")

    def number(self, number: Any) -> fx.Node:
        """Makes a number that varies an input of the graph."""
        self.numbers.append(number)
        return self.graph.placeholder(f"number_{len(self.numbers)}")

    def call(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, trace: str = ""
    ) -> fx.Node:
        """Adds a call."""
        node = self.graph.call_function(target, args, kwargs or {})
        node.meta["stack_trace"] = trace
        if self.marks:
            node.meta["custom"] = self.marks
        return node

    def generator(self, generator: torch.Generator) -> fx.Node:
        """A generator of the user's, which only eager PyTorch can draw from."""
        name = f"generator_{id(generator)}"
        setattr(self.root, name, generator)
        self.only_eager = "the region draws from a generator that isn't PyTorch's default one"
        return self.graph.get_attr(name)

    def add_result(self, t: torch.Tensor, node: fx.Node, undefined: bool) -> None:
        """Notes the fresh tensor that a call's result will lie in."""
        storage, layout = t.untyped_storage(), Layout.of(t)
        block = Block(StorageWeakRef(storage), None, {layout: node}, made=layout, undefined=undefined)
        block.seen.append(weakref.ref(t))
        self.blocks[storage._cdata] = block

    def finish(self) -> None:
        """Makes memory that outlives the region an input, and the graph complete. Call it once."""
        for block in list(self.blocks.values()):
            if block.made is not None and block.ref is not None and not block.ref.expired():
                self._keep(block, block.made)
        for block in self.blocks.values():
            if block.made is None and block.written:
                self._separate([i for i in self.inputs if i.block is block], block)
        for i in self.inputs:
            i.tensor = over(i.tensor, i.layout)
        self.graph.output(())
        self.graph.lint()

    def _keep(self, block: Block, layout: Layout) -> None:
        """Gives the graph the memory of a result that is still held."""
        memory, value = self._placeholder(), block.nodes[layout]
        self.inputs.append(Input(memory, over(block.held(), layout), block, layout, made_inside=True))
        if block.undefined:  # as on accelerators: what is in it stays, until the graph writes it
            value.replace_all_uses_with(memory)
            self.graph.erase_node(value)
        else:
            self.call(aten.copy_.default, (memory, value))
        block.written = True

    def _separate(self, inputs: list[Input], block: Block) -> None:
        """Inputs that share memory which the graph writes become views of one input."""
        extents = sorted(i.layout.extent() for i in inputs)
        if all(a[1] <= b[0] for a, b in zip(extents, extents[1:], strict=False)):
            return
        if len({i.layout.dtype for i in inputs}) > 1 or any(i.layout.conj or i.layout.neg for i in inputs):
            self.only_eager = "the region writes memory that it sees as several dtypes"
            return
        size = max(end for _, end in extents)
        whole = Layout(inputs[0].layout.dtype, (size,), (1,), 0)
        base = Input(self._placeholder(), over(inputs[0].tensor, whole), block, whole)
        at = base.node
        for i in inputs:
            with self.graph.inserting_after(at):
                at = self._part(base.node, i.layout)
            i.node.replace_all_uses_with(at)
            self.graph.erase_node(i.node)
        self.inputs = [i for i in self.inputs if i not in inputs] + [base]

    def _part(self, base: fx.Node, layout: Layout) -> fx.Node:
        if not layout.is_contiguous():
            return self.call(aten.as_strided.default, (base, *layout[1:4]))
        start, end = layout.extent()
        part = self.graph.call_function(aten.slice.Tensor, (base, 0, start, end))
        with self.graph.inserting_after(part):
            return self.graph.call_function(aten.view.default, (part, layout.shape))


def plain(t: torch.Tensor) -> torch.Tensor:
    """The tensor, or another one that lies like it, which is plain as `over` says."""
    is_plain = type(t) is torch.Tensor and not t.requires_grad and not t.is_inference()
    return t if is_plain else over(t, Layout.of(t))


def over(t: torch.Tensor, layout: Layout) -> torch.Tensor:
    """A plain tensor over the memory of t: not a Parameter, never of inference mode, part of no autograd graph."""
    if t.is_inference() or t.dtype != layout.dtype or t.is_conj() or t.is_neg():
        with torch.inference_mode(False):
            fresh = torch.empty(0, dtype=layout.dtype)
            return layout.marked(fresh.set_(t.untyped_storage(), layout.offset, layout.shape, layout.strides))
    return t.detach().as_strided(*layout[1:4])
