"""`python -m graphex env`: what a bug report needs, also where the settings are wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

import graphex

PYTHON = Path(__file__).resolve().parents[2] / "python"


def page(**settings):
    env = {name: value for name, value in os.environ.items() if not name.startswith("GRAPHEX_")}
    env |= {"PYTHONPATH": str(PYTHON), **settings}
    command = [sys.executable, "-m", "graphex", "env", "--json"]
    answer = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_it_tells_versions_machine_and_settings(tmp_path):
    settings = {"GRAPHEX_ISA": "generic", "GRAPHEX_CACHE_DIR": str(tmp_path)}
    facts = page(**settings)
    assert facts["graphex"] == graphex.__version__ and facts["torch"] == torch.__version__
    assert Path(facts["native module"]).parent == PYTHON / "graphex"
    assert facts["kernels' level"] == "generic" and facts["kernels' cache"] == str(tmp_path)
    assert facts["cpus allowed"] == len(os.sched_getaffinity(0))
    assert facts["settings"] == settings


def test_a_wrong_setting_does_not_hide_the_rest():
    facts = page(GRAPHEX_ISA="avx1024")
    assert facts["kernels' level"].startswith("error: ") and "avx1024" in facts["kernels' level"]
    assert facts["torch"] == torch.__version__ and facts["settings"] == {"GRAPHEX_ISA": "avx1024"}
