"""A Llama of transformers captured imperatively, and scripts written for accelerators with their imports changed."""

import functools

import pytest
import torch

import graphex

transformers = pytest.importorskip("transformers")
PROMPT, STEPS, ROOM = 5, 6, 16


def model():
    torch.manual_seed(4)
    config = transformers.LlamaConfig(
        vocab_size=128,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        initializer_range=0.2,  # so that the tokens differ
    )
    return transformers.LlamaForCausalLM(config).eval()


def prefilled(llama):
    """A static cache that holds the prompt, and the first token after it."""
    cache = transformers.StaticCache(config=llama.config, max_cache_len=ROOM)
    tokens = torch.arange(1, PROMPT + 1).view(1, -1) * 7
    positions = torch.arange(PROMPT)
    logits = llama(tokens, past_key_values=cache, position_ids=positions[None], cache_position=positions).logits
    return cache, logits[:, -1:].argmax(-1)


def decode(llama, cache, token, position):
    logits = llama(token, past_key_values=cache, position_ids=position[None], cache_position=position).logits
    return logits[:, -1:].argmax(-1)


@torch.no_grad()
def test_llama_gives_eagers_tokens():
    llama = model()
    cache, token = prefilled(llama)
    expected = [token.item()]
    for step in range(STEPS):
        token = decode(llama, cache, token, torch.tensor([PROMPT + step]))
        expected.append(token.item())

    cache, token = prefilled(llama)
    position = torch.tensor([PROMPT])
    g = graphex.Graph()
    with graphex.graph(g, options={"fallback": "error"}):
        following = decode(llama, cache, token, position)
        token.copy_(following)
        position.add_(1)
    got = [token.item()]
    for _ in range(STEPS):
        g.replay()
        got.append(token.item())
    assert got == expected and len(set(expected)) > 3
    assert position.tolist() == [PROMPT + STEPS]
    report = graphex.explain(g)
    assert not report["islands"] and not report["eager_graphs"]


@torch.no_grad()
def test_a_script_for_accelerators():
    from graphex import Graph as NPUGraph
    from graphex import graph

    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    static_input = torch.zeros(8, 16)
    s = None  # a CPU has one stream so far
    g = NPUGraph()
    with graph(g, stream=s):
        static_output = model(static_input)
    for _ in range(3):
        batch = torch.randn(8, 16)
        static_input.copy_(batch)
        g.replay()
        torch.testing.assert_close(static_output, model(batch))


@torch.no_grad()
def test_a_paged_cache():
    from graphex.ops import paged_attention, reshape_and_cache

    key, value, query = torch.randn(2, 2, 8), torch.randn(2, 2, 8), torch.randn(2, 4, 8)
    keys, values = torch.randn(6, 4, 2, 8), torch.randn(6, 4, 2, 8)
    tables, lengths, slots = torch.tensor([[0, 1], [2, 3]]), torch.tensor([5, 6]), torch.tensor([4, 13])

    def step():
        reshape_and_cache(key, value, keys, values, slots)
        return paged_attention(query, keys, values, tables, lengths)

    before, g = keys.clone(), graphex.Graph()
    with graphex.graph(g):
        got = step()
    assert torch.equal(keys, before)
    for slot in (4, 5):
        slots[0] = slot
        lengths[0] = slot + 1
        g.replay()
        after = keys.clone()
        keys.copy_(before)
        torch.testing.assert_close(got, step())
        assert torch.equal(keys, after)
        before = after


SIZES = (1, 2, 4, 8)


def decode_over(llama, token, position, *caches):
    """One step of a batch over caches [batch, kv heads, ROOM, head size] that it writes: keys and values by layer."""
    cache = transformers.StaticCache(config=llama.config, max_cache_len=ROOM)
    for layer, keys, values in zip(cache.layers, caches[::2], caches[1::2], strict=True):
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
    return llama(token, past_key_values=cache, position_ids=position[None], cache_position=position).logits


DIMS = dict.fromkeys([0, 2, 3, 4, 5], 0)  # all but the position


def over_fresh_caches(llama, batch):
    heads, size = llama.config.num_key_value_heads, llama.config.hidden_size // llama.config.num_attention_heads
    return torch.randint(0, 128, (batch, 1)), [torch.zeros(batch, heads, ROOM, size) for _ in range(4)]


def decoded(step, token, caches):
    """Tokens and logits of STEPS steps, [batch, steps] and [batch, steps, vocabulary]."""
    tokens, logits = [], []
    for position in range(STEPS):
        logits.append(step(token, torch.tensor([position]), *caches))
        token = logits[-1].argmax(-1)
        tokens.append(token)
    return torch.cat(tokens, 1), torch.cat(logits, 1)


@torch.no_grad()
def test_llama_at_several_batch_sizes_in_one_pool():
    step = functools.partial(decode_over, model())
    buckets = graphex.Buckets(step, SIZES, dims=DIMS, options={"fallback": "error"})
    largest = graphex.Buckets(step, SIZES[-1:], dims=DIMS)
    for batch in (*SIZES, 3, 5, 7):
        token, caches = over_fresh_caches(step.args[0], batch)
        mine = [t.clone() for t in caches]
        tokens, logits = decoded(buckets, token, mine)
        expected_tokens, expected = decoded(step, token, caches)
        assert torch.equal(tokens, expected_tokens)
        torch.testing.assert_close(logits, expected)
        for a, b in zip(mine, caches, strict=True):
            torch.testing.assert_close(a, b)
    assert buckets.captures == len(SIZES)
    decoded(largest, *over_fresh_caches(step.args[0], 8))
    assert 0 < buckets.pool.idle_bytes <= 1.1 * largest.pool.idle_bytes


@torch.no_grad()
def test_llamas_padded_rows_are_the_unpadded_rows_to_the_bit():
    step = functools.partial(decode_over, model())
    padded, exact = (graphex.Buckets(step, sizes, dims=DIMS) for sizes in ([4, 8], lambda n: n))
    for batch in (1, 2, 3, 5, 6):
        token, caches = over_fresh_caches(step.args[0], batch)
        mine = [t.clone() for t in caches]
        assert torch.equal(decoded(padded, token, mine)[1], decoded(exact, token, caches)[1]), batch


@torch.no_grad()
def test_paged_attention_padded_with_lengths_of_one():
    from graphex.ops import paged_attention, reshape_and_cache

    keys, values = torch.randn(2, 9, 16, 2, 8)

    def step(query, rows, tables, *, lengths, slots):
        reshape_and_cache(rows, -rows, keys, values, slots)
        return paged_attention(query, keys, values, tables, lengths)

    pad = {"lengths": 1, "slots": -1}  # a negative slot writes nothing
    padded, exact = (
        graphex.Buckets(step, sizes, pad=pad, options={"fallback": "error"}) for sizes in ([1, 4], lambda n: n)
    )
    tables, slots, lengths = torch.tensor([[3, 0], [5, 0]]), torch.tensor([57, 90]), torch.tensor([10, 11])
    query, rows = torch.randn(2, 4, 8), torch.randn(2, 2, 8)
    before = keys.clone(), values.clone()
    got = padded(query, rows, tables, lengths=lengths, slots=slots)
    after = keys.clone(), values.clone()
    keys.copy_(before[0]), values.copy_(before[1])
    assert torch.equal(got, exact(query, rows, tables, lengths=lengths, slots=slots))
    assert torch.equal(keys, after[0]) and torch.equal(values, after[1])
    with pytest.raises(ValueError, match="3 in argument 'lengths'"):
        padded(query, rows, tables, lengths=torch.tensor([10, 11, 1]), slots=slots)
    torch.testing.assert_close(got, step(query, rows, tables, lengths=lengths, slots=slots))
