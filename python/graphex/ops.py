"""Operators that PyTorch hasn't got: attention over a paged cache, and writing into one.

Sequences of a batch keep their keys and values in blocks of `block_size` slots, wherever blocks were free; row s of
`block_tables` lists the blocks of sequence s in order. A cache is [blocks, block_size, kv heads, head size].
"""

from __future__ import annotations

import torch

from .capture.state import is_capturing

__all__ = ["paged_attention", "reshape_and_cache"]


def paged_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    cu_seqlens: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    causal: bool = True,
    window: int | None = None,
    soft_cap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of a ragged batch over paged keys and values; [tokens, heads, value size] in query's dtype.

    query: [tokens, heads, head size], the tokens of all sequences one after another; those of sequence s are
        cu_seqlens[s] to cu_seqlens[s + 1]. Without cu_seqlens each sequence has one token (decode).
    key_cache, value_cache: [blocks, block size, kv heads, head size or value size]; heads is a multiple of kv heads.
    block_tables: int32 or int64 [sequences, blocks of a sequence]; entries behind a sequence's length, and before its
        window, are never looked at.
    lengths: int32 or int64 [sequences], keys of each sequence. Its query tokens are its last ones. 0: its tokens get 0.
    scale: of the scores, head size ** -0.5 by default. causal: a token sees the keys up to its own.
    window: a token sees that many keys, its own the last (causal only). soft_cap: a score becomes
        cap * tanh(score / cap).
    sinks: [heads], one more score of each token, whose weight goes nowhere.

    Sums are in float32. Raises ValueError where tables, lengths and cu_seqlens don't fit together.
    """
    size = query.shape[-1]
    scale = float(size) ** -0.5 if scale is None else float(scale)
    return torch.ops.graphex.paged_attention(
        query, key_cache, value_cache, block_tables, lengths, cu_seqlens, scale, causal, window, soft_cap, sinks
    )


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Writes key and value [tokens, kv heads, size] into slots of the caches, in place.

    slot_mapping: int32 or int64 [tokens]; slot n is slot n % block size of block n // block size. A negative slot skips
    its token; slots of different tokens differ. Raises IndexError for a slot behind the last block.
    """
    for rows, cache in ((key, key_cache), (value, value_cache)):
        _require(
            rows.dim() == 3 and cache.dim() == 4 and rows.shape[1:] == cache.shape[2:] and rows.dtype == cache.dtype,
            f"rows {rows.dtype} {tuple(rows.shape)} don't fit a cache {cache.dtype} {tuple(cache.shape)}",
        )
        _require(slot_mapping.shape == rows.shape[:1], f"expected a slot for each of {rows.shape[0]} tokens")
        if torch.compiler.is_compiling() or is_capturing():
            cache.copy_(torch.ops.graphex.with_slots(cache, rows, slot_mapping))
        else:
            _fill(cache, rows, slot_mapping)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _fill(cache: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor) -> None:
    kept = slots >= 0
    slots = slots[kept].long()
    cache[slots // cache.shape[1], slots % cache.shape[1]] = rows[kept]


@torch.library.custom_op("graphex::with_slots", mutates_args=())
def with_slots(cache: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """The cache with rows [tokens, ...] in its slots; see reshape_and_cache."""
    result = cache.clone()
    _fill(result, rows, slots)
    return result


@with_slots.register_fake
def _(cache: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(cache)


@torch.library.custom_op("graphex::paged_attention", mutates_args=())
def paged_attention_operator(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    scale: float,
    causal: bool,
    window: int | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    _check_types(query, key_cache, value_cache, block_tables, lengths, cu_seqlens, causal, window, soft_cap, sinks)
    block_size = key_cache.shape[1]
    starts = list(range(len(lengths) + 1)) if cu_seqlens is None else cu_seqlens.tolist()
    counts = lengths.tolist()
    _check_lengths(starts, counts, len(query), block_tables.shape[1] * block_size)
    out = query.new_empty(query.shape[0], query.shape[1], value_cache.shape[3])
    for s, keys in enumerate(counts):
        begin, end = starts[s], starts[s + 1]
        if begin == end:
            continue
        first = 0 if window is None else max(0, keys - (end - begin) + 1 - window)
        before = first // block_size
        blocks = block_tables[s, before : -(-keys // block_size)].long()
        wrong = blocks[(blocks < 0) | (blocks >= key_cache.shape[0])]
        _require(len(wrong) == 0, f"block {wrong[:1].tolist()} of sequence {s}: there are {key_cache.shape[0]} blocks")
        slots = slice(first - before * block_size, keys - before * block_size)
        key, value = (cache[blocks].flatten(0, 1)[slots] for cache in (key_cache, value_cache))
        last = torch.arange(keys - (end - begin), keys).unsqueeze(1) - first
        out[begin:end] = _attend(query[begin:end], key, value, last, scale, causal, window, soft_cap, sinks)
    return out


@paged_attention_operator.register_fake
def _(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    scale: float,
    causal: bool,
    window: int | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    _check_types(query, key_cache, value_cache, block_tables, lengths, cu_seqlens, causal, window, soft_cap, sinks)
    return query.new_empty(query.shape[0], query.shape[1], value_cache.shape[3])


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    last: torch.Tensor,
    scale: float,
    causal: bool,
    window: int | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """One sequence: query [n, heads, size], key and value [keys, kv heads, size], last [n, 1] the last key seen."""
    n, heads, _ = query.shape
    grouped = query.float().view(n, key.shape[1], -1, query.shape[2])
    scores = torch.einsum("nhgd,khd->hgnk", grouped, key.float()).flatten(0, 1) * scale
    if soft_cap is not None:
        scores = soft_cap * torch.tanh(scores / soft_cap)
    at = torch.arange(len(key))
    if causal:
        hidden = at > last if window is None else (at > last) | (at <= last - window)
        scores = scores.masked_fill(hidden, -torch.inf)
    if sinks is not None:
        scores = torch.cat((scores, sinks.float().view(heads, 1, 1).expand(-1, n, 1)), -1)
    if scores.shape[-1] == 0:
        return query.new_zeros(n, heads, value.shape[2])
    weights = torch.softmax(scores, -1)[..., : len(key)]
    out = torch.einsum("hgnk,khd->nhgd", weights.unflatten(0, (key.shape[1], -1)), value.float())
    return out.flatten(1, 2).to(query.dtype)


def _check_types(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    causal: bool,
    window: int | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None,
) -> None:
    _require(
        query.dim() == 3 and key_cache.dim() == 4 and value_cache.dim() == 4,
        f"expected query [tokens, heads, size] and caches [blocks, block size, kv heads, size]; got {query.dim()}, "
        f"{key_cache.dim()} and {value_cache.dim()} dimensions",
    )
    _require(query.dtype.is_floating_point, f"expected floats, got {query.dtype}")
    _require(query.dtype == key_cache.dtype == value_cache.dtype, "query and caches must be of one dtype")
    _require(
        key_cache.shape[:3] == value_cache.shape[:3] and key_cache.shape[3] == query.shape[2],
        f"query {tuple(query.shape)} and caches {tuple(key_cache.shape)}, {tuple(value_cache.shape)} don't fit",
    )
    kv_heads = key_cache.shape[2]
    _require(kv_heads > 0 and query.shape[1] % kv_heads == 0, f"{query.shape[1]} heads can't share {kv_heads} kv heads")
    sequences = lengths.shape[0]
    _require(
        block_tables.dim() == 2 and lengths.dim() == 1,
        "expected block_tables [sequences, blocks] and lengths [sequences]",
    )
    _require(block_tables.shape[0] == sequences, f"{block_tables.shape[0]} block tables for {sequences} lengths")
    for name, tensor in (("block_tables", block_tables), ("lengths", lengths), ("cu_seqlens", cu_seqlens)):
        _require(tensor is None or tensor.dtype in (torch.int32, torch.int64), f"{name} must be of type int32 or int64")
    if cu_seqlens is None:
        _require(query.shape[0] == sequences, f"{query.shape[0]} tokens of {sequences} sequences: give cu_seqlens")
    else:
        _require(cu_seqlens.shape == (sequences + 1,), f"expected {sequences + 1} cu_seqlens")
    _require(window is None or (causal and window > 0), "a window must be positive, and causal")
    _require(soft_cap is None or soft_cap > 0, "soft_cap must be positive")
    _require(sinks is None or sinks.shape == query.shape[1:2], "expected one sink for each head")


def _check_lengths(starts: list[int], lengths: list[int], tokens: int, room: int) -> None:
    _require(starts[0] == 0 and starts[-1] == tokens, f"cu_seqlens must go from 0 to {tokens}, the number of tokens")
    for s, keys in enumerate(lengths):
        own = starts[s + 1] - starts[s]
        _require(own >= 0, f"cu_seqlens must not decrease; it does after sequence {s}")
        _require(0 <= keys <= room, f"length {keys} of sequence {s}: its block table has room for {room} keys")
        _require(keys == 0 or keys >= own, f"length {keys} of sequence {s} is less than its {own} tokens")
