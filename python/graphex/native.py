"""The native module, or an error that says how to get it."""

from __future__ import annotations

from typing import Any


def core() -> Any:
    """graphex._core. ImportError with a hint where it isn't built or doesn't load."""
    try:
        from . import _core
    except ImportError as why:
        raise ImportError(
            f"graphex's native module isn't there ({why}); build it in a clone by ./dev build, or install the wheel"
        ) from why
    return _core
