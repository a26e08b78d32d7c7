"""What became of a compiled callable: graphex.explain(compiled) counts what runs natively, what doesn't, and why.

Each graph that the backend compiles leaves a GraphReport under the torch.compile call that it belongs to.
"""

from __future__ import annotations

import sys
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
    program: Any = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, with the native module's figures."""
        figures = self.program.explain() if self.program is not None else {}
        islands = [{"op": i.name, "reason": i.reason, "source": i.source} for i in self.islands]
        return {
            "kind": self.kind,
            "nodes": self.nodes,
            "native": self.native,
            "islands": islands,
            "eager": self.eager,
            "compile_seconds": self.seconds,
            "program": figures,
        }


# By id of the object that torch.compile made for its backend; an entry goes when that object goes.
_reports: dict[int, list[GraphReport]] = {}
_LOOSE = 0  # graphs that came from elsewhere than torch.compile


def record(report: GraphReport) -> None:
    """Files a report under the torch.compile call that is being served."""
    owner = _calling_wrapper()
    if owner is not None and id(owner) not in _reports:
        weakref.finalize(owner, _reports.pop, id(owner), None)
    _reports.setdefault(_LOOSE if owner is None else id(owner), []).append(report)


def _calling_wrapper() -> Any:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "__call__":
            owner = frame.f_locals.get("self")
            if isinstance(owner, torch._TorchCompileWrapper):
                return owner
        frame = frame.f_back  # type: ignore[assignment]
    return None


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
    """The graphs behind a compiled callable, oldest first."""
    direct = getattr(compiled, "graphex_report", None)
    if direct is not None:
        return [direct]
    owner = _owner_of(compiled)
    if owner is None:
        raise TypeError(
            "graphex.explain takes what torch.compile(..., backend='graphex') or graphex.compile_fx returned"
        )
    return _reports.get(id(owner), [])


class Explanation(dict[str, Any]):
    """A dict of plain data whose str() is a table for people."""

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    __repr__ = __str__


def explain(compiled: Callable[..., Any]) -> Explanation:
    """Reports on a compiled function or module; Dynamo's counters are those of the whole process."""
    from torch._dynamo.utils import counters

    graphs = [report.as_dict() for report in reports_of(compiled)]
    breaks = dict(counters["graph_break"])
    recompiles = max(int(counters["stats"].get("unique_graphs", 0)) - len(breaks) - 1, 0)
    return Explanation(
        graphs=graphs,
        native=sum(g["native"] for g in graphs),
        islands=sum(len(g["islands"]) for g in graphs),
        eager_graphs=sum(bool(g["eager"]) for g in graphs),
        compile_seconds=sum(g["compile_seconds"] for g in graphs),
        graph_breaks=breaks,
        unique_graphs=int(counters["stats"].get("unique_graphs", 0)),
        recompiles=recompiles,
    )


def _lines(data: Explanation) -> Iterator[str]:
    graphs = data["graphs"]
    yield f"graphex: {len(graphs)} graph(s), {data['native']} native nodes, {data['islands']} islands, " + (
        f"{data['eager_graphs']} by eager; compiled in {data['compile_seconds']:.2f} s"
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
    kernels = [k for k in program.get("kernels_list", []) or [] if isinstance(k, dict) and "seconds" in k]
    for kernel in sorted(kernels, key=lambda k: -k["seconds"])[:20]:
        yield "  " + ", ".join(f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={v}" for k, v in kernel.items())
