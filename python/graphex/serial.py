"""What the backend returns for a graph of Dynamo's: callable, and able to outlive the process as bytes.

torch.compile(f, backend="graphex", fullgraph=True).aot_compile(...) and servers that keep compiled graphs on disk ask
for it. The bytes hold the graph, its options and what is known of its inputs; weights are inputs and not among them.
Loading lowers the graph again; its kernels come from the object cache.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._dynamo.aot_compile_types import SerializableCallable

FORMAT = 1
_MAGIC = b"graphex graph\n"
_DROPPED_META = ("nn_module_stack", "source_fn_stack", "stack_trace", "example_value", "eager_input_vals")


class CompiledGraph(SerializableCallable):
    """A graph of Dynamo's, compiled. Called with the graph's inputs, it returns the graph's results."""

    def __init__(self, gm: fx.GraphModule, examples: list[Any], values: dict[str, Any], run: Callable[..., Any]):
        self.gm = gm
        self.examples = examples
        self.values = values
        self.run = run

    def __call__(self, *args: Any) -> Any:
        """The graph's results, in the order of its output node."""
        return self.run(*args)

    @classmethod
    def serialize_compile_artifacts(cls, fn: CompiledGraph) -> bytes:
        """The graph as bytes; ValueError where its options hold functions, which bytes can't."""
        from torch.fx._graph_pickler import GraphPickler, Options

        functions = sorted(name for name, value in fn.values.items() if callable(value))
        if functions:
            raise ValueError(f"graphex can't save a graph compiled with a function as option {', '.join(functions)}")
        state = {
            "format": FORMAT,
            "torch": torch.__version__,
            "values": fn.values,
            "graph": GraphPickler.dumps((_plain(fn.gm), list(fn.examples)), Options(ops_filter=None)),
        }
        return _MAGIC + pickle.dumps(state)

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> CompiledGraph:
        """A graph from serialize_compile_artifacts' bytes; ValueError for other bytes, or another version's."""
        from torch._guards import TracingContext, tracing
        from torch._subclasses import FakeTensorMode
        from torch.fx._graph_pickler import GraphPickler
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        from .backend import compile_graph

        state = _state(data)
        fake_mode = FakeTensorMode(shape_env=ShapeEnv())
        gm, examples = GraphPickler.loads(state["graph"], fake_mode)
        gm.recompile()
        with tracing(TracingContext(fake_mode)):
            return compile_graph(gm, examples, state["values"])


def _plain(gm: fx.GraphModule) -> fx.GraphModule:
    """A copy without what only Dynamo needs to know of the nodes."""
    copy = fx.GraphModule(gm, fx.Graph(tracer_cls=gm.graph._tracer_cls))
    mapping: dict[fx.Node, fx.Node] = {}
    copy.graph.graph_copy(gm.graph, mapping)
    results = gm.graph.output_node()
    copy.graph.output(fx.map_arg(results.args[0], lambda node: mapping[node]))
    for node in copy.graph.nodes:
        for key in _DROPPED_META:
            node.meta.pop(key, None)
    return copy


def _state(data: bytes) -> dict[str, Any]:
    if not data.startswith(_MAGIC):
        raise ValueError("these bytes aren't a graph that graphex saved")
    state: dict[str, Any] = pickle.loads(data[len(_MAGIC) :])
    if state["format"] != FORMAT or state["torch"] != torch.__version__:
        raise ValueError(
            f"this graph was saved with torch {state['torch']}, format {state['format']}; "
            f"here are torch {torch.__version__}, format {FORMAT}: compile it again"
        )
    return state
