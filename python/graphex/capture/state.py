"""Which threads are capturing."""

from __future__ import annotations

import threading
from typing import Any

CAPTURING: dict[int, str] = {}  # thread -> its capture's error mode
LANES: dict[int, Any] = {}  # thread -> the streams of its capture (lanes.Lanes)


def is_capturing() -> bool:
    """Whether this thread records a region, in which nothing computes and no value can be read."""
    return threading.get_ident() in CAPTURING


def lanes() -> Any:
    """The streams of the capture that this thread records; None outside of one."""
    return LANES.get(threading.get_ident())
