"""dump_dir: the graphs as files."""

import pytest
import torch
from check import BACKEND, compiled

pytestmark = [
    pytest.mark.usefixtures("backend"),
    pytest.mark.skipif(BACKEND != "graphex", reason="an option of graphex's"),
]


def test_dumped_graphs(tmp_path):
    """The graph as lowered, then after each pass that changed it; each graph in a folder of its own."""
    candidate = compiled(lambda x: (x + 1) * (x + 1), options={"dump_dir": str(tmp_path / "graphs")})
    candidate(torch.ones(3))
    (folder,) = (tmp_path / "graphs").iterdir()
    first, *later = sorted(folder.iterdir())
    assert first.name == "00-lowered.gx" and first.read_text().count("add") == 2
    (merged,) = (file for file in later if "merge_common" in file.name)
    assert merged.read_text().count("add") == 1
