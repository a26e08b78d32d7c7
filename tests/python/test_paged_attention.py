"""graphex.ops.paged_attention and reshape_and_cache against a loop over tokens in float64, plain and compiled."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import graphex
from graphex.ops import paged_attention, reshape_and_cache

pytestmark = pytest.mark.usefixtures("backend")

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}


@dataclass
class Batch:
    """A ragged batch over shuffled blocks; slots that hold no key are NaN."""

    tokens: list[int]
    lengths: list[int]
    heads: int = 4
    kv_heads: int = 2
    size: int = 16
    value_size: int = 16
    block_size: int = 16
    dtype: torch.dtype = torch.float32
    index: torch.dtype = torch.int32
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(sum(self.lengths) + self.size)
        used = [-(-length // self.block_size) for length in self.lengths]
        order = torch.randperm(sum(used) + 3, generator=random)
        self.blocks = len(order)
        self.tables = torch.full((len(used), max(used, default=0) + 1), -7, dtype=self.index)
        shape = (self.blocks, self.block_size, self.kv_heads)
        self.key = torch.full((*shape, self.size), torch.nan, dtype=self.dtype)
        self.value = torch.full((*shape, self.value_size), torch.nan, dtype=self.dtype)
        self.rows: list[tuple[torch.Tensor, torch.Tensor]] = []
        for s, length in enumerate(self.lengths):
            mine, order = order[: used[s]], order[used[s] :]
            self.tables[s, : used[s]] = mine
            made = [torch.randn(length, self.kv_heads, n, generator=random) for n in (self.size, self.value_size)]
            self.rows.append((made[0].to(self.dtype), made[1].to(self.dtype)))
            for j in range(length):
                at = (mine[j // self.block_size], j % self.block_size)
                self.key[at], self.value[at] = self.rows[s][0][j], self.rows[s][1][j]
        self.query = torch.randn(sum(self.tokens), self.heads, self.size, generator=random).to(self.dtype)
        self.counts = torch.tensor(self.lengths, dtype=self.index)
        starts = [0, *itertools.accumulate(self.tokens)]
        self.starts = None if set(self.tokens) == {1} else torch.tensor(starts, dtype=self.index)

    def arguments(self) -> tuple[torch.Tensor | None, ...]:
        return self.query, self.key, self.value, self.tables, self.counts, self.starts

    def expected(self) -> torch.Tensor:
        out = torch.zeros(len(self.query), self.heads, self.value_size, dtype=torch.float64)
        token = 0
        for s, count in enumerate(self.tokens):
            for i in range(count):
                if self.lengths[s]:
                    self.expect_token(out[token], self.query[token].double(), s, self.lengths[s] - count + i)
                token += 1
        return out

    def expect_token(self, out: torch.Tensor, query: torch.Tensor, s: int, last: int) -> None:
        begin, end = 0, self.lengths[s]
        if self.more.get("causal", True):
            end = last + 1
            begin = max(0, end - self.more.get("window", end))
        for h in range(self.heads):
            g = h // (self.heads // self.kv_heads)
            key, value = (rows[begin:end, g].double() for rows in self.rows[s])
            scores = key @ query[h] * self.more.get("scale", self.size**-0.5)
            if "soft_cap" in self.more:
                scores = self.more["soft_cap"] * torch.tanh(scores / self.more["soft_cap"])
            sink = self.more["sinks"][h : h + 1].double() if "sinks" in self.more else scores.new_empty(0)
            weights = torch.softmax(torch.cat((scores, sink)), 0)[: end - begin]
            out[h] = weights @ value


def compiled(batch: Batch) -> Any:
    more = batch.more
    return torch.compile(lambda *args: paged_attention(*args, **more), backend="graphex", fullgraph=True)


def check(batch: Batch) -> None:
    expected = batch.expected()
    bound = TOLERANCE[batch.dtype] * max(1.0, expected.abs().max().item() if expected.numel() else 0)
    for run in (lambda *args: paged_attention(*args, **batch.more), compiled(batch)):
        out = run(*batch.arguments())
        assert out.dtype == batch.dtype
        assert out.shape == expected.shape
        assert (out.double() - expected).abs().max() <= bound if out.numel() else True


DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


@DTYPES
def test_decode_of_a_ragged_batch(dtype):
    check(Batch([1] * 5, [1, 16, 17, 300, 0], dtype=dtype))


@DTYPES
def test_chunked_prefill_beside_decode(dtype):
    check(Batch([40, 1, 3, 0, 9], [100, 33, 3, 20, 9], dtype=dtype, block_size=32))


@pytest.mark.parametrize("block_size", [16, 48, 64, 128])
def test_block_sizes_and_both_index_types(block_size):
    check(Batch([1, 30], [200, 130], block_size=block_size, index=torch.int64))


@pytest.mark.parametrize("heads", [(2, 2), (3, 1), (8, 2), (16, 1), (40, 2)], ids=str)
def test_grouped_heads(heads):
    check(Batch([1, 1, 20], [90, 1, 33], heads=heads[0], kv_heads=heads[1]))


@pytest.mark.parametrize("sizes", [(64, 32), (17, 40), (128, 128), (192, 128)], ids=str)
def test_sizes_of_keys_and_values(sizes):
    check(Batch([2, 12], [50, 70], size=sizes[0], value_size=sizes[1]))


@pytest.mark.parametrize(
    "more",
    [
        {"scale": 0.5},
        {"causal": False},
        {"window": 5},
        {"window": 40},
        {"soft_cap": 2.0},
        {"sinks": torch.tensor([0.5, -1.0, 3.0, -torch.inf])},
        {"window": 20, "soft_cap": 1.5, "sinks": torch.tensor([0.5, -1.0, 3.0, 9.0])},
    ],
    ids=str,
)
def test_scores(more):
    check(Batch([1, 25, 4, 1], [77, 60, 4, 0], more=more))


def test_blocks_before_the_window_are_never_looked_at():
    batch = Batch([1, 20], [100, 120], more={"window": 7})
    batch.tables[0, : (100 - 7) // 16] = 1 << 30
    batch.tables[1, : (120 - 20 - 6) // 16] = -3
    check(batch)


def test_an_empty_batch():
    check(Batch([], []))
    check(Batch([0, 0], [5, 0]))


def broken(change: Any) -> Batch:
    batch = Batch([2, 1], [20, 40])
    change(batch)
    return batch


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.counts.__setitem__(0, 65), "room for 64"),
        (lambda b: b.counts.__setitem__(1, -1), "length -1 of sequence 1"),
        (lambda b: b.counts.__setitem__(0, 1), "less than its 2 tokens"),
        (lambda b: b.tables.__setitem__((1, 2), 8), "8.* of sequence 1"),
        (lambda b: b.tables.__setitem__((0, 0), -1), "-1.* of sequence 0"),
        (lambda b: b.starts.__setitem__(1, 4), "must not decrease"),
        (lambda b: b.starts.__setitem__(2, 4), "from 0 to 3"),
        (lambda b: b.starts.__setitem__(0, -1), "from 0 to 3"),
    ],
)
def test_tables_and_lengths_that_do_not_fit_are_refused(change, message):
    batch = broken(change)
    for run in (paged_attention, compiled(batch)):
        with pytest.raises(ValueError, match=message):
            run(*batch.arguments())


def test_types_that_do_not_fit_are_refused():
    batch = Batch([1], [5])
    with pytest.raises(ValueError, match="heads can't share"):
        paged_attention(batch.query[:, :3], *batch.arguments()[1:])
    with pytest.raises(ValueError, match="window"):
        paged_attention(*batch.arguments(), window=0)
    with pytest.raises(ValueError, match="int32 or int64"):
        paged_attention(*batch.arguments()[:4], batch.counts.float())


def step(query, key, value, key_cache, value_cache, slots, tables, lengths):
    reshape_and_cache(key, value, key_cache, value_cache, slots)
    return paged_attention(query, key_cache, value_cache, tables, lengths)


@DTYPES
def test_a_step_writes_its_keys_in_place_and_sees_them(dtype):
    batch = Batch([1, 1, 1], [5, 33, 1], dtype=dtype)
    run = torch.compile(step, backend="graphex", fullgraph=True)
    expected_caches = batch.key.clone(), batch.value.clone()
    slots = []
    for s, length in enumerate(batch.lengths):
        slots.append(int(batch.tables[s, (length - 1) // 16]) * 16 + (length - 1) % 16)
    slots[2] = -1  # skipped
    for cache in (batch.key, batch.value):
        cache.flatten(0, 1)[slots[:2]] = 3
    new = [torch.stack([rows[i][-1] for rows in batch.rows]) for i in (0, 1)]
    before = batch.key.data_ptr()
    out = run(batch.query, *new, batch.key, batch.value, torch.tensor(slots), batch.tables, batch.counts)
    assert batch.key.data_ptr() == before
    for cache, wanted in zip((batch.key, batch.value), expected_caches, strict=True):
        torch.testing.assert_close(cache, wanted, rtol=0, atol=0, equal_nan=True)
    assert (out.double() - batch.expected()).abs().max() <= TOLERANCE[dtype] * 3


@pytest.mark.parametrize("compile", [False, True])
def test_a_slot_behind_the_last_block_is_refused(compile):
    batch = Batch([1], [5])
    run = torch.compile(reshape_and_cache, backend="graphex") if compile else reshape_and_cache
    rows = torch.zeros(1, 2, 16)
    with pytest.raises(IndexError):
        run(rows, rows, batch.key, batch.value, torch.tensor([batch.blocks * 16]))


@pytest.mark.parametrize("more", [{}, {"window": 20}], ids=str)
def test_decode_is_native_and_has_the_same_bits_in_any_batch_and_for_any_threads(more):
    batch = Batch([1] * 4, [300, 700, 17, 160], heads=6, size=64, value_size=40, more=more)
    run = torch.compile(lambda *args: paged_attention(*args, **more), backend="graphex", options={"fallback": "error"})
    together, before = run(*batch.arguments()), torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert torch.equal(run(*batch.arguments()), together)
    finally:
        torch.set_num_threads(before)
    for s, length in enumerate(batch.lengths):
        tables = batch.tables[s : s + 1, : -(-length // 16)].contiguous()
        rows = batch.query[s : s + 1], batch.key, batch.value, tables, batch.counts[s : s + 1]
        assert torch.equal(run(*rows, None), together[s : s + 1])


def test_a_step_is_native():
    batch = Batch([1], [5])
    rows = torch.zeros(1, 2, 16)
    run = torch.compile(step, backend="graphex", fullgraph=True, options={"fallback": "error"})
    run(batch.query, rows, rows, batch.key, batch.value, torch.tensor([-1]), batch.tables, batch.counts)


def test_the_operators_are_graphex_ops():
    assert graphex.ops.paged_attention is paged_attention
