"""The parts of the benches that could make a table lie: counted work, floors, the choice of engines, differences."""

from types import SimpleNamespace

import pytest
import torch
from support import engines, generate, machine
from support.work import Work, step_work


def test_a_missing_backend_ends_the_program_unless_left_out(monkeypatch, capsys):
    monkeypatch.setattr(engines, "list_backends", lambda **_: ["inductor"])
    with pytest.raises(SystemExit, match="'graphex'.*--without-graphex"):
        engines.choose([engines.EAGER, engines.GRAPHEX])
    assert engines.choose([engines.EAGER, engines.GRAPHEX], without_graphex=True) == [engines.EAGER]
    assert "left out" in capsys.readouterr().out


def tied_model(layers=2, hidden=8, vocabulary=32):
    table = torch.nn.Parameter(torch.zeros(vocabulary, hidden))
    body = [torch.nn.Parameter(torch.zeros(hidden, hidden)) for _ in range(layers)]
    return SimpleNamespace(
        lm_head=SimpleNamespace(weight=table),
        get_input_embeddings=lambda: SimpleNamespace(weight=table),
        parameters=lambda: [table, *body],
        config=SimpleNamespace(num_hidden_layers=layers, num_key_value_heads=1, head_dim=4, num_attention_heads=2),
    )


def test_work_of_a_decode_step():
    """Body 2 x 64 weights and the tied table of 256 once; 10 positions of 2 x 4 keys and values in 2 layers."""
    work = step_work(tied_model(), batch=3, tokens=1, past=10)
    assert work.bytes_read == 4 * (128 + 256) + 3 * 10 * 16 * 4
    assert work.operations == 2 * 3 * (128 + 256) + 4 * 2 * 2 * 4 * 3 * 11


def test_work_of_a_prefill_counts_the_head_once():
    work = step_work(tied_model(), batch=1, tokens=3, past=0)
    assert work.bytes_read == 4 * (128 + 256)
    assert work.operations == 2 * (3 * 128 + 256) + 4 * 2 * 2 * 4 * (1 + 2 + 3)


def test_floor_is_the_slower_of_reading_and_computing():
    probe = machine.Probe(100.0, {"float32": 10.0}, "test")
    assert probe.floor_s(Work(500, 20), "float32") == 5.0
    assert probe.floor_s(Work(500, 80), "float32") == 8.0
    assert probe.floor_s(Work(500, 80), "bfloat16") == 5.0
    assert probe.better(machine.Probe(50.0, {"float32": 20.0}, "test")) == machine.Probe(
        100.0, {"float32": 20.0}, "test"
    )


def test_differences_carry_eagers_margin():
    expected = generate.Generation(4, tokens=[1, 2, 3], margins=[0.5, 0.25, 0.125])
    assert generate.differences(expected, expected) == []
    got = generate.Generation(4, tokens=[1, 9, 3], margins=[0.0, 0.0, 0.0])
    assert generate.differences(expected, got) == [generate.Difference(1, 2, 9, 0.25)]


def test_the_replay_clock_sees_calls_and_compiles():
    clock = engines.ReplayClock()
    wrapped = engines.Engine("aot", "aot_eager").compile(lambda x: x + 1, clock)
    for _ in range(3):
        assert torch.equal(wrapped(torch.zeros(2)), torch.ones(2))
    assert clock.graphs == 1 and clock.compile_seconds > 0
    seconds = clock.take()
    assert len(seconds) == 3 and min(seconds) > 0 and clock.take() == []
