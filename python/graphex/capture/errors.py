"""The error of a capture, and where in the user's code it arose."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import torch

_NOT_THE_USERS = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
_PYTHONS_OWN = sysconfig.get_path("stdlib")


class CaptureError(RuntimeError):
    """Something in a captured region that a graph can't hold. The graph is empty then, and no tensor was touched."""


def _is_users(file: str) -> bool:
    if file.startswith(_PYTHONS_OWN):
        return "-packages" in file and not file.startswith(_NOT_THE_USERS)
    return not file.startswith(_NOT_THE_USERS)


def user_frame() -> tuple[str, int, str]:
    """File, line and function of the innermost frame that is neither PyTorch's nor graphex's nor Python's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def stack_trace() -> str:
    """The user's frame as FX writes it into a node's meta."""
    file, line, name = user_frame()
    return f'  File "{file}", line {line}, in {name}\n'


def at_user_line(message: str) -> CaptureError:
    """A CaptureError that names the user's line."""
    file, line, _ = user_frame()
    return CaptureError(f"{message}, at {file}:{line}")
