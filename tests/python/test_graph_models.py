"""A Llama of transformers captured imperatively, and scripts written for accelerators with their imports changed."""

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
