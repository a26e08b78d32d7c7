"""What torch.fx keeps of every graph module it ever made: the text of its Python code, for tracebacks."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager

import torch.fx.graph_module


@contextmanager
def sources_forgotten() -> Iterator[None]:
    """Forgets the texts that were added inside: a capture's graphs are gone when it ends, and texts would pile up."""
    texts = getattr(getattr(torch.fx.graph_module, "_loader", None), "eval_cache", None)
    if not isinstance(texts, dict):  # another PyTorch may keep them elsewhere
        yield
        return
    before = set(texts)
    try:
        yield
    finally:
        for name in set(texts) - before:
            texts.pop(name, None)
            linecache.cache.pop(name, None)
