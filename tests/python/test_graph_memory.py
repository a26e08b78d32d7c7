"""What captures and replays leave behind: nothing that grows."""

import linecache
import subprocess
import sys

import pytest
import torch

import graphex

# PyTorch's tracing keeps some KB of each graph for good; what captures add to that must not show.
GROWTH = """
import ctypes, gc, os, torch, graphex

def resident():
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # what malloc keeps for reuse is no growth
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def capture():
    g = graphex.Graph()
    with torch.no_grad(), graphex.graph(g):
        y = torch.relu(x * 2) + 1
    return g

x = torch.randn(16)
"""
CAPTURES = """
for i in range(1300):
    g = capture()
    g.replay()
    g.reset()
    if i == 300:
        before = resident()
print(resident() - before)
"""
REPLAYS = """
g = capture()
for i in range(101_000):
    g.replay()
    if i == 1000:
        before = resident()
print(resident() - before)
"""


def test_no_text_of_a_capture_is_kept():
    x = torch.randn(16)

    def capture_and_reset():
        g = graphex.Graph()
        with torch.no_grad(), graphex.graph(g):
            y = torch.relu(x * 2) + 1
        g.reset()
        return y

    capture_and_reset()
    texts = len(linecache.cache), len(torch.fx.graph_module._loader.eval_cache)
    for _ in range(3):
        capture_and_reset()
    assert (len(linecache.cache), len(torch.fx.graph_module._loader.eval_cache)) == texts


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("loop", "most"), [(CAPTURES, 8 << 20), (REPLAYS, 1 << 20)], ids=["captures", "replays"])
def test_resident_memory_is_flat(loop, most):
    done = subprocess.run([sys.executable, "-c", GROWTH + loop], capture_output=True, text=True, check=True)
    assert int(done.stdout) < most
