"""Fixtures: which engine runs the lowered graphs, and Dynamo's state fresh for each test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "python"))


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
