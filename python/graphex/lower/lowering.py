"""Lowering: walks AOT's FX graph and writes the IR's text, the signature, and the islands.

Each node is given to its lowering; a node without one, or whose lowering raises Unsupported, becomes an island. What
can't even be an island (a dtype that the IR has no name for, a size that it has no words for) raises Unsupported.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from ..streams.marks import attributes_of
from .builder import Builder
from .complex import Complex, is_complex, lower_complex
from .errors import Unsupported, UnsupportedError
from .exprs import Size, symbols_of, text_of, to_size
from .islands import is_effect, make_island, returns_view
from .layouts import Layouts
from .registry import LOWERINGS
from .scalars import FloatExpr
from .types import Spec, Value, spec_of

log = logging.getLogger("graphex")
_DEFINED = re.compile(r"%([\w.]+):")
_ADDRESSABLE = 2**47  # bytes


@dataclass
class Island:
    """One node that eager PyTorch runs: which, why, and where in the model."""

    name: str
    reason: str
    source: str


@dataclass
class Lowered:
    """What a graph was lowered to; see signature.md."""

    text: str
    signature: dict[str, Any]
    callables: list[Callable[..., tuple[torch.Tensor, ...]]]
    islands: list[Island] = field(default_factory=list)
    native: int = 0
    makers: dict[str, fx.Node] = field(default_factory=dict)  # value of the text -> node that it was lowered from


class Lowering(Builder):
    """The state of one walk. Lowerings use the Builder's methods and `out`, `base_of`, `write`."""

    def __init__(
        self,
        gm: fx.GraphModule,
        fallback: str = "eager",
        refused: dict[fx.Node, str] | None = None,
        views_matter: bool = False,
        floats: bool = False,
    ) -> None:
        super().__init__()
        self.views_matter = views_matter
        self.takes_floats = floats
        self.refused = refused or {}
        self.makers: dict[str, fx.Node] = {}
        self.gm = gm
        self.layouts = Layouts(gm)
        self.fallback = fallback
        self.env: dict[fx.Node, Any] = {}
        self.args: list[list[Any]] = []
        self.constants: list[list[Any]] = []
        self.input_lines: list[str] = []
        self.written: dict[fx.Node, Value] = {}
        self.placeholders: dict[fx.Node, int] = {}
        self.callables: list[Callable[..., tuple[torch.Tensor, ...]]] = []
        self.islands: list[Island] = []
        self.copied_views: dict[str, set[str]] = {}  # base of an island's result -> bases whose memory eager's shares
        self.native = 0
        self.writes: list[str] = []

    def run(self, name: str) -> Lowered:
        """Lowers the whole graph."""
        if any(str(node.target).startswith("aten.set_.") for node in self.gm.graph.nodes):
            raise Unsupported("a tensor that is given other memory (set_, or an assignment to .data)")
        output: fx.Node | None = None
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "output":
                output = node
            else:
                self._node(node)
        assert output is not None
        returns, outputs = self._outputs(output)
        if self.views_matter:
            self._refuse_lost_sharing(returns)
        symbols, sources = self._symbols()
        header = [f"  sym {', '.join(symbols)}"] if symbols else []
        body = [*self.input_lines, *self.lines, *self.writes]
        end = f"  return {', '.join('%' + v.name for v in returns)}" if returns else "  return"
        text = "\n".join([f"graph @{name} {{", *header, *("  " + line for line in body), end, "}", ""])
        index = {s: i for i, s in enumerate(symbols)}
        args = [
            ["sym", index[a[1]]] if a[0] == "sym" and a[1] in index else (["none"] if a[0] == "sym" else a)
            for a in self.args
        ]
        signature = {"args": args, "symbols": sources, "constants": self.constants, "outputs": outputs}
        return Lowered(text, signature, self.callables, self.islands, self.native, self.makers)

    # -- inputs ----------------------------------------------------------------------------------------------------

    def _placeholder(self, node: fx.Node) -> None:
        val = node.meta.get("val")
        self.placeholders[node] = len(self.args)
        if any(is_effect(user) and user.args[0] is node for user in node.users):
            self.env[node] = None  # a token: AOT says a tensor and gives None
            self.args.append(["none"])
        elif isinstance(val, torch.Tensor):
            self.env[node] = value = self._input(spec_of(val))
            self.args.append(["tensor", len(self.input_lines) - 1])
            assert value is not None
        elif isinstance(val, torch.SymInt):
            size = to_size(val)
            self.env[node], self.bounds = size, val.node.shape_env.bound_sympy
            self.args.append(["sym", str(size)] if type(size) is not int and size.is_Symbol else ["none"])
        elif isinstance(val, torch.SymFloat) and self.takes_floats:
            self.floats[val.node.expr] = self._input(Spec(torch.float64, (), ()))
            self.env[node] = FloatExpr(val.node.expr)
            self.args.append(["tensor", len(self.input_lines) - 1])
        elif isinstance(val, int | type(None)):
            self.env[node] = val
            self.args.append(["none"])
        else:
            raise Unsupported(f"an argument of type {type(val).__name__}")

    def _input(self, spec: Spec) -> Value:
        self.note_symbols(*spec.shape, *spec.strides)
        name = f"in{len(self.input_lines)}"
        self.input_lines.append(f"%{name}: {spec.text()} = input")
        return Value(name, spec, name)

    def _constant(self, node: fx.Node) -> None:
        tensor = self.gm
        for part in str(node.target).split("."):
            tensor = getattr(tensor, part)
        if not isinstance(tensor, torch.Tensor):
            self.env[node] = tensor  # a submodule of a higher-order operator
            return
        self.env[node] = self._input(spec_of(tensor))
        self.constants.append([len(self.input_lines) - 1, tensor])

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _node(self, node: fx.Node) -> None:
        self.where, self.marks = source_line(node), attributes_of(node)
        if node.op == "get_attr":
            return self._constant(node)
        if node.op != "call_function":
            raise Unsupported(f"an FX node of kind {node.op}")
        val = node.meta.get("val")
        if isinstance(val, torch.SymInt | int) and not isinstance(val, bool):
            self.env[node] = to_size(val)
            return None
        if isinstance(val, torch.SymFloat):
            self.env[node] = FloatExpr(val.node.expr)
            return None
        if isinstance(val, torch.SymBool):
            self.env[node] = None  # a condition that was decided when the graph was captured
            return None
        if getattr(node.target, "__name__", "") == "getitem" and isinstance(self.env[node.args[0]], tuple):
            self.env[node] = self.env[node.args[0]][node.args[1]]
            return None
        mark = len(self.lines)
        try:
            self.env[node] = self._native(node)
            self.native += 1
        except Unsupported as why:
            self._instead(node, mark, str(why))
        except Exception as fault:  # a fault of a lowering costs its speed, not the user's result
            log.warning("the lowering of %s failed", node.target, exc_info=True)
            self._instead(node, mark, f"lowering failed: {type(fault).__name__}: {fault}")
        for line in self.lines[mark:]:
            self.makers.update((name, node) for name in _DEFINED.findall(line.split(" = ", 1)[0]))
        return None

    def _instead(self, node: fx.Node, mark: int, reason: str) -> None:
        del self.lines[mark:]
        self._forget_scalars()
        self._island(node, reason)

    def _native(self, node: fx.Node) -> Any:
        if node in self.refused:
            raise Unsupported(self.refused[node])
        if is_complex(self, node):
            return lower_complex(self, node)
        lowering = LOWERINGS.get(node.target)
        if lowering is None:
            target = node.target
            if not (isinstance(target, torch._ops.OpOverload) and target.is_view):
                raise Unsupported("no lowering")
            return view_of(self, node)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: self.env[n])
        return lowering(self, node, *args, **kwargs)

    def _forget_scalars(self) -> None:
        """Drops cached constants whose lines were taken back."""
        alive = {line.split(":", 1)[0] for line in self.lines if "= full(" in line}
        self._scalars = {k: v for k, v in self._scalars.items() if f"%{v.name}" in alive}

    def _island(self, node: fx.Node, reason: str) -> None:
        source = source_of(node)
        name = str(node.target)
        if self.fallback == "error":
            raise UnsupportedError(f"graphex can't run {name} natively ({reason}){source and f', called at {source}'}")
        result, run = make_island(self, node, len(self.callables))
        self.callables.append(run)
        self.islands.append(Island(name, reason, source))
        self.env[node] = result
        if returns_view(node):
            operands = [self.env[n] for n in node.all_input_nodes]
            shared = {base for x in operands if isinstance(x, Value) for base in self._memory_of(x)}
            made = result if isinstance(result, tuple) else (result,)
            self.copied_views |= {x.base: shared for x in made if isinstance(x, Value)}

    def _memory_of(self, x: Value) -> set[str]:
        """The bases whose memory eager's tensor lies in."""
        return self.copied_views.get(x.base, {x.base})

    def _refuse_lost_sharing(self, returns: list[Value]) -> None:
        """An island copies. That shows where eager's result is a view and its memory the caller's, or returned too."""
        for i, value in enumerate(returns):
            if value.base not in self.copied_views:
                continue
            memory = self._memory_of(value)
            others = [self._memory_of(other) for k, other in enumerate(returns) if k != i and other.base != value.base]
            if any(base.startswith("in") for base in memory) or any(memory & other for other in others):
                raise Unsupported("a result is a view that only eager PyTorch can make")

    def out(self, node: fx.Node, index: int | None = None) -> Spec:
        """The Spec that eager gives to the node's result (or its index-th result)."""
        val = node.meta["val"]
        return self.layouts.spec_of(val if index is None else val[index])

    def dense_out(self, node: fx.Node, index: int | None = None) -> Spec:
        """Like `out`, refusing layouts with gaps, which only views may have, and sizes that eager can't allocate.

        A loop over the latter would end some day, for it stores nothing; eager's error comes at once.
        """
        spec = self.out(node, index)
        if math.prod(n for n in spec.shape if type(n) is int) * spec.dtype.itemsize > _ADDRESSABLE:
            raise Unsupported(f"a result of shape {spec.shape}, beyond any address space")
        if not spec.is_dense():
            raise Unsupported(f"a result with strides {spec.strides} for shape {spec.shape}")
        return spec

    # -- the end ---------------------------------------------------------------------------------------------------

    def write(self, node: fx.Node, target: fx.Node, value: Value) -> None:
        """Notes that the placeholder `target` is to hold `value` when the graph ends."""
        self.writes.append(f"write %{self.env[target].name} <- %{value.name}")
        self.written[node] = value

    def _outputs(self, output: fx.Node) -> tuple[list[Value], list[list[Any]]]:
        returns: list[Value] = []
        entries: list[list[Any]] = []
        made: dict[fx.Node, list[Any]] = {}  # a node returned twice is one object; two nodes are two, also of one value
        for item in output.args[0]:  # type: ignore[union-attr]
            if isinstance(item, fx.Node):
                if item not in made:
                    made[item] = self._output(item, returns)
                entries.append(made[item])
            else:
                entries.append(self._output(item, returns))
        return returns, entries

    def _output(self, item: Any, returns: list[Value]) -> list[Any]:
        if item is None:
            return ["none"]
        if not isinstance(item, fx.Node):
            return ["const", item]
        while item in self.written:
            item = item.args[0]
        if item in self.placeholders:
            return ["arg", self.placeholders[item]]
        value = self.env[item]
        if isinstance(value, Value):
            returns.append(value)
            return ["value", len(returns) - 1]
        if value is None:
            return ["none"]
        if isinstance(value, Complex):
            raise Unsupported("a complex tensor is returned")
        if isinstance(value, FloatExpr):
            raise Unsupported("a float that depends on sizes is returned")
        size = to_size(value)
        self.note_symbols(size)
        return ["int", text_of(size)]

    def _symbols(self) -> tuple[list[str], list[list[Any]]]:
        """The symbols that the text uses, in order of the arguments they come from, and those sources."""
        wanted = {str(s) for s in self.symbols_used}
        found: dict[str, list[Any]] = {}
        for i, arg in enumerate(self.args):
            if arg[0] == "sym" and arg[1] in wanted:
                found.setdefault(arg[1], ["arg", i])
        for node, i in self.placeholders.items():
            value = self.env[node]
            if isinstance(value, Value):
                _find_symbols(found, wanted, value.spec, i)
        missing = sorted(wanted - found.keys())
        if missing:
            raise Unsupported(f"the size {missing[0]} is known only when the graph runs")
        for name in found:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise Unsupported(f"the symbol {name}")
        return list(found), list(found.values())


def _find_symbols(found: dict[str, list[Any]], wanted: set[str], spec: Spec, arg: int) -> None:
    for kind, sizes in (("size", spec.shape), ("stride", spec.strides)):
        for dim, size in enumerate(sizes):
            if type(size) is not int and size.is_Symbol and str(size) in wanted:
                found.setdefault(str(size), [kind, arg, dim])


def view_of(lo: Lowering, node: fx.Node) -> Any:
    """Any view operator: the layout that FakeTensor gave, the offset as the difference of storage offsets."""
    source = node.args[0]
    x = lo.env[source]  # type: ignore[index]
    if not isinstance(x, Value):
        raise Unsupported("a view of something that isn't a tensor")
    start = lo.layouts.storage_offset(source.meta["val"])  # type: ignore[union-attr]
    val = node.meta["val"]

    def one(part: torch.Tensor) -> Value:
        spec = lo.layouts.spec_of(part)
        if spec.dtype != x.dtype:
            raise Unsupported("a view as another dtype")
        return lo.view(x, spec.shape, spec.strides, to_size(lo.layouts.storage_offset(part) - start))

    return tuple(map(one, val)) if isinstance(val, list | tuple) else one(val)


def source_of(node: fx.Node) -> str:
    """ "file:line" of the model's code that made the node; "" when unknown."""
    trace = node.meta.get("stack_trace") or ""
    parts = trace[trace.rfind('File "') + 6 :].split('"', 1) if 'File "' in trace else []
    line = parts[1].partition("line ")[2].split(",")[0].split("\n")[0] if len(parts) == 2 else ""
    return f"{parts[0]}:{line}" if line.isdigit() else ""


def source_line(node: fx.Node) -> str:
    """source_of with the file's last part only, for the text's `at` attributes."""
    return source_of(node).rsplit("/", 1)[-1]


def lower_graph(
    gm: fx.GraphModule,
    name: str = "graph",
    fallback: str = "eager",
    refused: dict[fx.Node, str] | None = None,
    views_matter: bool = False,
    floats: bool = False,
) -> Lowered:
    """Lowers AOT's graph; nodes in `refused` become islands for the reason given there.

    `views_matter`: nobody behind the graph makes those results that are views of inputs or of each other.
    `floats`: arguments that are floats come as 0-dim float64 tensors; else they aren't taken.
    Raises Unsupported when the whole graph has to run by eager PyTorch.
    """
    from . import families  # noqa: F401  fills the registry

    return Lowering(gm, fallback, refused, views_matter, floats).run(name)


__all__ = ["Island", "Lowered", "Lowering", "Size", "lower_graph", "symbols_of"]
