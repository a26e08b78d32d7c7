"""The benches decode and prefill: the demo's model by scheme of its weights, every engine on the same text."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from . import contest, engines, generate, results, smollm2, steps

FLOATS = {"fp32": "float32", "bf16": "bfloat16"}
QUANTIZED = {"w8a8": "int8", "w8a16": "float32", "w4a8": "int4", "w4a16": "float32", "gguf": "int4"}  # by peak
SCHEMES = (*FLOATS, *QUANTIZED)
TEXT = "The read bandwidth of a machine bounds how fast a language model can write, because every weight is read once"


@dataclass
class Subject:
    """A model, the bytes of its linear layers where quantised, and how far its next token's distribution is off."""

    chat: smollm2.Chat
    plain: torch.nn.Module
    weight_bytes: int | None = None
    kl: float | None = None


def main(phase: str, text: str) -> int:
    options = arguments(phase, text)
    session = results.Session(phase, options)
    for scheme in options.scheme or ["fp32"]:
        subject = open_subject(scheme, session)
        for batch in options.batch or [1]:
            row = scheme_row(session, scheme, subject, steps.Kind(phase, batch, options.context))
            session.heat([row])
            close(row)
    return session.finish()


def arguments(phase: str, text: str):
    parser = results.parser(phase, text)
    parser.add_argument("--scheme", action="append", choices=SCHEMES, help="of the weights; may be repeated (fp32)")
    parser.add_argument("--batch", action="append", type=int, help="sequences; may be repeated (1)")
    parser.add_argument("--context", type=int, default=256, help="tokens of the prompt (256)")
    parser.add_argument("--cache", choices=generate.CACHES, default="static", help="the kind of KV cache (static)")
    return parser.parse_args()


def close(row: contest.Row) -> None:
    """Models' copies and peers' processes go before the next row comes."""
    row.contestants.clear()
    torch._dynamo.reset()
    gc.collect()


# ---- models


@torch.no_grad()
def open_subject(scheme: str, session: results.Session) -> Subject:
    plain = smollm2.load(FLOATS.get(scheme, "float32"), say=session.say)
    if scheme in FLOATS:
        return Subject(plain, plain.model)
    import graphex

    chat = smollm2.load("float32")
    if scheme == "gguf":
        graphex.load_gguf_linears(chat.model, smollm2.gguf_file())
    else:
        graphex.quantize(chat.model, scheme)
    return Subject(chat, plain.model, bytes_of_linears(chat.model), divergence(plain, chat))


def bytes_of_linears(model: torch.nn.Module) -> int:
    from graphex.blocks import BlockLinear
    from graphex.quantization import QuantizedLinear

    kinds = (torch.nn.Linear, QuantizedLinear, BlockLinear)
    tensors = [t for m in model.modules() if isinstance(m, kinds) for t in (*m.parameters(), *m.buffers())]
    return sum(t.numel() * t.element_size() for t in tensors)


def divergence(plain: smollm2.Chat, other: smollm2.Chat) -> float:
    """Mean KL divergence of the next token's distribution from the plain model's over a text, in nats."""
    ids = plain.ids(TEXT)
    exact, got = (chat.model(ids).logits[0].float().log_softmax(-1) for chat in (plain, other))
    return (exact.exp() * (exact - got)).sum(-1).mean().item()


# ---- rows


def scheme_row(session: results.Session, scheme: str, subject: Subject, kind: steps.Kind) -> contest.Row:
    peak = FLOATS.get(scheme) or QUANTIZED[scheme]
    row = contest.Row(f"{scheme} {kind.name}", kind.work(subject.plain, subject.weight_bytes), peak, clock="step")
    with torch.no_grad():
        text = steps.Text(subject.chat.model, kind, session.options.cache)
        expected = steps.eager_logits(text)
        bound = smollm2.MARGIN_BOUNDS["float32" if scheme != "bf16" else "bfloat16"]
        if scheme in QUANTIZED:
            # Uncompiled it makes its weights anew at each step; the plain model is what the user had before.
            plain = steps.Text(subject.plain, kind, session.options.cache)
            contest.enter(row, "eager, fp32", steps.player(engines.EAGER, plain, None, 0))
        else:
            contest.enter(row, "eager", steps.player(engines.EAGER, text, None, 0))
        for engine in compilers(session, scheme):
            one = contest.enter(row, engine.name, steps.player(engine, text, expected, bound))
            if subject.kl is not None:
                one.facts["kl"] = subject.kl
    for name in peers_of(scheme):
        if session.wants(name):
            contest.enter(row, name, steps.peer_player(session, name, kind))
    return row


def compilers(session: results.Session, scheme: str) -> Iterator[engines.Engine]:
    """Inductor has no operator for quantised weights: it would run eager's."""
    for engine in (engines.INDUCTOR, engines.GRAPHEX):
        if session.wants(engine.name) and (engine is engines.GRAPHEX or scheme in FLOATS):
            yield engine


def peers_of(scheme: str) -> tuple[str, ...]:
    """Those that run the demo's file stand beside its own blocks."""
    return ("llama.cpp", "openvino") if scheme == "gguf" else ()
