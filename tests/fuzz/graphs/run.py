"""Runs a program by eager PyTorch and by graphex, and says what differs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from noise import Noise
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.source import LocalSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import symbolic_trace
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from .compare import difference, identity, leaves, sharing
from .program import Program

Compiled = Callable[..., Any]
_BOUND_RUNS = 3


@dataclass
class Outcome:
    """What became of a program: the calls that were compared, and the first difference or error, "" if none."""

    calls: int = 0
    reference: str = ""  # the backend that was compared with, eager if none
    usable: bool = True  # the reference runs it
    kind: str = ""  # of the fault: "value", "sharing", "error" ...
    fault: str = ""


class Unusable(Exception):
    """The reference raises, or the sizes lie outside what the compile is good for: there is nothing to compare with."""


# ---- doors


class Door:
    """One compile of a program. `accepts` says whether the guards of the compile hold for arguments."""

    def __init__(self, program: Program, arguments: Sequence[torch.Tensor], backend: str) -> None:
        self.program, self.backend = program, backend
        _, function = program.functions()
        self.shapes: ShapeEnv | None = None
        self.fakes: list[torch.Tensor] = []
        self.sources: list[tuple[int, str, int]] = []  # of the symbols: argument, "size" or "stride", dimension
        if program.dynamo:
            self.call = self._by_dynamo(function)
        else:
            self.call = self._by_aot(function, arguments)

    def _by_dynamo(self, function: Compiled) -> Compiled:
        torch._dynamo.reset()
        options = dict(self.program.options) if self.backend == "graphex" else None
        return torch.compile(function, backend=self.backend, dynamic=self.program.dynamic, options=options)

    def _by_aot(self, function: Compiled, arguments: Sequence[torch.Tensor]) -> Compiled:
        graph = symbolic_trace(function)
        examples = self._fakes(graph, arguments) if self.program.dynamic else arguments
        compiled = self._compile(graph, examples)
        sources = self.sources
        return lambda *args: compiled(*(_number(args[i], kind, d) for i, kind, d in sources), *args)

    def _compile(self, graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Compiled:
        if self.backend == "graphex":
            import graphex

            return graphex.compile_fx(graph, examples, dict(self.program.options))
        from torch._dynamo.backends.common import aot_autograd
        from torch._dynamo.backends.debugging import boxed_nop

        return aot_autograd(fw_compiler=boxed_nop, keep_inference_input_mutations=True)(graph, examples)

    def _fakes(self, graph: torch.fx.GraphModule, arguments: Sequence[torch.Tensor]) -> list[Any]:
        """Fake tensors with symbolic sizes, after the symbols, for which the graph gets arguments as Dynamo's do."""
        self.shapes = ShapeEnv()
        mode = FakeTensorMode(shape_env=self.shapes)
        for i, x in enumerate(arguments):
            context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * x.dim())
            self.fakes.append(mode.from_tensor(x, source=LocalSource(f"t{i}"), symbolic_context=context))
        symbols: dict[Any, torch.SymInt] = {}
        for i, fake in enumerate(self.fakes):
            for kind, sizes in (
                ("size", fake.shape),
                ("stride", fake.stride()),
                ("storage_offset", [fake.storage_offset()]),
            ):
                for d, size in enumerate(sizes):
                    if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.expr not in symbols:
                        symbols[size.node.expr] = size
                        self.sources.append((i, kind, d))
        with graph.graph.inserting_before(next(iter(graph.graph.nodes))):
            for i in range(len(symbols)):
                graph.graph.placeholder(f"size{i}")
        graph.recompile()
        return [*symbols.values(), *self.fakes]

    def accepts(self, arguments: Sequence[torch.Tensor]) -> bool:
        """Dynamo checks its guards itself; here it is for the caller."""
        if self.shapes is None:
            return True
        for x, fake in zip(arguments, self.fakes, strict=True):
            sizes = zip(x.shape, fake.shape, strict=True)
            if any(size < 2 for size, known in sizes if isinstance(known, torch.SymInt)):
                return False
        return bool(self.shapes.evaluate_guards_for_args(self.fakes, list(arguments), ignore_static=False))


def _number(x: torch.Tensor, kind: str, dim: int) -> int:
    return x.storage_offset() if kind == "storage_offset" else getattr(x, kind)(dim)


# ---- one call


def reference_results(
    program: Program, reference: Compiled, size: tuple[int, int], seed: int
) -> tuple[list[Any], list[Any]]:
    """Arguments afterwards and results of the reference; Unusable if it raises."""
    try:
        arguments = program.functions()[0](*size, seed)
        return arguments, leaves(reference(*arguments))
    except Exception as why:
        raise Unusable(f"{type(why).__name__}: {why}") from None


def disturbed_results(program: Program, reference: Compiled, size: tuple[int, int], seed: int) -> list[list[Any]]:
    """The reference's arguments afterwards and results, with roundings disturbed."""
    found = []
    for run in range(_BOUND_RUNS):
        with Noise(run):
            arguments, results = reference_results(program, reference, size, seed)
        found.append([*arguments, *results])
    return found


def compare_call(
    program: Program, door: Door, reference: Compiled, size: tuple[int, int], seed: int, outcome: Outcome
) -> None:
    """One call of the compiled function beside the reference's. Notes the first difference in the outcome."""
    twins = program.functions()[0](*size, seed)
    if not door.accepts(twins):
        return
    arguments, results = reference_results(program, reference, size, seed)
    got = leaves(door.call(*twins))
    outcome.calls += 1
    want, have = [*arguments, *results], [*twins, *got]
    if len(want) != len(have):
        outcome.kind, outcome.fault = "count", f"{len(got)} results where eager gives {len(results)}"
        return
    exact = [difference(h, w, ()) for h, w in zip(have, want, strict=True)]
    near = disturbed_results(program, reference, size, seed) if any(exact) else []
    for i, (h, w) in enumerate(zip(have, want, strict=True)):
        text = exact[i] and difference(h, w, [run[i] for run in near])
        if text:
            where = f"result {i - len(arguments)}" if i >= len(arguments) else f"argument {i} afterwards"
            outcome.kind = text.split()[0]
            outcome.fault = f"{where}: {text}\nn, m = {size}, seed {seed}"
            return
    # Which results are one object is Dynamo's doing.
    for fact in (sharing, identity) if program.dynamo else (sharing,):
        if fact(have) != fact(want):
            outcome.kind = fact.__name__
            outcome.fault = f"{fact.__name__} {fact(have)}\neager's {fact(want)}\nn, m = {size}"


def run_program(program: Program, backend: str = "graphex", reference: str = "") -> Outcome:
    """Compiles once (Dynamo: as often as it likes) and compares a call per size, the first size twice.

    `reference` names the backend to compare with, eager if none.
    """
    outcome = Outcome(reference=reference)
    threads = torch.get_num_threads()
    torch.set_num_threads(program.threads)
    try:
        with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=64):
            _compare_calls(program, backend, reference, outcome)
    except (Unusable, TensorifyScalarRestartAnalysis):  # the second asks Dynamo, which isn't there, to start again
        outcome.usable = False
    except Exception as why:
        outcome.kind, outcome.fault = f"error {type(why).__name__}", f"{type(why).__name__}: {str(why)[:1500]}"
    finally:
        torch.set_num_threads(threads)
    return outcome


def _compare_calls(program: Program, backend: str, reference: str, outcome: Outcome) -> None:
    inputs, function = program.functions()
    reference_results(program, function, program.sizes[0], 1)
    if reference:
        function = _by_backend(program, reference)
    door = Door(program, inputs(*program.sizes[0], 1), backend)
    for seed, size in enumerate([program.sizes[0], *program.sizes], 1):
        with contextlib.suppress(Unusable):
            compare_call(program, door, function, size, seed, outcome)
        if outcome.fault:
            break


def _by_backend(program: Program, backend: str) -> Compiled:
    """The program compiled with that backend; it raises for sizes that the compile isn't good for."""
    try:
        door = Door(program, program.functions()[0](*program.sizes[0], 1), backend)
    except Exception as why:
        raise Unusable(f"{type(why).__name__}: {why}") from None

    def call(*arguments: torch.Tensor) -> Any:
        if not door.accepts(arguments):
            raise Unusable("other sizes")
        return door.call(*arguments)

    return call


def is_torch_fault(program: Program) -> bool:
    """Whether AOTAutograd's graph run by eager is wrong too: then it is what graphex has to equal."""
    return bool(run_program(program, "aot_eager").fault)


def fault_of(program: Program) -> Outcome:
    """The outcome of a program beside eager, or beside PyTorch's graph by eager if that is wrong too."""
    outcome = run_program(program)
    if not outcome.fault or not is_torch_fault(program):
        return outcome
    again = run_program(program, reference="aot_eager")
    if again.kind.startswith("error") and run_program(program, "aot_eager").fault == again.fault:
        return Outcome(usable=False)  # PyTorch's own graph can't be called either
    return again
