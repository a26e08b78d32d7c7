"""./dev fuzz graphs: random PyTorch functions against eager, for a time or a range of seeds."""

from __future__ import annotations

import argparse
import collections
import json
import logging
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from graphs.generate import generate
from graphs.report import reproduction
from graphs.run import fault_of
from graphs.shrink import shrink


@dataclass
class Tally:
    """What a run came to."""

    seeds: int = 0
    calls: int = 0
    unusable: int = 0
    torch_faults: list[int] = field(default_factory=list)  # compared with PyTorch's own graph instead of eager
    failures: list[int] = field(default_factory=list)
    seconds: float = 0.0
    kinds: collections.Counter[str] = field(default_factory=collections.Counter)


def quiet() -> None:
    """Warnings of torch and of graphs that run by eager say nothing here."""
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)


def try_seed(seed: int, tally: Tally, smaller: bool) -> None:
    """Runs a seed; prints a failure as a function that reproduces it."""
    program = generate(seed)
    outcome = fault_of(program)
    tally.seeds += 1
    tally.calls += outcome.calls
    tally.unusable += not outcome.usable
    if outcome.reference:
        tally.torch_faults.append(seed)
    if not outcome.fault:
        return
    tally.failures.append(seed)
    tally.kinds[outcome.kind] += 1
    if smaller:
        program = shrink(program, lambda one: fault_of(one).kind == outcome.kind)
        outcome = fault_of(program)
    print(reproduction(program, seed, outcome.fault), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev fuzz graphs", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seeds", type=int, default=None, help="so many seeds instead of a time")
    parser.add_argument("--json", action="store_true", help="the figures as one line of JSON at the end")
    parser.add_argument("--whole", action="store_true", help="print failing programs as they are, not made small")
    options = parser.parse_args()
    quiet()
    tally, start, seed = Tally(), time.monotonic(), options.seed
    while (seed < options.seed + options.seeds) if options.seeds else (time.monotonic() < start + options.seconds):
        try_seed(seed, tally, not options.whole)
        seed += 1
    tally.seconds = round(time.monotonic() - start, 1)
    figures = {**vars(tally), "kinds": dict(tally.kinds), "seeds_per_hour": round(tally.seeds / tally.seconds * 3600)}
    print(json.dumps(figures) if options.json else ", ".join(f"{k} {v}" for k, v in figures.items()))
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
