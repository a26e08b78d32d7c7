"""Which threads are capturing."""

from __future__ import annotations

import threading

CAPTURING: dict[int, str] = {}  # thread -> its capture's error mode


def is_capturing() -> bool:
    """Whether this thread records a region, in which nothing computes and no value can be read."""
    return threading.get_ident() in CAPTURING
