"""Steps of a language model, prefill or decode, as rows of a contest: the text, the engines' players, the peers.

All engines of a row are given the same tokens and, for decode, a cache that eager filled. A play is one step by the
clock of the user who waits for it; `replay` beside it runs from the entry of the backend's callable to its return.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from . import contest, engines, generate, peers, smollm2
from .work import Work, step_work

STEPS = 8  # decode steps before the cache is set back


@dataclass(frozen=True)
class Kind:
    """What a row's step takes: `past` tokens in the cache, `tokens` new ones, of each of `batch` sequences."""

    phase: str  # prefill or decode
    batch: int
    context: int

    @property
    def name(self) -> str:
        return f"{self.phase} {self.context} batch {self.batch}"

    @property
    def tokens(self) -> int:
        return self.context if self.phase == "prefill" else 1

    @property
    def past(self) -> int:
        return 0 if self.phase == "prefill" else self.context + STEPS // 2

    def work(self, model: torch.nn.Module, weight_bytes: int | None = None) -> Work:
        return step_work(model, self.batch, self.tokens, self.past, weight_bytes=weight_bytes)


class Text:
    """The ids of a row, and for decode the cache after the prompt."""

    def __init__(self, model: torch.nn.Module, kind: Kind, cache: str) -> None:
        self.model, self.kind, self.cache = model, kind, cache
        generator = torch.Generator().manual_seed(0)
        vocabulary = model.config.vocab_size
        low, high = (1000, 40_000) if vocabulary > 40_000 else (0, vocabulary)
        self.ids = torch.randint(low, high, (kind.batch, kind.context), generator=generator)
        self.next_ids = torch.randint(low, high, (kind.batch, 1), generator=generator)
        self.capacity = generate.capacity_for(kind.context + STEPS)
        self.prompted = None

    def start(self, forward: Callable) -> generate.Sequence:
        return generate.Sequence(forward, self.model, self.cache, self.capacity)

    def after_prompt(self, forward: Callable) -> generate.Sequence:
        if self.prompted is None:
            self.prompted = self.start(self.model.forward)
            self.prompted.step(self.ids)
        sequence = copy.copy(self.prompted)
        sequence.forward, sequence.fixed = forward, copy.deepcopy(self.prompted.fixed)
        return sequence


class Player:
    """One engine on one text: called, it takes a step and returns its seconds."""

    def __init__(self, engine: engines.Engine, text: Text, contestant: contest.Contestant) -> None:
        self.text = text
        self.clock = engines.ReplayClock()
        self.forward = engine.compile(text.model.forward, self.clock)
        contestant.clock = self.clock if engine.backend else None
        self.sequence, self.left, self.logits = None, 0, None

    @torch.no_grad()
    def __call__(self) -> float:
        ids = self.text.ids if self.text.kind.phase == "prefill" else self.text.next_ids
        if self.left == 0:
            self.sequence, self.left = self._fresh()
        self.left -= 1
        start = time.perf_counter()
        logits = self.sequence.step(ids)
        seconds = time.perf_counter() - start
        self.logits = logits.float()
        return seconds

    def _fresh(self) -> tuple[generate.Sequence, int]:
        if self.text.kind.phase == "prefill":
            return self.text.start(self.forward), 1
        return self.text.after_prompt(self.forward), STEPS


def player(engine: engines.Engine, text: Text, expected: torch.Tensor | None, bound: float) -> Callable:
    """Makes a player whose first choice of tokens must be the expected logits' own, or nearly tie with it."""

    def make(contestant: contest.Contestant) -> Player:
        made = Player(engine, text, contestant)
        start = time.perf_counter()
        made()
        first = time.perf_counter() - start
        contestant.facts["first_call_s"] = first
        if expected is not None:
            best = expected.argmax(-1, keepdim=True)
            behind = expected.gather(-1, best) - expected.gather(-1, made.logits.argmax(-1, keepdim=True))
            if float(behind.max()) > bound:
                raise ValueError(f"chose another token than eager, {float(behind.max()):.3g} behind")
        return made

    return make


def eager_logits(text: Text) -> torch.Tensor:
    """Logits of a row's first step. What Dynamo compiled for rows before is dropped: it would make sizes dynamic."""
    torch._dynamo.reset()
    contestant = contest.Contestant("eager")
    one = Player(engines.EAGER, text, contestant)
    one()
    return one.logits


def peer_player(session, name: str, kind: Kind) -> Callable:
    """Makes the player of a peer that runs in a process of its own, on the demo's file."""

    def make(contestant: contest.Contestant) -> Callable[[], float]:
        return peers.Peer(name, session.options.peer_python, smollm2.gguf_file(), kind, session.threads, contestant)

    return make
