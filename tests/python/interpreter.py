"""Runs a script in an interpreter of its own, for what may end or hang one."""

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 240  # seconds: what takes longer hangs


def script(*parts: str) -> str:
    """What the parts, one program, printed. Ends badly or late: the test fails."""
    program = "".join(textwrap.dedent(part) for part in parts)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT, check=False
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout
