"""Graphs that outlive the process: aot_compile, saving and loading."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("backend")

MODULE = '''
import torch
from torch import nn

class Counting(nn.Module):
    """Writes a buffer, has a weight, gives a size back, and leaves one operator to an island."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.linear = nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x, scale=2):
        self.calls.add_(1)
        odd = torch.special.digamma(self.linear(x))
        return torch.softmax(odd, -1) * scale, x.shape[0]

def expected(model, x):
    return torch.softmax(torch.special.digamma(model.linear(x)), -1) * 2
'''
SAVE = """
import sys, torch
from counting import Counting, expected
model = Counting().eval().requires_grad_(False)
compiled = torch.compile(model, backend="graphex", fullgraph=True, dynamic=True, options={"threads": 2})
with torch.no_grad():
    ahead = compiled.forward.aot_compile(((torch.rand(4, 8),), {}))
    x = torch.rand(5, 8)
    torch.testing.assert_close(ahead(model, x)[0], expected(model, x))
    ahead.save_compiled_function(sys.argv[1])
"""
LOAD = """
import sys, torch
from counting import Counting, expected
model = Counting().eval().requires_grad_(False)
with open(sys.argv[1], "rb") as file, torch.no_grad():
    run = torch.compiler.load_compiled_function(file)
    for rows in (4, 7):
        x = torch.rand(rows, 8)
        result, count = run(model, x)
        torch.testing.assert_close(result, expected(model, x))
        assert count == rows
assert model.calls.tolist() == [2, 2, 2]
"""


def test_a_saved_graph_runs_in_another_process(tmp_path):
    (tmp_path / "counting.py").write_text(MODULE)
    for program in (SAVE, LOAD):
        command = [sys.executable, "-c", program, str(tmp_path / "saved")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-2000:]


def test_a_graph_with_a_function_as_option_is_not_saved(tmp_path):
    options = {"post_grad_custom_pre_pass": lambda gm, inputs, options: None}
    compiled = torch.compile(lambda x: x + 1, backend="graphex", fullgraph=True, options=options)
    ahead = compiled.aot_compile(((torch.rand(4),), {}))
    with pytest.raises(ValueError, match="post_grad_custom_pre_pass"):
        ahead.save_compiled_function(str(tmp_path / "saved"))


def test_bytes_of_others_are_refused():
    from graphex.serial import _MAGIC, CompiledGraph

    for data in (b"", b"something else", pickle.dumps({})):
        with pytest.raises(ValueError, match="aren't a graph"):
            CompiledGraph.deserialize_compile_artifacts(data)
    other = _MAGIC + pickle.dumps({"format": 0, "torch": "1.0"})
    with pytest.raises(ValueError, match=r"torch 1\.0, format 0"):
        CompiledGraph.deserialize_compile_artifacts(other)


def test_a_module_that_holds_compiled_parts_can_be_copied_and_pickled():
    import copy

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval().requires_grad_(False)
    model.compile(backend="graphex")
    x = torch.rand(2, 4)
    expected = model(x)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(twin(x), expected)
