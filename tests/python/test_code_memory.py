"""Processes that restrict executable memory: kernels go another way, or eager PyTorch serves the call and says why."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("backend")

# Each (number, argument, bits) of x86-64 refuses calls by a seccomp filter, as systemd's MemoryDenyWriteExecute does.
RESTRICT = """
import ctypes, struct, sys
import torch

def restrict(*rules):
    load, equal, mask, answer = 0x20, 0x15, 0x54, 0x06
    code = b""
    for number, argument, bits in rules:
        code += struct.pack("HBBI", load, 0, 0, 0) + struct.pack("HBBI", equal, 0, 4, number)
        code += struct.pack("HBBI", load, 0, 0, 16 + 8 * argument) + struct.pack("HBBI", mask, 0, 0, bits)
        code += struct.pack("HBBI", equal, 0, 1, bits) + struct.pack("HBBI", answer, 0, 0, 0x00050001)
    code += struct.pack("HBBI", answer, 0, 0, 0x7FFF0000)
    buffer = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0

WRITE, EXEC = 2, 4
MMAP, MPROTECT = 9, 10
written_memory = [(MPROTECT, 2, EXEC), (MMAP, 2, WRITE | EXEC)]
everything = [(MPROTECT, 2, EXEC), (MMAP, 2, EXEC)]

def f(x):
    return torch.softmax(x * 2, -1) @ x

x = torch.rand(33, 33)
run = torch.compile(f, backend="graphex")
# Loads what is loaded on first use, as a process does before it restricts itself.
torch.compile(lambda x: x.cos(), backend="graphex")(x)
"""


def script(body: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", RESTRICT + textwrap.dedent(body)]
    here = Path(__file__).parent
    return subprocess.run(program, capture_output=True, text=True, timeout=240, check=False, cwd=here)


def test_written_memory_may_not_run():
    done = script("""
        import graphex
        restrict(*written_memory)
        y = run(x)
        assert torch.allclose(y, f(x), rtol=1e-6), "values"
        assert graphex.explain(run)["eager_graphs"] == 0
        from graphex import _core
        print(_core.code_memory())
    """)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "memory file"


def test_nothing_may_run():
    done = script("""
        import graphex
        restrict(*everything)
        y = run(x)
        assert torch.allclose(y, f(x), rtol=1e-6), "values"
        print(graphex.explain(run)["graphs"][0]["eager"])
    """)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "forbids this process executable memory" in done.stdout
    assert done.stderr.count("runs by eager PyTorch") == 1
