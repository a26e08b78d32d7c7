"""graphex: runs the inference step of a PyTorch model as one captured, compiled and replayed graph on a CPU.

torch.compile(model, backend="graphex", options={...})

g = graphex.Graph()
with graphex.graph(g): y = model(x)
g.replay()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Buckets",
    "CaptureError",
    "Event",
    "Graph",
    "OptionError",
    "Refreshable",
    "Stream",
    "UnsupportedError",
    "__version__",
    "compat",
    "compile_fx",
    "current_stream",
    "default_stream",
    "explain",
    "graph",
    "graph_capture",
    "graph_pool_handle",
    "load_gguf_linears",
    "make_graphed_callables",
    "ops",
    "quantize",
    "range",
    "scope",
    "stream",
    "synchronize",
    "trace",
]

_HOMES = {
    "Buckets": "capture.buckets",
    "CaptureError": "capture.errors",
    "Graph": "capture.graph",
    "graph": "capture.graph",
    "graph_pool_handle": "capture.graph",
    "make_graphed_callables": "capture.callables",
    "Refreshable": "capture.refreshable",
    "compile_fx": "backend",
    "explain": "report",
    "load_gguf_linears": "gguf",
    "quantize": "quantization",
    "UnsupportedError": "lower.errors",
    "OptionError": "options",
    **dict.fromkeys(("Event", "Stream", "current_stream", "default_stream", "stream", "synchronize"), "streams.stream"),
    "graph_capture": "streams.capturing",
    "range": "streams.marks",
    "trace": "debug.trace",
}
_MODULES = ("compat", "ops", "scope")

if TYPE_CHECKING:
    from . import compat, ops, scope
    from .backend import compile_fx
    from .capture.buckets import Buckets
    from .capture.callables import make_graphed_callables
    from .capture.errors import CaptureError
    from .capture.graph import Graph, graph, graph_pool_handle
    from .capture.refreshable import Refreshable
    from .debug.trace import trace
    from .gguf import load_gguf_linears
    from .lower.errors import UnsupportedError
    from .options import OptionError
    from .quantization import quantize
    from .report import explain
    from .streams.capturing import graph_capture
    from .streams.marks import range
    from .streams.stream import Event, Stream, current_stream, default_stream, stream, synchronize


def __getattr__(name: str) -> Any:
    """Loads torch and the rest only when something is asked for."""
    if name in _MODULES:
        return importlib.import_module(f"graphex.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'graphex' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"graphex.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
