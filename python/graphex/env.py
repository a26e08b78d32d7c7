"""Versions, machine and settings, for `python -m graphex env`."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _native() -> dict[str, str]:
    try:
        from . import _core
    except ImportError as why:
        return {"native module": f"missing ({why})"}
    path = str(getattr(_core, "__file__", "built in"))
    return {"native module": path, "code memory": _core.code_memory()}


def collect() -> dict[str, Any]:
    """The facts, as plain data."""
    import torch

    from . import __version__
    from .options import OPTIONS

    return {
        "graphex": __version__,
        **_native(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": _cpu_model(),
        "cpus allowed": len(os.sched_getaffinity(0)),
        "torch threads": torch.get_num_threads(),
        "settings": {o.env: os.environ[o.env] for o in OPTIONS if o.env and o.env in os.environ},
    }


def show(as_json: bool = False) -> None:
    """Prints the facts."""
    facts = collect()
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        print(f"{name:14} {value}")
