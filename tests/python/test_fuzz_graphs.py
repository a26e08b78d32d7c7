"""Random PyTorch functions against eager: CI's seeds, and the proof that they find broken rules."""

import sys
import warnings
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fuzz"))

from graphs import run
from graphs.generate import generate
from graphs.mutants import CI_SEEDS, MUTANTS, found_by, view_becomes_a_copy
from graphs.report import reproduction
from graphs.run import fault_of, run_program
from graphs.shrink import shrink

CHUNK = 10


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("first", CI_SEEDS[::CHUNK])
def test_random_graphs_give_what_eager_gives(first):
    faults = []
    for seed in range(first, first + CHUNK):
        program = generate(seed)
        outcome = fault_of(program)
        if outcome.fault:
            faults.append(reproduction(program, seed, outcome.fault))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_rule_is_found(mutant):
    assert found_by(mutant, MUTANTS[mutant]) is not None


def test_where_pytorchs_own_graph_is_wrong_it_is_what_is_compared_with(monkeypatch):
    monkeypatch.setattr(run, "is_torch_fault", lambda program: True)
    program = generate(MUTANTS[view_becomes_a_copy])
    assert not fault_of(program).reference  # eager's results
    with view_becomes_a_copy():
        outcome = fault_of(program)
    assert outcome.reference == "aot_eager" and outcome.usable and outcome.fault
    agreeing = run_program(program, reference="aot_eager")
    assert agreeing.usable and agreeing.calls and not agreeing.fault


def test_equal_seeds_give_equal_programs():
    assert [generate(seed) for seed in range(20)] == [generate(seed) for seed in range(20)]


def test_a_failure_is_made_small_and_stands_alone():
    program = next(p for p in map(generate, CI_SEEDS) if "torch.cat" in p.source() and len(p.body) > 3)
    small = shrink(program, lambda p: "torch.cat" in p.source())
    assert len(small.body) < len(program.body)
    text = reproduction(small, 1, "a fault\nof two lines")
    assert text.startswith("# ")
    scope = {}
    exec(text.rsplit("\narguments, twins", 1)[0], scope)
    arguments = scope["inputs"](*small.sizes[0], 1)
    assert all(isinstance(result, torch.Tensor) for result in scope["f"](*arguments))
