"""Why a part of a graph can't be lowered."""

from __future__ import annotations


class Unsupported(Exception):
    """Raised by a lowering: the node (or, outside a node, the whole graph) has to run by eager PyTorch."""


class UnsupportedError(RuntimeError):
    """Raised to the user under fallback="error": names the operator, the reason and the model's line."""
