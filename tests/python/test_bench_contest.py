"""Contests, results and plots of benches: figures from known times, honest gaps, and a short run of one."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import plots
import pytest
import torch
from support import contest, machine, peers, results, weights
from support.work import Work

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def probe(monkeypatch):
    """A machine that reads 100 bytes a second."""
    monkeypatch.setattr(machine, "probe", lambda: machine.Probe(100.0, {"float32": 10.0}, "test", 50.0))


def entered(row, engine, *seconds):
    times = iter([*seconds, *[seconds[-1]] * 10])
    contest.enter(row, engine, lambda _: lambda: next(times))


def test_a_row_tells_medians_shares_and_ratios(probe):
    row = contest.Row("r", Work(50, 1), "float32")
    entered(row, "eager", 9.0, 0.6, 0.6)  # the first play warms, the second tells how long one is
    entered(row, "graphex", 9.0, 0.55, 0.55, 0.51, 0.6)
    found = contest.summary(row, contest.play([row], 3))
    eager, ours = found["engines"]
    assert found["floor_ms"] == pytest.approx(500) and eager["ms"] == pytest.approx(600)
    assert ours["ms"] == pytest.approx(550) and ours["best_ms"] == pytest.approx(510)
    assert ours["ratio"] == pytest.approx(600 / 550) and ours["share"] == pytest.approx(500 / 550)
    assert contest.faults([found]) == []


def test_who_is_slow_plays_once_and_who_cannot_says_why(probe):
    row = contest.Row("r", Work(50, 1), "float32")
    entered(row, "eager", 2.0)

    def broken(_):
        raise contest.Missing("not installed")

    contest.enter(row, "llama.cpp", broken)
    contest.enter(row, "inductor", lambda _: 1 / 0)
    contest.enter(row, "graphex", lambda _: bytearray(1 << 62))
    eager, peer, failed, ours = contest.summary(row, contest.play([row], 3))["engines"]
    assert eager["rounds"] == 1
    assert peer["missing"] == "not installed" and "ZeroDivisionError" in failed["missing"]
    assert ours["missing"].startswith("out of memory")
    faults = contest.faults([{"row": "r", "engines": [eager, peer, failed, ours]}])
    assert len(faults) == 1 and faults[0].startswith("graphex on r: out of memory")


def test_faster_than_the_floor_is_a_fault(probe):
    row = contest.Row("r", Work(50, 1), "float32")
    entered(row, "eager", 0.4)
    assert "faster than its floor" in contest.faults([contest.summary(row, contest.play([row], 1))])[0]


def test_wrong_results_are_an_error():
    contest.check_close("x", torch.tensor([1.0001, 2]), torch.tensor([1.0, 2]), 1e-3)
    for wrong in ([1.1, 2], [float("nan"), 2]):
        with pytest.raises(ValueError, match="off eager's results"):
            contest.check_close("x", torch.tensor(wrong), torch.tensor([1.0, 2]), 1e-3)


def test_copied_bytes_have_a_floor_of_their_own():
    assert machine.Probe(100.0, {}, "test", 50.0).floor_s(Work(0, 0, 200), "float32") == 4.0


def test_kept_rows_are_replaced_by_name_and_rounded(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    notes = {"bench": "kernels", "command": "c", "commit": "x", "machine": "m"}
    results.keep({**notes, "date": "1", "rows": [{"row": "a", "floor_ms": 1.23456}, {"row": "b", "floor_ms": 1.0}]})
    results.keep({**notes, "date": "2", "rows": [{"row": "a", "floor_ms": 2.0}]})
    (file,) = tmp_path.iterdir()
    rows = json.loads(file.read_text())["rows"]["kernels"]
    assert rows["a"] == {"row": "a", "floor_ms": 2.0, "date": "2", "command": "c", "commit": "x", "machine": "m"}
    assert rows["b"]["date"] == "1" and "1.235" not in str(rows)


def test_a_command_is_kept_without_places():
    assert results.shown_arguments(["--m", "1", "--peer-python", "/x/python", "--json", "-"]) == ["--m", "1"]


@pytest.mark.parametrize("format", weights.FORMATS)
def test_layers_of_every_format_multiply(format):
    layers = weights.layers(format, 16, 512, cold_bytes=40_000)
    x = torch.randn(2, 512).to(layers.dtype)
    y = layers.function(x, *layers.operands[0])
    assert y.shape == (2, 16) and y.isfinite().all() and y.abs().max() > 0
    assert len(layers.operands) == min(weights.MOST_COPIES, -(-40_000 // layers.bytes_of_one))


def test_a_peer_that_is_not_there_is_missing(tmp_path, monkeypatch):
    class Kind:
        phase, batch, context = "decode", 1, 4

    script = "import sys; sys.path.insert(0, {!r})\nfrom common import serve\nserve({})"
    here = str(ROOT / "bench" / "peers")
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    (tmp_path / "llama.py").write_text(script.format(here, "lambda task: __import__('no_such_engine')"))
    with pytest.raises(contest.Missing, match="no_such_engine"):
        peers.Peer("llama.cpp", sys.executable, "m", Kind, 1, contest.Contestant("llama.cpp"))
    (tmp_path / "llama.py").write_text(script.format(here, "lambda task: ('v', lambda: 0.25)"))
    contestant = contest.Contestant("llama.cpp")
    peer = peers.Peer("llama.cpp", sys.executable, "m", Kind, 1, contestant)
    assert peer() == 0.25 and peer() == 0.25 and contestant.facts == {"version": "v"}
    peer.close()


def test_a_bench_runs_and_writes_json(tmp_path):
    out = tmp_path / "out.json"
    command = [sys.executable, str(ROOT / "bench" / "kernels.py"), "--format", "q8_0", "--shape", "64x256", "--m", "1"]
    command += ["--m", "32", "--rounds", "1", "--engine", "graphex", "--json", str(out)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    facts = json.loads(out.read_text())
    assert [row["row"] for row in facts["rows"]] == ["q8_0 M=1 64x256", "q8_0 M=32 64x256"], answer.stderr
    for row in facts["rows"]:
        assert [one["engine"] for one in row["engines"]] == ["eager", "graphex"]
        assert all(one["ms"] > 0 for one in row["engines"])


def test_the_page_has_every_row_and_the_plots_are_well_formed():
    engines = [
        {"engine": "graphex", "ms": 2.0, "share": 0.9},
        {"engine": "llama.cpp", "missing": "not <installed> | x"},
    ]
    rows = {name: {"row": name, "floor_ms": 1.8, "engines": engines, "machine": "a & b", "date": "d", "command": "c",
                   "commit": "e"} for name in ("q8_0 M=32 64x64", "q8_0 M=4 64x64")}  # fmt: skip
    text, drawings = plots.page([("cpu", {"cpu": "CPU", "rows": {"kernels": rows}})])
    assert text.index("| q8_0 M=4 64x64 | 1.8 | 2 |") < text.index(
        "| q8_0 M=32 64x64 | 1.8 | 2 | - (not <installed> / x)"
    )
    (drawing,) = drawings.values()
    words = [each.text for each in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]
    assert "a & b" in words and words.count("90%") == 2


def test_the_page_is_the_kept_results():
    kept = [(path.stem, json.loads(path.read_text())) for path in sorted(results.FOLDER.glob("*.json"))]
    text, drawings = plots.page(kept)
    assert (ROOT / "docs" / "benchmarks.md").read_text() == text, "run ./dev bench plots"
    assert {path.name for path in (ROOT / "docs" / "benchmarks").glob("*.svg")} == set(drawings)
