"""From a finished recording to what replays it: a program by way of AOTAutograd and the lowering, or eager."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import fx
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode

from ..backend import InputsOverlapError, compile_aten, log, through_aot
from ..lower.errors import UnsupportedError
from ..native import core
from ..report import GraphReport, record, reports_of
from ..streams.stream import current_stream
from .recording import Recording
from .symbols import oblivious

_COMPILING = threading.Lock()  # AOTAutograd's settings belong to the process


class Replayer:
    """Runs a recorded graph. Called with one tensor per input of the recording, which it reads and writes in place.

    `fake_mode` is the one that the recording's numbers belong to; their values follow the tensors in calls.
    """

    def __init__(self, recording: Recording, fake_mode: FakeTensorMode, values: dict[str, Any], pool: Any) -> None:
        self.graph = fx.GraphModule(recording.root, recording.graph)
        self.program: Any = None  # graphex._core.Program
        self.tokens = 0  # arguments before the recording's, by which AOTAutograd orders effects
        reason = recording.only_eager
        if not reason:
            with _COMPILING, _plain_state():
                reason = self._compile(recording, fake_mode, values)
        if self.program is not None:
            self.program.share_memory(pool)
        if reason:
            self._use_eager(reason, values)

    def _compile(self, recording: Recording, fake_mode: FakeTensorMode, values: dict[str, Any]) -> str:
        """Sets `program`; returns why there is none."""
        made: list[tuple[Any, int]] = []
        with fake_mode:
            fakes = [*(i.layout.empty() for i in recording.inputs), *recording.numbers]

        def compile_inference(aten: fx.GraphModule, inputs: Sequence[Any]) -> Any:
            program = compile_aten(aten, inputs, values, "inference", floats=True)
            made.append((program, len(aten.graph.find_nodes(op="placeholder")) - len(fakes)))
            return program

        try:
            with tracing(TracingContext(fake_mode)), oblivious() if recording.numbers else nullcontext():
                through_aot(self.graph, fakes, values, compile_inference)
        except UnsupportedError:
            raise
        except Exception as why:
            log.warning("AOTAutograd failed on a recorded graph", exc_info=True)
            return f"AOTAutograd: {type(why).__name__}: {why}"
        [(program, tokens)] = made
        eager = reports_of(program)[0].eager
        if not eager:
            self.program, self.tokens = program, tokens
        return eager

    def _use_eager(self, reason: str, values: dict[str, Any]) -> None:
        if values["fallback"] == "error":
            raise UnsupportedError(f"graphex can't run the recorded graph natively: {reason}")
        log.warning("a recorded graph of %d nodes runs by eager PyTorch: %s", len(self.graph.graph.nodes), reason)
        record(GraphReport("recording", len(self.graph.graph.nodes), eager=reason), self.graph)

    @property
    def reported(self) -> Any:
        """What graphex.explain knows this by."""
        return self.graph if self.program is None else self.program

    def __call__(self, tensors: Sequence[torch.Tensor], numbers: Sequence[int | float] = ()) -> None:
        """One replay, whatever modes the caller is in."""
        if torch._C._is_any_autocast_enabled():
            with torch._C._DisableAutocast():
                self._run(tensors, numbers)
        else:
            self._run(tensors, numbers)

    def _run(self, tensors: Sequence[torch.Tensor], numbers: Sequence[int | float]) -> None:
        if self.program is not None:
            arguments = [*[None] * self.tokens, *tensors]
            if numbers:
                arguments += map(_as_argument, numbers)
            queue = current_stream()._core
            if queue is not None and self.program.enqueue(arguments, queue):
                return
            try:
                self.program(arguments)
                return
            except InputsOverlapError:
                pass
        core().settle()
        with torch.no_grad():
            self.graph(*tensors, *numbers)


def _as_argument(number: int | float) -> Any:
    """What a program takes for it: floats come as 0-dim tensors."""
    return number if isinstance(number, int) else torch.tensor(number, dtype=torch.float64)


@contextmanager
def _plain_state() -> Any:
    """What the calls were recorded under: no autocast, whose casts were recorded, no gradients, no inference mode."""
    with torch.inference_mode(False), torch.no_grad(), torch._C._DisableAutocast():
        yield
