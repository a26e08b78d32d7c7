"""Writes docs/coverage.md: how many of PyTorch's own operator samples in float32 run natively, operator by operator.

The first samples of each operator in tests/python/ops are captured and compiled; that they equal eager is tested there.
"""

import argparse
import functools
import itertools
import logging
import multiprocessing
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coverage.md"
DTYPE = "float32"
LONGEST_REASON = 110
# Of each operator, so that the few with hundreds don't outweigh the rest.
SAMPLES = 16


@dataclass
class Row:
    """One operator: its samples, those of them that are native, and what most of the others leave to PyTorch."""

    name: str
    samples: int
    native: int
    reason: str = ""


def row_of(name: str, most: int) -> Row:
    """Captures and compiles the operator's first samples."""
    from ops.doors import NoReferenceError, direct_door, why_not_native
    from ops.samples import samples_of

    reasons: Counter[str] = Counter()
    samples = 0
    for samples, sample in enumerate(itertools.islice(samples_of(name, DTYPE), most), 1):  # noqa: B007
        try:
            reason = why_not_native(direct_door(sample).program)
        except NoReferenceError as why:
            reason = str(why)
        if reason:
            reasons[reason] += 1
    top = reasons.most_common(1)[0][0] if reasons else ""
    return Row(name, samples, samples - reasons.total(), top.replace("|", "/")[:LONGEST_REASON])


def prepare() -> None:
    """In each process: where the tests' modules are, and silence."""
    sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "python")]
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    for name in ("graphex", "torch"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def page_of(rows: list[Row], version: str, most: int) -> str:
    """The page's text."""
    samples, native = sum(row.samples for row in rows), sum(row.native for row in rows)
    whole = sum(row.samples == row.native for row in rows)
    head = f"""# What runs natively, by PyTorch's own samples
Written by `./dev coverage`, not by hand: the first {most} {DTYPE} samples of each operator in torch {version}.
Native means machine code of graphex and nothing left to eager PyTorch; `tests/python/ops` holds that all equal eager.

**{native} of {samples} samples ({native / samples:.1%}) are native**; of {len(rows)} operators {whole} wholly.

| operator | samples | native | left to PyTorch, most often |
| --- | ---: | ---: | --- |
"""
    return head + "".join(f"| {row.name} | {row.samples} | {row.native} | {row.reason} |\n" for row in rows)


def read_page(text: str) -> list[Row]:
    """The rows of a page."""
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [Row(name, int(samples), int(native), reason) for name, samples, native, reason in cells[2:]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--samples", type=int, default=SAMPLES, help=f"at most so many of each operator ({SAMPLES})")
    options = parser.parse_args()
    prepare()
    import torch
    from ops.samples import dtypes_of, operators

    names = sorted(name for name in operators() if DTYPE in dtypes_of(name))
    with multiprocessing.get_context("spawn").Pool(options.jobs, prepare) as pool:
        rows = []
        for row in pool.imap(functools.partial(row_of, most=options.samples), names):
            rows.append(row)
            print(f"\r{len(rows)} of {len(names)} operators", end="", file=sys.stderr, flush=True)
    PAGE.write_text(page_of(rows, torch.__version__.partition("+")[0], options.samples), encoding="utf-8")
    print(f"\n{PAGE.relative_to(ROOT)}: {sum(r.native for r in rows)} of {sum(r.samples for r in rows)} samples native")


if __name__ == "__main__":
    main()
