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
    "Graph",
    "OptionError",
    "UnsupportedError",
    "__version__",
    "compile_fx",
    "explain",
    "graph",
    "graph_pool_handle",
    "load_gguf_linears",
    "make_graphed_callables",
    "ops",
    "quantize",
]

_HOMES = {
    "Buckets": "capture.buckets",
    "CaptureError": "capture.errors",
    "Graph": "capture.graph",
    "graph": "capture.graph",
    "graph_pool_handle": "capture.graph",
    "make_graphed_callables": "capture.callables",
    "compile_fx": "backend",
    "explain": "report",
    "load_gguf_linears": "gguf",
    "quantize": "quantization",
    "UnsupportedError": "lower.errors",
    "OptionError": "options",
}

if TYPE_CHECKING:
    from . import ops
    from .backend import compile_fx
    from .capture.buckets import Buckets
    from .capture.callables import make_graphed_callables
    from .capture.errors import CaptureError
    from .capture.graph import Graph, graph, graph_pool_handle
    from .gguf import load_gguf_linears
    from .lower.errors import UnsupportedError
    from .options import OptionError
    from .quantization import quantize
    from .report import explain


def __getattr__(name: str) -> Any:
    """Loads torch and the rest only when something is asked for."""
    if name == "ops":
        return importlib.import_module("graphex.ops")
    if name not in _HOMES:
        raise AttributeError(f"module 'graphex' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"graphex.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
