"""The backend of torch.compile: AOTAutograd, lowering, native compilation, and eager PyTorch where those can't serve.

torch.compile(model, backend="graphex", options={...})       found by the entry point, no import needed
graphex.compile_fx(gm, example_inputs, options)              for a backend of one's own
"""

from __future__ import annotations

import functools
import logging
import operator
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from .decompositions import decompositions
from .lower.errors import Unsupported, UnsupportedError
from .lower.lowering import Lowered, lower_graph
from .native import core
from .options import core_options, resolve
from .report import GraphReport, record
from .serial import CompiledGraph

log = logging.getLogger("graphex")
Compiled = Callable[..., Any]


def graphex(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    **unknown: Any,
) -> Compiled:
    """What torch.compile calls with each graph that Dynamo captured."""
    if unknown:
        raise TypeError(f"graphex takes options=... and mode=..., not {', '.join(sorted(unknown))}")
    return compile_graph(gm, example_inputs, resolve(options, mode))


def compile_fx(
    gm: fx.GraphModule, example_inputs: Sequence[Any] | None = None, options: Mapping[str, Any] | None = None
) -> Compiled:
    """Compiles a graph of Dynamo's, or a functional ATen graph as AOTAutograd hands to a compiler of inference.

    The result for an ATen graph is boxed: it takes one list of arguments, which it clears.
    """
    values = resolve(options)
    if example_inputs is None:
        example_inputs = [_example(node) for node in gm.graph.find_nodes(op="placeholder")]
    if not _is_aten(gm):
        return compile_graph(gm, example_inputs, values)
    return compile_aten(gm, example_inputs, values, "inference", direct=True)


def _example(node: fx.Node) -> Any:
    for key in ("example_value", "val"):
        if key in node.meta:
            return node.meta[key]
    raise ValueError(f"graphex.compile_fx needs example_inputs: placeholder {node.name} has no example of its own")


_SCALAR_MODULES = ("_operator", "math", "torch", "torch.sym")


def _is_aten(gm: fx.GraphModule) -> bool:
    """Whether every node is an ATen overload, or arithmetic on symbolic sizes."""
    calls = [node for node in gm.graph.nodes if node.op not in ("placeholder", "output", "get_attr")]
    if not all("val" in node.meta for node in gm.graph.find_nodes(op="placeholder")):
        return False
    for node in calls:
        if node.op != "call_function":
            return False
        if (
            isinstance(node.target, torch._ops.OpOverload | torch._ops.HigherOrderOperator)
            or node.target is operator.getitem
        ):
            continue
        if not isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool):
            return False
    return True


def compile_graph(gm: fx.GraphModule, example_inputs: Sequence[Any], values: dict[str, Any]) -> CompiledGraph:
    """A graph of Dynamo's through AOTAutograd, with options that resolve() has checked."""
    compiled = through_aot(gm, example_inputs, values, functools.partial(compile_aten, values=values, kind="inference"))

    def run(*args: Any) -> Any:
        try:
            return compiled(*args)
        except InputsOverlapError:
            # AOT's graph took the inputs for separate; only Dynamo's own graph does here what eager would.
            return gm(*args)

    nodes = gm.graph.find_nodes(op="placeholder")
    # Not the inputs of the first call: they would live as long as the graph.
    examples = [n.meta.get("example_value", e) for n, e in zip(nodes, example_inputs, strict=True)]
    return CompiledGraph(gm, examples, values, run)


def through_aot(
    gm: fx.GraphModule, example_inputs: Sequence[Any], values: dict[str, Any], inference_compiler: Compiled
) -> Compiled:
    """AOTAutograd, which functionalises and decomposes the graph and gives it to the compilers."""
    from torch._dynamo.backends.common import aot_autograd

    compiler = aot_autograd(
        fw_compiler=functools.partial(compile_aten, values=values, kind="forward"),
        inference_compiler=inference_compiler,
        bw_compiler=_eager_backward,
        decompositions=decompositions(),
        keep_inference_input_mutations=True,
    )
    # AOTAutograd's own cache takes inductor's results only; CompiledGraph is what is saved of ours.
    without_cache = dict.fromkeys(("enable_autograd_cache", "force_autograd_cache", "bundled_autograd_cache"), False)
    with torch._functorch.config.patch(without_cache):
        return compiler(gm, example_inputs)


class InputsOverlapError(Exception):
    """A call wrote to memory that another input, or another element of the same input, shares. Nothing has run."""


def _refuse_overlap(args: list[Any]) -> Any:
    raise InputsOverlapError("inputs share memory that the graph writes; run the graph by eager PyTorch")


def _eager_backward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
    """Gradients are eager's: the backward graph runs as it is."""
    nodes = len(gm.graph.nodes)
    compiled = _boxed_eager(gm)
    record(GraphReport("backward", nodes, eager="the backward of a training step"), compiled)
    return compiled


def _boxed_eager(gm: fx.GraphModule) -> Compiled:
    from functorch.compile import make_boxed_func

    return make_boxed_func(gm.forward)


def compile_aten(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    values: dict[str, Any],
    kind: str,
    direct: bool = False,
    floats: bool = False,
) -> Compiled:
    """AOT's compiler: an ATen graph to a boxed callable. Never fails for what eager can run, unless asked to.

    `floats`: callers give 0-dim float64 tensors for arguments that are floats.
    """
    start = time.perf_counter()
    report = GraphReport(kind, len(gm.graph.nodes))
    compiled = _native_or_eager(gm, example_inputs, values, report, direct, floats)
    report.seconds = time.perf_counter() - start
    record(report, compiled)
    return compiled


def _native_or_eager(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    values: dict[str, Any],
    report: GraphReport,
    direct: bool,
    floats: bool,
) -> Compiled:
    _user_passes(gm, example_inputs, values)
    if values["force_eager"]:
        return _by_eager(gm, report, "force_eager is set")
    options = core_options(values)
    refused: dict[fx.Node, str] = {}
    reason = "too many nodes that the native module refuses"
    for _ in range(_MAX_REFUSALS):
        try:
            lowered = lower_graph(gm, fallback=values["fallback"], refused=refused, views_matter=direct, floats=floats)
        except Unsupported as why:
            reason = str(why)
            break
        through_aot = report.kind == "inference" and not direct
        signature = {**lowered.signature, "eager": _refuse_overlap if through_aot else _boxed_eager(gm)}
        try:
            program = build_program(lowered.text, signature, lowered.callables, options)
        except (NotImplementedError, RuntimeError, ValueError) as why:
            reason = str(why)
            if _refuse(reason, lowered, refused):
                continue
            break
        report.native, report.islands, report.text = lowered.native, lowered.islands, lowered.text
        return _boxed(program)
    if values["fallback"] == "error":
        raise UnsupportedError(f"graphex can't run the graph natively: {reason}")
    return _by_eager(gm, report, reason)


_MAX_REFUSALS = 30
_NODE_FAULT = re.compile(r"node %([\w.]+) \((\w+)\): (.*)")


def _refuse(message: str, lowered: Lowered, refused: dict[fx.Node, str]) -> bool:
    """Adds nodes that the native module has no kernel for, or finds fault with, to `refused`; False if none is new."""
    reasons = dict(core().unsupported(lowered.text))
    fault = _NODE_FAULT.match(message)
    if fault:
        reasons.setdefault(fault[1], fault[3])
    new = {lowered.makers[name]: reason for name, reason in reasons.items() if name in lowered.makers}
    new = {node: reason for node, reason in new.items() if node not in refused}
    refused.update(new)
    return bool(new)


def build_program(text: str, signature: dict[str, Any], islands: list[Compiled], options: dict[str, Any]) -> Any:
    """The native module's compile; tests put another engine here."""
    return core().compile(text, signature, islands, options)


def _boxed(program: Any) -> Compiled:
    """The program with the mark that AOT looks for: it takes one list of arguments, which it clears."""
    program._boxed_call = True
    return program


def _by_eager(gm: fx.GraphModule, report: GraphReport, reason: str) -> Compiled:
    report.eager = reason
    log.warning("a graph of %d nodes runs by eager PyTorch: %s", report.nodes, reason)
    return _boxed_eager(gm)


def _user_passes(gm: fx.GraphModule, example_inputs: Sequence[Any], values: dict[str, Any]) -> None:
    passes = [values[name] for name in ("post_grad_custom_pre_pass", "post_grad_custom_post_pass") if values[name]]
    for user_pass in passes:
        user_pass(gm, example_inputs, values)
    if not passes:
        return
    gm.graph.lint()
    gm.recompile()
    if any("val" not in node.meta for node in gm.graph.nodes if node.op == "call_function"):
        from torch._guards import detect_fake_mode
        from torch.fx.passes.fake_tensor_prop import FakeTensorProp

        inputs = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
        FakeTensorProp(gm, mode=detect_fake_mode(inputs)).propagate_dont_convert_inputs(*inputs)
