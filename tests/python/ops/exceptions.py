"""The list of operators for which eager isn't the reference: exceptions.txt, which only shrinks."""

from functools import cache
from pathlib import Path

LIST = Path(__file__).with_name("exceptions.txt")


@cache
def listed() -> dict[tuple[str, str], str]:
    """(operator, dtype) to the reason."""
    entries = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, dtypes, reason = line.split(maxsplit=2)
            entries |= {(name, dtype): reason for dtype in dtypes.split(",")}
    return entries
