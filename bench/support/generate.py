"""Greedy generation with one forward callable, written out so that each step can be timed and checked.

It does what transformers' generate does for one sequence: a prefill that keeps the last logits only, then one token
a step. A step's clock runs from the call of forward to the token as a Python int; what the tables also want to know
(the margin between the two best logits) is computed outside of it.
"""

import inspect
import time
from dataclasses import dataclass, field

import torch

CACHES = ("static", "dynamic")


@dataclass
class Generation:
    prompt_tokens: int
    tokens: list = field(default_factory=list)
    margins: list = field(default_factory=list)  # best logit - second best, one per token
    logits: list = field(default_factory=list)  # kept on request only, float32
    prefill_s: float = 0.0
    step_s: list = field(default_factory=list)


def capacity_for(length, grain=64):
    return -(-length // grain) * grain


def make_cache(model, kind, capacity):
    from transformers import DynamicCache, StaticCache

    if kind == "static":
        return StaticCache(config=model.config, max_cache_len=capacity)
    return DynamicCache(config=model.config)


def cache_keyword(model):
    """transformers renamed the argument past_key_values to cache; take the one that this version has."""
    names = inspect.signature(type(model).forward).parameters
    return "cache" if "cache" in names else "past_key_values"


class Sequence:
    """A batch of equally long token sequences on their way through `forward`: model.forward or what stands for it."""

    def __init__(self, forward, model, cache="static", capacity=None):
        self.forward = forward
        self.fixed = {cache_keyword(model): make_cache(model, cache, capacity), "use_cache": True, "logits_to_keep": 1}

    def step(self, ids):
        """Logits [batch, vocabulary] after the tokens `ids` [batch, n]."""
        return self.forward(input_ids=ids, **self.fixed).logits[:, -1]


def margin(logits):
    best, second = torch.topk(logits.float(), 2).values.tolist()
    return best - second


@torch.no_grad()
def generate(forward, model, ids, count, cache="static", capacity=None, on_token=None, forced=None, end=(), keep=False):
    """`count` tokens after the prompt ids [1, n]. With `forced` the next step is fed its tokens instead of the ones
    that were chosen, so that two runs can be compared at every position; `end` holds the tokens that stop it."""
    capacity = capacity or capacity_for(ids.shape[1] + count)
    sequence = Sequence(forward, model, cache, capacity)
    run = Generation(ids.shape[1])
    for position in range(count):
        start = time.perf_counter()
        logits = sequence.step(ids)[0]
        token = int(logits.argmax())
        seconds = time.perf_counter() - start
        if position == 0:
            run.prefill_s = seconds
        else:
            run.step_s.append(seconds)
        run.tokens.append(token)
        run.margins.append(margin(logits))
        if keep:
            run.logits.append(logits.float())
        if on_token:
            on_token(token)
        if token in end:
            break
        ids = torch.tensor([[forced[position] if forced else token]])
    return run


@dataclass
class Difference:
    position: int
    expected: int
    got: int
    margin: float  # of the expected run at this position


def differences(expected, got):
    """Where two runs fed the same tokens chose differently; a free run is compared up to its first difference."""
    return [
        Difference(position, want, have, expected.margins[position])
        for position, (want, have) in enumerate(zip(expected.tokens, got.tokens, strict=False))
        if want != have
    ]
