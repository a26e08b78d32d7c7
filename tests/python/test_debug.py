"""Traces, dumps and recordings of captured graphs."""

import gzip
import json
import subprocess
import sys

import pytest
import torch
from capturing import captured
from graphex.debug import bug

import graphex


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def fork(x, w, side):
    main = graphex.current_stream()
    with graphex.range("start"):
        y = torch.relu(x @ w)
    side.wait_stream(main)
    with side, graphex.range("side"), graphex.range("scan"):
        a = y.cumsum(0)
    with graphex.range("main"):
        b = torch.softmax(y, -1) @ w
    main.wait_stream(side)
    return torch.fft.rfft(a + b).real.contiguous()


def some_graph():
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    g, y = captured(fork, x, w, graphex.Stream(), inputs={"x": x})
    return g, x, w, y


def events_of(path):
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_text()
    return [e for e in json.loads(text)["traceEvents"] if e["ph"] == "X"]


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_trace_has_all_that_workers_do(tmp_path, suffix):
    g, *_ = some_graph()
    path = tmp_path / f"trace{suffix}"
    with graphex.trace(path):
        g.replay()
        g.replay()
        s = graphex.Stream(cores=1)
        with s:
            captured(lambda t: t + 1, torch.zeros(5))[0].replay()
        s.synchronize()
    g.replay()
    events = events_of(path)
    assert {e["args"]["replay"] for e in events if e["cat"] == "replay"} == {0, 1, 2}
    steps = g._replayer.program.describe()["steps"]
    kernels = {e["args"]["step"] for e in events if e["cat"] == "kernel" and e["args"]["replay"] == 0}
    assert kernels == {k for k, step in enumerate(steps) if step["kind"] == "kernel"}
    assert any(e["cat"] == "island" and "fft" in e["name"] for e in events)
    for e in events:
        assert e["dur"] >= 0 and e["ts"] > 0
        if e["cat"] == "kernel":
            assert e["args"]["bytes"] >= 20 and e["args"]["GB/s"] > 0
    ranges = {e["name"] for e in events if e["cat"] == "range"}
    assert ranges == {"start", "side", "scan", "main"}
    sources = [e["args"].get("source", "") for e in events if e["cat"] == "kernel"]
    assert any("test_debug.py" in source for source in sources)


def test_the_trace_of_a_compiled_function(tmp_path):
    compiled = torch.compile(lambda x: (x @ x).relu(), backend="graphex")
    x = torch.randn(32, 32)
    compiled(x)
    with graphex.trace(tmp_path / "t.json"):
        compiled(x)
    assert any(e["cat"] == "kernel" for e in events_of(tmp_path / "t.json"))


def test_traces_that_cannot_be(tmp_path):
    with pytest.raises(ValueError, match=".json"), graphex.trace(tmp_path / "t.txt"):
        pass
    outer = graphex.trace(tmp_path / "a.json")
    with outer, pytest.raises(RuntimeError, match="already"), graphex.trace(tmp_path / "b.json"):
        pass
    with pytest.raises(KeyError), graphex.trace(tmp_path / "c.json"):
        raise KeyError("the body's")
    assert events_of(tmp_path / "c.json") == []


def test_a_dump_as_json_and_dot(tmp_path):
    g, *_ = some_graph()
    g.replay()
    g.debug_dump(tmp_path / "g.json")
    data = json.loads((tmp_path / "g.json").read_text())
    assert data["runs_by"] == "graphex" and "graph @" in data["graph"]
    assert [i["name"] for i in data["inputs"] if i["name"]] == ["x"]
    kernels = [s for s in data["steps"] if s["kind"] == "kernel"]
    assert {s["stream"] for s in kernels} == {0, 1} and len(data["sections"]) == 1
    for step in data["steps"]:
        assert all(0 <= b < len(data["buffers"]) for b in (*step["reads"], *step["writes"]))
    g.debug_dump(tmp_path / "g.dot")
    dot = (tmp_path / "g.dot").read_text()
    assert dot.startswith("digraph") and "->" in dot and dot.count("[label=") == len(data["steps"])
    with pytest.raises(ValueError, match=".json, .dot"):
        g.debug_dump(tmp_path / "g.png")
    with pytest.raises(graphex.CaptureError, match="empty"):
        graphex.Graph().debug_dump(tmp_path / "g.json")


def replay_bug(path):
    return subprocess.run(
        [sys.executable, "-m", "graphex", "replay-bug", str(path)], capture_output=True, text=True, timeout=300
    )


def test_a_recording_is_replayed_elsewhere(tmp_path):
    embedding, cache = torch.nn.Embedding(10, 16), torch.zeros(4, 16)
    tokens, position = torch.tensor([3, 9]), torch.tensor([1, 2])

    def region():
        h = embedding(tokens)
        cache.index_copy_(0, position, h.to(torch.float32))
        dropped = torch.nn.functional.dropout(h, 0.5)
        return torch.cat([cache.t().softmax(-1), dropped.t()], 1)[:, ::2]

    g, y = captured(region)
    path = tmp_path / "bug.json"
    g.save_recording(path)
    text = path.read_text()
    assert str(embedding.weight[0, 0].item())[:8] not in text
    done = replay_bug(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "native" in done.stdout and done.stdout.count("agrees") >= 2


def test_a_recording_keeps_streams_and_numbers(tmp_path):
    g, *_ = some_graph()
    g.save_recording(tmp_path / "g.json")
    recording, _ = bug.load(tmp_path / "g.json")
    assert any((n.meta.get("custom") or {}).get("graphex_lane") == 1 for n in recording.graph.nodes)
    assert all(good for good, _ in bug.replay(tmp_path / "g.json"))
    x = torch.randn(6)
    h = graphex.Graph()
    with graphex.graph(h, refresh={"s": graphex.Refreshable(3, min=1, max=9)}) as numbers:
        y = x * numbers.s + (numbers.s + 1)
    h.save_recording(tmp_path / "h.json")
    assert all(good for good, _ in bug.replay(tmp_path / "h.json"))
    assert y is not None


def test_a_difference_is_reported(tmp_path, monkeypatch):
    g, y = captured(lambda t: t * 2, torch.randn(5))
    g.save_recording(tmp_path / "g.json")
    data = json.loads((tmp_path / "g.json").read_text())
    tripled = json.dumps(data).replace('"args": [{"node": "memory_0"}, 2]', '"args": [{"node": "memory_0"}, 3]')
    loads = iter([json.dumps(data), tripled])
    monkeypatch.setattr(bug.Path, "read_text", lambda _: next(loads))
    results = list(bug.replay(tmp_path / "g.json"))
    assert [good for good, _ in results] == [True, False]
    assert "differs" in results[1][1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "{", "no recording"),
        (lambda text: "[]", "no recording"),
        (lambda text: text.replace("graphex recording 1", "graphex recording 9"), "in the format"),
        (lambda text: text.replace("aten.mul.Tensor", "no_such.mul.Tensor"), "isn't registered"),
        (lambda text: text.replace("aten.mul.Tensor", "attrgetter"), "none of"),
    ],
)
def test_files_that_are_none(tmp_path, change, message):
    g, _ = captured(lambda t: t * 2, torch.randn(5))
    g.save_recording(tmp_path / "g.json")
    path = tmp_path / "changed.json"
    path.write_text(change((tmp_path / "g.json").read_text()))
    with pytest.raises(ValueError, match=message):
        list(bug.replay(path))


def test_generators_of_the_users_are_refused(tmp_path):
    generator = torch.Generator()
    g, _ = captured(lambda t: torch.rand(5, generator=generator) + t, torch.zeros(5))
    with pytest.raises(ValueError, match="generator"):
        g.save_recording(tmp_path / "g.json")
