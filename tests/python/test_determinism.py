"""The same bits: run to run, for any number of workers, under load, and for a row alone or among others."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("backend")

WIDTH, HEADS, VOCABULARY = 64, 4, 96


class Block(nn.Module):
    """A decoder's layer and head: norm, grouped causal attention, gated feed-forward, logits."""

    def __init__(self, dtype):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH, bias=False, dtype=dtype)
        self.key_value = nn.Linear(WIDTH, WIDTH, bias=True, dtype=dtype)
        self.gate = nn.Linear(WIDTH, 3 * WIDTH, bias=False, dtype=dtype)
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False, dtype=dtype)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False, dtype=dtype)
        self.norm = nn.RMSNorm(WIDTH, dtype=dtype)

    def forward(self, x):
        rows, length, _ = x.shape
        h = self.norm(x)
        query = self.query(h).view(rows, length, HEADS, -1).transpose(1, 2)
        key, value = self.key_value(h).view(rows, length, 2, HEADS // 2, -1).transpose(1, 3).unbind(2)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + seen.transpose(1, 2).reshape(rows, length, WIDTH)
        h = self.norm(x)
        x = x + self.down(nn.functional.silu(self.gate(h)) * h.repeat(1, 1, 3))
        return torch.softmax(self.head(x).float(), -1), x.float().sum(-1), x.argmax(-1)


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=str)
def block(request):
    torch.manual_seed(1)
    return Block(request.param).eval().requires_grad_(False)


def compiled(block):
    return torch.compile(block, backend="graphex", fullgraph=True, dynamic=True)


def text(block, rows, length):
    return torch.randn(rows, length, WIDTH, generator=torch.Generator().manual_seed(rows + length)).to(
        block.gate.weight
    )


def same_bits(got, expected):
    return all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize("length", [1, 5, 70])
def test_run_to_run_and_for_any_number_of_threads(block, length):
    run, x, before = compiled(block), text(block, 3, length), torch.get_num_threads()
    expected = run(x)
    try:
        for threads in (1, 2, 3, 1):
            torch.set_num_threads(threads)
            assert same_bits(run(x), expected), f"{threads} threads"
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("length", [1, 5, 70])
def test_a_row_alone_and_inside_a_batch(block, length):
    run, x = compiled(block), text(block, 17, length)
    together = run(x)
    for rows in (slice(0, 1), slice(3, 5), slice(8, 17)):
        assert same_bits(run(x[rows].contiguous()), [one[rows] for one in together]), rows


def test_while_other_threads_want_the_cores(block):
    run, x, stop = compiled(block), text(block, 2, 33), threading.Event()
    expected = run(x)

    def burn():
        noise = torch.rand(300, 300)
        while not stop.is_set():
            noise @ noise

    burners = [threading.Thread(target=burn) for _ in range(3)]
    for burner in burners:
        burner.start()
    try:
        assert all(same_bits(run(x), expected) for _ in range(200))
    finally:
        stop.set()
        for burner in burners:
            burner.join()
