"""How the models of a kind are called: fixed inputs, several sizes, and for causal models prefill and decode steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .models import CAUSAL, Architecture

LENGTHS = (6, 11, 17)  # the first is compiled as fixed, the second as any length, the third needs nothing new
STEPS = 3
BATCH = 2
Forward = Callable[..., Any]
Outputs = Iterator[tuple[str, torch.Tensor]]


@dataclass(frozen=True)
class Call:
    """What a scenario needs: the model, its forward (compiled or not), and how many sizes and caches to try."""

    architecture: Architecture
    model: torch.nn.Module
    forward: Forward
    quick: bool = False

    def some(self, choices: Sequence[Any]) -> Sequence[Any]:
        """All of three sizes, or two of them."""
        return choices[:2] if self.quick else choices

    def tokens(self, length: int) -> torch.Tensor:
        """The same tokens each time: [BATCH, length]."""
        return torch.randint(3, self.model.config.vocab_size, (BATCH, length), generator=_generator())

    def noise(self, *shape: int) -> torch.Tensor:
        """The same signal each time, in the model's dtype."""
        return torch.randn(shape, generator=_generator()).to(self.model.dtype)


def run(call: Call) -> dict[str, torch.Tensor]:
    """Every call of the architecture's scenario: name -> output."""
    kind = call.architecture.kind
    with torch.no_grad():
        return {name: output.clone() for name, output in (_causal if kind in CAUSAL else _SCENARIOS[kind])(call)}


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def _cache(kind: str, model: torch.nn.Module) -> Any:
    from transformers import DynamicCache, StaticCache

    if kind == "static":
        return StaticCache(config=model.config, max_cache_len=max(LENGTHS) + STEPS + 4)
    return DynamicCache(config=model.config)


def _causal(call: Call) -> Outputs:
    for kind in call.architecture.caches[: 1 if call.quick else None]:
        for length in call.some(LENGTHS):
            yield from _generation(call, kind, length)


def _generation(call: Call, kind: str, length: int) -> Outputs:
    """A prefill and decode steps along fixed tokens."""
    tokens, state = call.tokens(length + STEPS), {}
    if kind != "own":  # a state that the model makes and returns itself
        name = "past_key_values" if "past_key_values" in inspect.signature(call.model.forward).parameters else "cache"
        state = {name: _cache(kind, call.model)}
    result = call.forward(tokens[:, :length], use_cache=True, **state)
    yield f"{kind} prefill {length}", result.logits
    for at in range(length, length + STEPS):
        state = {"state": result.state} if kind == "own" else state
        result = call.forward(tokens[:, at : at + 1], use_cache=True, **state)
        yield f"{kind} decode {length} + {at - length}", result.logits


def _encoder(call: Call) -> Outputs:
    for length in call.some(LENGTHS):
        mask = torch.ones(BATCH, length, dtype=torch.int64)
        mask[1, length // 2 :] = 0  # the second row is padded
        yield f"length {length}", call.forward(call.tokens(length), attention_mask=mask).logits


def _encoder_decoder(call: Call) -> Outputs:
    config = call.model.config
    for length in call.some(LENGTHS):
        if hasattr(config, "num_mel_bins"):
            inputs = {"input_features": call.noise(BATCH, config.num_mel_bins, 2 * config.max_source_positions)}
        else:
            inputs = {"input_ids": call.tokens(length)}
        targets = call.tokens(length // 2)
        yield f"length {length}", call.forward(**inputs, decoder_input_ids=targets, use_cache=False).logits


def _vision(call: Call) -> Outputs:
    for batch in call.some((2, 3, 5)):
        result = call.forward(call.noise(batch, 3, 32, 32))
        yield f"batch {batch}", result.logits if "logits" in result else result.last_hidden_state


def _speech(call: Call) -> Outputs:
    for samples in call.some((400, 640, 1000)):
        yield f"samples {samples}", call.forward(call.noise(BATCH, samples)).logits


_SCENARIOS = {"encoder": _encoder, "encoder-decoder": _encoder_decoder, "vision": _vision, "speech": _speech}
