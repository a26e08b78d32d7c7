"""Scripts for accelerators, of which only the import is another."""

from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from graphex.compat import (
    CUDAGraph,
    Event,
    NPUGraph,
    Stream,
    current_stream,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    stream,
    synchronize,
)

import graphex


def test_static_buffers():
    model, s = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)), Stream()
    static_input = torch.randn(8, 16)
    s.wait_stream(current_stream())
    with stream(s), torch.no_grad():
        for _ in range(3):
            model(static_input)
    current_stream().wait_stream(s)

    g = NPUGraph()
    with torch.no_grad(), graph(g, stream=s):
        assert is_current_stream_capturing() and current_stream() is s
        static_output = model(static_input)
    for seed in range(4):
        batch = torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))
        static_input.copy_(batch)
        g.replay()
        synchronize()
        torch.testing.assert_close(static_output, model(batch).detach())


class TinyModel(torch.nn.Module):
    """A decoder's step: tokens and positions in, the cache written in place."""

    def __init__(self):
        super().__init__()
        self.embedding, self.out = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50)

    def forward(self, tokens, positions, cache):
        new = self.embedding(tokens)
        cache[torch.arange(len(tokens)), positions] = new
        mask = torch.arange(cache.shape[1]) <= positions[:, None]
        scores = (cache @ new[:, :, None]).squeeze(-1).masked_fill(~mask, float("-inf"))
        return self.out((scores.softmax(-1)[:, None] @ cache).squeeze(1)).argmax(-1)


@dataclass
class GraphCaptureContext:
    stream: Stream


@contextmanager
def user_graph_capture(device):
    context = GraphCaptureContext(Stream(device=device))
    current = current_stream()
    if current != context.stream:
        context.stream.wait_stream(current)
    with context.stream:
        yield context


@pytest.mark.parametrize("graph_capture", [user_graph_capture, graphex.graph_capture])
def test_a_model_runner(graph_capture):
    torch.manual_seed(0)
    model, sizes = TinyModel(), (4, 2, 1)
    pool, graphs, outputs = graph_pool_handle(), {}, {}
    tokens, positions = torch.zeros(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    cache = torch.zeros(4, 8, 16)
    with torch.inference_mode(), graph_capture(torch.device("cpu")) as context:
        assert current_stream() is context.stream
        for size in sizes:
            model(tokens[:size], positions[:size], cache[:size])
            graphs[size] = CUDAGraph()
            with graph(graphs[size], pool=pool, stream=context.stream):
                outputs[size] = model(tokens[:size], positions[:size], cache[:size])
    assert current_stream() is graphex.default_stream()
    for size in sizes:
        cache.zero_()
        expected_cache, expected = torch.zeros_like(cache), torch.arange(size)
        tokens[:size] = torch.arange(size)
        for position in range(6):
            positions.fill_(position)
            graphs[size].replay()
            with torch.no_grad():
                expected = model(expected, positions[:size], expected_cache[:size])
            assert torch.equal(outputs[size], expected)
            tokens[:size] = outputs[size]
        torch.testing.assert_close(cache, expected_cache)


def test_timing():
    start, end = Event(enable_timing=True, blocking=True), Event(enable_timing=True)
    start.record()
    end.record()
    synchronize()
    assert 0 <= start.elapsed_time(end) < 1e4


def test_what_means_nothing_here():
    with pytest.raises(ValueError, match="runs on the CPU"):
        Stream(device="cuda:0")
    with pytest.raises(ValueError, match="runs on the CPU"):
        current_stream(1)
    with pytest.raises(ValueError, match="interprocess"):
        Event(interprocess=True)
    with pytest.raises(ValueError, match="runs on the CPU"), graphex.graph_capture("npu"):
        pass
