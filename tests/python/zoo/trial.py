"""One architecture by eager PyTorch, in float64, and by graphex: what differs, and what became of its graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch

from . import judge, models, scenarios


class Trial:
    """Runs an architecture's scenario three ways; `compile_` is torch.compile with the backend in question."""

    def __init__(
        self,
        architecture: models.Architecture,
        dtype: torch.dtype,
        compile_: Callable[[Any], Any],
        quick: bool = False,
    ) -> None:
        model, truth = models.make_model(architecture, dtype), models.make_truth(architecture, dtype)
        self.eager = scenarios.run(scenarios.Call(architecture, model, model.forward, quick))
        self.truth = scenarios.run(scenarios.Call(architecture, truth, truth.forward, quick))
        torch._dynamo.utils.counters.clear()
        self.compiled = compile_(models.make_model(architecture, dtype).forward)
        with torch._dynamo.config.patch(recompile_limit=32, fail_on_recompile_limit_hit=True):  # else eager would run
            self.got = scenarios.run(scenarios.Call(architecture, model, self.compiled, quick))

    @property
    def complaints(self) -> list[str]:
        """What is wrong with the compiled results; nothing if they are a rounding of the truth like eager's."""
        found = (judge.complaint(name, self.got[name], self.eager[name], self.truth[name]) for name in self.eager)
        return [complaint for complaint in found if complaint]

    @cached_property
    def report(self) -> dict[str, Any]:
        """graphex.explain's."""
        import graphex

        return graphex.explain(self.compiled)

    @property
    def islands(self) -> Counter[str]:
        """How often each operator was left to PyTorch, over all graphs."""
        return Counter(island["op"] for graph in self.report["graphs"] for island in graph["islands"])
