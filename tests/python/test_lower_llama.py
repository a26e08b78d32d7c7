"""A small Llama of transformers: prefill and decode with both caches, everything native, as eager."""

from __future__ import annotations

import pytest
import torch
from compare import backend

import graphex

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("interpreter")


def model(dtype: torch.dtype) -> torch.nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=128,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
    )
    return transformers.LlamaForCausalLM(config).to(dtype).eval()


def steps(forward, cache, steps: int = 3) -> list[torch.Tensor]:
    """Logits of a prefill and of a few decode steps on fixed tokens."""
    tokens = torch.arange(40).view(1, 40) % 128
    logits = []
    with torch.no_grad():
        logits.append(forward(tokens[:, :7], past_key_values=cache).logits)
        for i in range(7, 7 + steps):
            logits.append(forward(tokens[:, i : i + 1], past_key_values=cache).logits)
    return logits


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("static", [True, False])
def test_prefill_and_decode(dtype, static):
    llama = model(dtype)

    def cache():
        if static:
            return transformers.StaticCache(config=llama.config, max_cache_len=16)
        return transformers.DynamicCache(config=llama.config)

    compiled = torch.compile(llama.forward, backend=backend(), options={"fallback": "error"})
    mine, theirs = cache(), cache()
    got, expected = steps(compiled, mine), steps(llama.forward, theirs)
    tolerance = 1e-5 if dtype is torch.float32 else 3e-2
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    for a, b in zip(mine.layers, theirs.layers, strict=True):
        assert a.keys.stride() == b.keys.stride() and a.keys.shape == b.keys.shape
        torch.testing.assert_close(a.keys, b.keys, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(a.values, b.values, rtol=tolerance, atol=tolerance)
    report = graphex.explain(compiled)
    assert not report["islands"] and not report["eager_graphs"]
