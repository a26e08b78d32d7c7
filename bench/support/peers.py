"""Other engines, each in a process of its own so that their threads and libraries don't meet ours: asked by a line.

bench/peers/<name>.py gets its task as one line of JSON, answers {"ready": version} or {"missing": reason}, and for each
further line plays once and answers {"seconds": s}.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from . import contest

FOLDER = Path(__file__).resolve().parents[1] / "peers"
NAMES = {"llama.cpp": "llama", "openvino": "ov"}
CALM = 0.02  # their idle threads spin a few milliseconds


class Peer:
    """Called, it lets the peer play once and returns the seconds by the peer's own clock."""

    def __init__(self, name, python, model, kind, threads, contestant) -> None:
        script = FOLDER / f"{NAMES[name]}.py"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([python, str(script)], text=True, **pipes)
        task = {
            "model": model,
            "phase": kind.phase,
            "batch": kind.batch,
            "context": kind.context,
            "threads": threads,
        }
        answer = self.ask(task)
        if "missing" in answer:
            self.close()
            raise contest.Missing(answer["missing"])
        contestant.facts["version"] = answer["ready"]

    def ask(self, line: object) -> dict:
        try:
            self.process.stdin.write(json.dumps(line) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise contest.Missing(f"its process ended with code {self.process.wait()}")
        return json.loads(answer)

    def __call__(self) -> float:
        seconds = self.ask("play")["seconds"]
        time.sleep(CALM)
        return seconds

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()
        self.process.stdout.close()

    def __del__(self) -> None:
        if hasattr(self, "process"):
            self.close()
