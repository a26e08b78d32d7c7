"""What became of a compiled callable: graphex.explain(compiled) counts what runs natively, what doesn't, and why.

Each graph that the backend compiles leaves a GraphReport, with the torch.compile call and the user's code behind it.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from .lower.lowering import Island


@dataclass
class GraphReport:
    """One graph handed to the backend."""

    kind: str  # inference, forward (of training) or backward
    nodes: int
    native: int = 0
    islands: list[Island] = field(default_factory=list)
    eager: str = ""  # why the whole graph runs by eager PyTorch; "" if it doesn't
    seconds: float = 0.0  # in our backend
    text: str = ""
    recompile: bool = False  # Dynamo had compiled the same frame before
    alive: Any = None  # a weak reference to the compiled callable
    owner: Any = None  # the object that torch.compile made for its backend
    root: Any = None  # the user's code object

    def as_dict(self) -> dict[str, Any]:
        """Plain data, with the native module's figures."""
        program = self.alive() if self.alive is not None else None
        figures = program.explain() if hasattr(program, "explain") else {}
        islands = [{"op": i.name, "reason": i.reason, "source": i.source} for i in self.islands]
        return {
            "kind": self.kind,
            "nodes": self.nodes,
            "native": self.native,
            "islands": islands,
            "eager": self.eager,
            "recompile": self.recompile,
            "compile_seconds": self.seconds,
            "program": figures,
        }


_reports: list[GraphReport] = []


def record(report: GraphReport, compiled: Callable[..., Any]) -> None:
    """Files a report; it counts for as long as the compiled graph lives."""
    try:
        report.alive = weakref.ref(compiled)
    except TypeError:
        report.alive = lambda: compiled
    report.owner, report.root = _context()
    compile_id = torch._guards.CompileContext.current_compile_id()
    report.recompile = compile_id is not None and bool(compile_id.frame_compile_id)
    _reports[:] = [*filter(_is_alive, _reports), report]


def _is_alive(report: GraphReport) -> bool:
    return report.alive is not None and report.alive() is not None


def _context() -> tuple[Any, Any]:
    """The backend object of the torch.compile call that is being served, and the code that it compiles."""
    owner = root = None
    frame = sys._getframe(1)
    while frame is not None and (owner is None or root is None):
        values = frame.f_locals if frame.f_code.co_name in ("__call__", "_compile") else {}
        if isinstance(values.get("self"), torch._TorchCompileWrapper):
            owner = values["self"]
        if owner is not None and isinstance(values.get("code"), types.CodeType):
            root = _root_of(values["code"])
        frame = frame.f_back  # type: ignore[assignment]
    return owner, root


def _root_of(code: Any) -> Any:
    """The user's code of which this is a part after a graph break, or the code itself."""
    from torch._dynamo.resume_execution import ContinueExecutionCache

    while code in ContinueExecutionCache.generated_code_metadata:
        code = ContinueExecutionCache.generated_code_metadata[code].code
    return code


def _callables(compiled: Any) -> Iterator[Any]:
    """Objects around a compiled callable that may lead to its backend."""
    yield compiled
    context = getattr(compiled, "dynamo_ctx", None)
    if context is not None:
        yield context.callback
    function = getattr(compiled, "__func__", compiled)
    for cell in getattr(function, "__closure__", None) or ():
        try:
            content = cell.cell_contents
        except ValueError:
            continue
        yield content
        yield getattr(content, "callback", None)


def _owner_of(compiled: Any) -> Any:
    for candidate in _callables(compiled):
        while hasattr(candidate, "_torchdynamo_orig_backend"):
            candidate = candidate._torchdynamo_orig_backend
        if isinstance(candidate, torch._TorchCompileWrapper):
            return candidate
    return None


def reports_of(compiled: Any) -> list[GraphReport]:
    """The graphs behind a compiled callable, oldest first; instances of one class share them."""
    compiled = getattr(compiled, "_reported", compiled)  # a graphex.Graph's program
    direct = [r for r in _reports if r.alive is not None and r.alive() is compiled]
    if direct:
        return direct
    owner = _owner_of(compiled)
    if owner is None:
        raise TypeError(
            "graphex.explain takes what torch.compile(..., backend='graphex') or graphex.compile_fx returned, "
            "a captured graphex.Graph, or a module after module.compile(backend='graphex'), "
            f"not {type(compiled).__name__}"
        )
    code = _code_of(compiled)
    return [r for r in filter(_is_alive, _reports) if r.owner is owner or (r.owner == owner and r.root is code)]


def _code_of(compiled: Any) -> Any:
    """The user's code: Dynamo shares what it compiled for it between equal torch.compile calls."""
    from torch._dynamo.eval_frame import innermost_fn

    function = getattr(compiled, "_orig_mod", compiled)
    function = function.forward if isinstance(function, torch.nn.Module) else innermost_fn(function)
    return getattr(getattr(function, "__func__", function), "__code__", None)


class Explanation(dict[str, Any]):
    """A dict of plain data whose str() is a table for people."""

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    __repr__ = __str__


def explain(compiled: Callable[..., Any]) -> Explanation:
    """Reports on a compiled function or module; Dynamo's counters are those of the whole process.

    Graphs belong to the code that was compiled: instances of one class are served, and reported, together.
    """
    from torch._dynamo.utils import counters

    compiled = getattr(compiled, "_compiled_call_impl", None) or compiled  # after module.compile()
    graphs = [report.as_dict() for report in reports_of(compiled)]
    breaks = dict(counters["graph_break"])
    return Explanation(
        graphs=graphs,
        native=sum(g["native"] for g in graphs),
        islands=sum(len(g["islands"]) for g in graphs),
        eager_graphs=sum(bool(g["eager"]) for g in graphs),
        compile_seconds=sum(g["compile_seconds"] for g in graphs),
        graph_breaks=breaks,
        unique_graphs=int(counters["stats"].get("unique_graphs", 0)),
        recompiles=sum(g["recompile"] for g in graphs),
    )


def _lines(data: Explanation) -> Iterator[str]:
    graphs = data["graphs"]
    yield f"graphex: {len(graphs)} graph(s), {data['native']} native nodes, {data['islands']} islands, " + (
        f"{data['eager_graphs']} by eager, {data['recompiles']} recompiles; compiled in {data['compile_seconds']:.2f} s"
    )
    breaks = sum(data["graph_breaks"].values())
    yield f"dynamo (whole process): {data['unique_graphs']} unique graphs, {breaks} graph breaks"
    for reason, times in data["graph_breaks"].items():
        yield f"  break x{times}: {reason.splitlines()[0][:160]}"
    for i, graph in enumerate(graphs):
        yield from _graph_lines(i, graph)


def _graph_lines(index: int, graph: dict[str, Any]) -> Iterator[str]:
    counts = f"{graph['nodes']} nodes, {graph['native']} native, {len(graph['islands'])} islands"
    yield f"graph {index} ({graph['kind']}): {counts}, {graph['compile_seconds'] * 1e3:.0f} ms"
    if graph["eager"]:
        yield f"  runs by eager PyTorch: {graph['eager']}"
    for (op, reason), times in Counter((i["op"], i["reason"]) for i in graph["islands"]).most_common():
        where = next(i["source"] for i in graph["islands"] if i["op"] == op and i["reason"] == reason)
        yield f"  island x{times}: {op} ({reason}){where and f' at {where}'}"
    simple = {k: v for k, v in graph["program"].items() if isinstance(v, int | float | str)}
    if simple:
        yield "  " + ", ".join(f"{k} {v:.6g}" if isinstance(v, float) else f"{k} {v}" for k, v in simple.items())
    yield from _kernel_lines(graph["program"])


def _kernel_lines(program: dict[str, Any]) -> Iterator[str]:
    """The slowest kernels, when they were timed."""
    steps = [step for step in program.get("steps", ()) if step.get("seconds")]
    calls = max(program.get("calls", 1), 1)
    if steps:
        yield f"  per call, mean of {calls}; time of islands is not in it"
    for step in sorted(steps, key=lambda s: -s["seconds"])[:20]:
        rate = step["bytes"] / step["seconds"] / 1e9
        yield f"  {step['seconds'] / calls * 1e6:10.1f} us {rate:8.2f} GB/s  {step['name']}"
