"""What a captured graph consists of, as JSON for programs and DOT for people."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def dump(path: str | os.PathLike[str], replayer: Any, inputs: list[Any], names: dict[int, str]) -> None:
    """Writes the graph to a .json, .dot or .gv file; ValueError for another suffix. `names`: of inputs, by place."""
    path = Path(path)
    if path.suffix not in (".json", ".dot", ".gv"):
        raise ValueError(f"debug_dump writes .json, .dot or .gv files, not {path.name!r}")
    data = describe(replayer, inputs, names)
    path.write_text(json.dumps(data, indent=1) if path.suffix == ".json" else "\n".join(_dot(data)) + "\n")


def describe(replayer: Any, inputs: list[Any], names: dict[int, str]) -> dict[str, Any]:
    """The graph as plain data."""
    data: dict[str, Any] = {"recorded": [str(node.format_node()) for node in replayer.graph.graph.nodes]}
    data["inputs"] = [
        {
            "name": names.get(k, ""),
            "dtype": str(i.layout.dtype),
            "shape": list(i.layout.shape),
            "strides": list(i.layout.strides),
            "written": i.block.written,
            "made_inside": i.made_inside,
        }
        for k, i in enumerate(inputs)
    ]
    if replayer.program is None:
        return data | {"runs_by": "eager PyTorch", "steps": [], "buffers": []}
    return data | {"runs_by": "graphex", "graph": replayer.program.graph, **replayer.program.describe()}


def _dot(data: dict[str, Any]) -> Iterator[str]:
    yield "digraph graph {"
    yield '  rankdir=TB; node [shape=box, fontname="monospace"];'
    last_write: dict[int, int] = {}
    readers: dict[int, set[int]] = {}
    for k, step in enumerate(data["steps"]):
        colour = "lightgrey" if step["kind"] == "island" else _COLOURS[step.get("stream", 0) % len(_COLOURS)]
        label = "\\n".join(_quoted(part) for part in (f"{k}: {step['name']}", step.get("range", "")) if part)
        yield f'  s{k} [label="{label}", style=filled, fillcolor="{colour}"];'
        before = {last_write[b] for b in (*step["reads"], *step["writes"]) if b in last_write}
        for buffer in step["writes"]:
            before |= readers.pop(buffer, set())
            last_write[buffer] = k
        for buffer in step["reads"]:
            readers.setdefault(buffer, set()).add(k)
        for earlier in sorted(before - {k}):
            yield f"  s{earlier} -> s{k};"
    yield "}"


_COLOURS = ("white", "lightblue", "lightyellow", "lightpink", "palegreen")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
