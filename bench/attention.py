"""Scaled dot product attention with grouped heads: decode over long caches, and a causal prefill.

Decode rotates over caches that together exceed 8 x the last-level cache, one call each; its floor is the keys and
values over the read bandwidth. Prefill's floor is the operations of the causal half over the peak. Clock: the compiled
callable from entry to return; eager is the whole call. `./dev bench attention_kernel` is the kernel alone.

    ./dev bench attention
    ./dev bench attention --dtype fp32 --decode 8192 --dim 64
"""

import sys

import torch
from support import contest, engines, results, weights
from support.work import Work
from torch.nn.functional import scaled_dot_product_attention

QUERY_HEADS, KV_HEADS = 32, 8
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
PEAKS = {"fp32": "float32", "bf16": "bfloat16"}
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.02}


def arguments():
    parser = results.parser("attention", __doc__)
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="one dtype; may be repeated (fp32, bf16)")
    parser.add_argument("--dim", action="append", type=int, help="of a head; may be repeated (64, 128)")
    parser.add_argument("--decode", action="append", type=int, help="keys of a decode step (8192, 32768)")
    parser.add_argument("--prefill", action="append", type=int, help="tokens of a prefill (2048)")
    return parser.parse_args()


def operands(queries, keys, dim, dtype, copies):
    generator = torch.Generator().manual_seed(0)

    def made(heads, length):
        return torch.rand(1, heads, length, dim, generator=generator).to(dtype)

    first = (made(QUERY_HEADS, queries), made(KV_HEADS, keys), made(KV_HEADS, keys))
    return [first, *(tuple(tensor.clone() for tensor in first) for _ in range(copies - 1))]


def decode_row(session, keys, dim, dtype):
    cache = 2 * KV_HEADS * keys * dim * DTYPES[dtype].itemsize
    work = Work(cache, 4 * QUERY_HEADS * keys * dim)
    sets = operands(1, keys, dim, DTYPES[dtype], -(-weights.COLD_BYTES // cache))
    return filled_row(session, f"{dtype} decode {keys} D={dim}", work, dtype, sets, attend)


def prefill_row(session, tokens, dim, dtype):
    cache = (2 * KV_HEADS + 2 * QUERY_HEADS) * tokens * dim * DTYPES[dtype].itemsize
    work = Work(cache, 4 * QUERY_HEADS * tokens * (tokens + 1) // 2 * dim)
    sets = operands(tokens, tokens, dim, DTYPES[dtype], 1)
    return filled_row(session, f"{dtype} prefill {tokens} D={dim}", work, dtype, sets, attend_causally)


def attend(q, k, v):
    return scaled_dot_product_attention(q, k, v, enable_gqa=True)


def attend_causally(q, k, v):
    return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def filled_row(session, name, work, dtype, sets, function):
    row = contest.Row(name, work, PEAKS[dtype])
    expected = function(*sets[0])

    def player(engine):
        run, clock = engines.compiled(engine, function)
        contest.check_close(engine.name, run(*sets[0]), expected, TOLERANCE[DTYPES[dtype]])
        return lambda: sum(engines.seconds_of(run, clock, *one) for one in sets) / len(sets)

    for engine in (engines.EAGER, engines.INDUCTOR, engines.GRAPHEX):
        if session.wants(engine.name):
            contest.enter(row, engine.name, lambda _, engine=engine: player(engine))
    return row


def main():
    options = arguments()
    session = results.Session("attention", options)
    asked = options.decode or options.prefill
    with torch.no_grad():
        for dtype in options.dtype or ["fp32", "bf16"]:
            for dim in options.dim or [64, 128]:
                for keys in options.decode or ([] if asked else [8192, 32768]):
                    session.heat([decode_row(session, keys, dim, dtype)])
                for tokens in options.prefill or ([] if asked else [2048]):
                    session.heat([prefill_row(session, tokens, dim, dtype)])
    return session.finish()


if __name__ == "__main__":
    sys.exit(main())
