"""The console that the tables go to: NO_COLOR is obeyed by rich itself, pipes get a fixed width and no animation."""

import shutil
import sys

from rich.console import Console

PIPE_WIDTH = 140


def console(json):
    """On stdout, or on stderr where stdout is kept for JSON."""
    stream = sys.stderr if json else sys.stdout
    width = shutil.get_terminal_size().columns if stream.isatty() else PIPE_WIDTH
    return Console(stderr=json, width=width)
