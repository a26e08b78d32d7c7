"""Fixtures: which engine runs the lowered graphs, and Dynamo's state fresh for each test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))


@pytest.fixture(autouse=True)
def fresh_dynamo():
    import torch

    torch._dynamo.reset()
    torch.manual_seed(0)
    yield


@pytest.fixture
def interpreter(monkeypatch):
    """Lowered graphs run by the plain interpreter, unless GRAPHEX_TEST_ENGINE=core asks for the native module."""
    if os.environ.get("GRAPHEX_TEST_ENGINE") == "core":
        return
    import ir_interpreter

    from graphex import backend

    monkeypatch.setattr(backend, "build_program", ir_interpreter.compile)


@pytest.fixture
def backend(request):
    """The name of the backend under test; its absence is a failure, so that a lost Python door can't look green."""
    from check import BACKEND, NATIVE_SOURCE
    from torch._dynamo.backends.registry import list_backends

    if BACKEND not in list_backends(exclude_tags=()):
        pytest.fail(f"torch.compile knows no backend '{BACKEND}': build and install graphex first (./dev build)")
    if BACKEND == "graphex" and not NATIVE_SOURCE.exists():
        request.getfixturevalue("interpreter")  # until the native module is written
    return BACKEND
