#!/usr/bin/env python3
"""Writes docs/models.md: what becomes of the architectures of tests/python/zoo under torch.compile(backend="graphex").

./dev python tools/models_table.py [NAME...]     the named architectures anew (all if none), the other rows as they are
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))
PAGE = ROOT / "docs" / "models.md"
HEAD = """# Models

Architectures of `transformers` {transformers} as tiny seeded models in float32 (`tests/python/zoo/`), compiled with
`torch.compile(model.forward, backend="graphex")`, PyTorch {torch}. Causal models: prefill of three lengths and three
decode steps each, with a static and a dynamic cache; the others: three lengths or batches. Made by
`./dev python tools/models_table.py`; `./dev test --slow` checks the results.

Counts are over all graphs of an architecture (a first size is compiled as fixed, a second one as any). "Error" is the
mean distance of graphex's results, then of eager's, from the same weights in float64, in units of the results' root
mean square. An operator left to PyTorch is an island between native segments; results are eager's all the same.

| architecture | kind | graphs | native nodes | islands | graph breaks | error | eager's | left to PyTorch |
| --- | --- | --: | --: | --: | --: | --: | --: | --- |
"""


def old_rows() -> dict[str, str]:
    """The page's rows by architecture."""
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    rows = [line for line in lines if line.startswith("| ") and not line.startswith(("| architecture", "| ---"))]
    return {row.split("|")[1].strip(): row for row in rows}


def left_to_pytorch(trial: Any) -> Iterator[str]:
    """The operators that became islands, the most frequent first, and graphs that run by eager as a whole."""
    for graph in trial.report["graphs"]:
        if graph["eager"]:
            yield f"a whole graph: {graph['eager']}"
    for name, times in trial.islands.most_common():
        yield f"{name.removeprefix('aten.').removesuffix('.default')} x{times}"


def row_of(architecture: Any) -> str:
    """Runs the architecture and describes what became of it."""
    import torch
    from zoo.judge import Distance
    from zoo.trial import Trial

    torch._dynamo.reset()
    trial = Trial(architecture, torch.float32, lambda forward: torch.compile(forward, backend="graphex"))
    for complaint in trial.complaints:
        print(f"WRONG {architecture.name}: {complaint}", flush=True)
    errors = [max(Distance.of(r[name], trial.truth[name]).mean for name in r) for r in (trial.got, trial.eager)]
    report = trial.report
    cells = [architecture.name, architecture.kind, len(report["graphs"]), report["native"], report["islands"]]
    cells += [sum(report["graph_breaks"].values()), *(f"{error:.1e}" for error in errors)]
    cells.append("**wrong results**" if trial.complaints else ", ".join(dict.fromkeys(left_to_pytorch(trial))))
    return f"| {' | '.join(map(str, cells))} |".replace("|  |", "| |")


def main(names: list[str]) -> None:
    """Measures and rewrites the page after each architecture, so that an interrupted run loses nothing."""
    import torch
    import transformers
    from zoo.models import ARCHITECTURES

    unknown = [name for name in names if name not in ARCHITECTURES]
    if unknown:
        sys.exit(f"no architecture {', '.join(unknown)}; known: {', '.join(ARCHITECTURES)}")
    rows = old_rows()
    head = HEAD.format(transformers=transformers.__version__, torch=torch.__version__.split("+")[0])
    for name in names or ARCHITECTURES:
        rows[name] = row_of(ARCHITECTURES[name])
        print(rows[name], flush=True)
        PAGE.write_text(head + "".join(rows[n] + "\n" for n in ARCHITECTURES if n in rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
