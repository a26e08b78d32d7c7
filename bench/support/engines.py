"""The ways to run a model that the tables compare, by name: eager PyTorch, inductor, and graphex.

graphex is asked for as a user asks for it, by the name that its entry point registers; nothing here imports it. An
engine that is not there is an error, unless the caller leaves it out by name.
"""

import time
from dataclasses import dataclass, field

import torch
from torch._dynamo.backends.registry import list_backends, lookup_backend

INSTALL_HINT = "build and install it with ./dev build, or leave it out with --without-graphex"


@dataclass(frozen=True)
class Engine:
    """One row or column of a table. `backend` None is eager; `options` go to torch.compile."""

    name: str
    backend: str | None = None
    options: dict = field(default_factory=dict)

    def compile(self, function, clock=None):
        """The callable to use in the function's place; `clock` sees every call that reaches the compiled code."""
        if self.backend is None:
            return function
        backend = self.backend if clock is None else clock.wrap(lookup_backend(self.backend), self)
        options = self.options or None
        if clock is not None:
            options = None  # the wrapped backend hands them on itself: inductor's are not keywords of its function
        return torch.compile(function, backend=backend, options=options)


EAGER = Engine("eager")
INDUCTOR = Engine("inductor", "inductor")
FREEZING = Engine("inductor, freezing", "inductor", {"freezing": True})
GRAPHEX = Engine("graphex", "graphex")


def available(engine):
    return engine.backend is None or engine.backend in list_backends(exclude_tags=())


def choose(engines, without_graphex=False):
    """The engines that will run. Says which one is left out, and ends the program where one is missing."""
    chosen = []
    for engine in engines:
        if engine.backend == "graphex" and without_graphex:
            print("graphex is left out, as asked by --without-graphex", flush=True)
        elif not available(engine):
            raise SystemExit(f"torch.compile knows no backend '{engine.backend}': {INSTALL_HINT}")
        else:
            chosen.append(engine)
    return chosen


class ReplayClock:
    """Times the callable that a backend returned, from its entry to its return: what a step costs without Dynamo.

    Works for every backend, graphex included, since it stands between Dynamo and the callable.
    """

    def __init__(self):
        self.nanoseconds = []
        self.compile_seconds = 0.0
        self.graphs = 0

    def wrap(self, backend, engine):
        def timed_backend(graph, example_inputs, **_):
            start = time.perf_counter()
            compiled = hand_over(backend, engine, graph, example_inputs)
            self.compile_seconds += time.perf_counter() - start
            self.graphs += 1
            return self.timed(compiled)

        return timed_backend

    def timed(self, compiled):
        clock, record = time.perf_counter_ns, self.nanoseconds.append

        def call(*arguments):
            start = clock()
            result = compiled(*arguments)
            record(clock() - start)
            return result

        return call

    def take(self):
        """Seconds of the calls since the last take."""
        seconds = [value * 1e-9 for value in self.nanoseconds]
        self.nanoseconds.clear()
        return seconds


def compiled(engine, function):
    """The function by an engine, and the clock of its callable; None for eager, whose clock is the caller's."""
    torch._dynamo.reset()
    clock = ReplayClock()
    run = engine.compile(function, clock)
    return run, clock if engine.backend else None


def seconds_of(run, clock, *inputs):
    """One call's seconds, by the clock of `compiled`."""
    start = time.perf_counter()
    run(*inputs)
    seconds = time.perf_counter() - start
    return sum(clock.take()) if clock else seconds


def hand_over(backend, engine, graph, example_inputs):
    """A backend called as torch.compile calls it: inductor's options are patches of its configuration."""
    if not engine.options:
        return backend(graph, example_inputs)
    if engine.backend == "inductor":
        from torch._inductor.compile_fx import compile_fx

        return compile_fx(graph, example_inputs, config_patches=engine.options)
    return backend(graph, example_inputs, options=engine.options)


def backend_seconds(engine, compiled):
    """Seconds inside the backend's own compiler since the last reset, without Dynamo and AOTAutograd."""
    if engine.backend == "graphex":
        import graphex

        return graphex.explain(compiled)["compile_seconds"]
    if engine.backend == "inductor":
        return compile_times().get("compile_fx_inner")
    return None


def compile_times():
    """Seconds that Dynamo counted in this process, by the name of its phase; phases contain one another."""
    from torch._dynamo.utils import compilation_time_metrics

    return {name: sum(values) for name, values in compilation_time_metrics.items()}
