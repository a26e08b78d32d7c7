"""docs/coverage.md: complete, adds up, keeps the share asked for, and not stale where that is cheap to see."""

import importlib.util
from pathlib import Path

import pytest
from ops.doors import NoReferenceError, direct_door, why_not_native
from ops.samples import dtypes_of, one_sample, operators

ROOT = Path(__file__).resolve().parents[3]
SPEC = importlib.util.spec_from_file_location("op_coverage", ROOT / "tools" / "op_coverage.py")
op_coverage = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(op_coverage)

PAGE = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
ROWS = {row.name: row for row in op_coverage.read_page(PAGE)}
LEAST_SHARE = 0.6


def test_the_page_lists_every_operator():
    assert list(ROWS) == sorted(name for name in operators() if "float32" in dtypes_of(name)), "run ./dev coverage"


def test_the_page_sums_up():
    samples, native = sum(row.samples for row in ROWS.values()), sum(row.native for row in ROWS.values())
    assert f"**{native} of {samples} samples" in PAGE
    assert native >= LEAST_SHARE * samples


def test_a_page_reads_back():
    rows = [op_coverage.Row("a.b", 3, 2, "aten.x.default: no lowering"), op_coverage.Row("c", 1, 1)]
    assert op_coverage.read_page(op_coverage.page_of(rows, "2.13.0", 16)) == rows


@pytest.mark.parametrize("name", [row.name for row in ROWS.values() if row.native in (0, row.samples)])
def test_one_sample_is_native_where_the_page_says_all_or_none_are(name):
    sample = one_sample(name, "float32")
    if sample is None:
        return
    try:
        native = not why_not_native(direct_door(sample).program)
    except NoReferenceError:
        native = False
    assert native == (ROWS[name].native > 0), "run ./dev coverage"
