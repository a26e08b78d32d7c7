"""Versions, machine and settings, for `python -m graphex env`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _told(ask: Callable[[], str]) -> str:
    """A bug report most needs the page where something is wrong: an error is an answer."""
    try:
        return ask()
    except Exception as why:
        return f"error: {why}"


def _native() -> dict[str, str]:
    try:
        from . import _core
    except ImportError as why:
        return {"native module": f"missing ({why})"}
    path = str(getattr(_core, "__file__", "built in"))
    return {
        "native module": path,
        "kernels' level": _told(_core.level),
        "kernels' cache": _told(_core.cache_folder) or "none",
        "code memory": _told(_core.code_memory),
    }


def collect() -> dict[str, Any]:
    """The facts, as plain data."""
    import torch

    from . import __version__

    return {
        "graphex": __version__,
        **_native(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": _cpu_model(),
        "cpus allowed": len(os.sched_getaffinity(0)),
        "torch threads": torch.get_num_threads(),
        "settings": {name: value for name, value in os.environ.items() if name.startswith("GRAPHEX_")},
    }


def show(as_json: bool = False) -> None:
    """Prints the facts."""
    facts = collect()
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        print(f"{name:15} {value}")
