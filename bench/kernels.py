"""The kernels beside the machine's limits: linear layers over every format of weights, and memory-bound loops.

A linear row multiplies inputs [M, K] by as many copies of a weight [N, K] as exceed 8 x the last-level cache, all in
one compiled graph, and counts one of them; with many rows of inputs, where arithmetic bounds it, one copy. Its floor is
the weight's bytes over the read bandwidth or the operations over the peak of the type, whichever is longer. A loop row
is one call over one of several sets of operands; its floor is the bytes read and written over the copy bandwidth.
Clock: the compiled callable from entry to return; eager is the whole call.

    ./dev bench kernels                                   every format at 4096 x 4096, and the loops
    ./dev bench kernels --format bf16 --shape 32000x4096 --m 1
    ./dev bench kernels --format loops
"""

import gc
import sys

import torch
from support import contest, engines, loops, results, weights
from support.contest import Row
from support.work import Work

SHAPES = {"4096x4096": (4096, 4096), "12800x4096": (12800, 4096), "32000x4096": (32000, 4096)}
MANY = 16  # from so many rows on arithmetic bounds a layer
# Sums in another order, and inputs rounded to 8 bits at another multiple.
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.02, torch.float16: 0.01}


def arguments():
    parser = results.parser("kernels", __doc__)
    parser.add_argument("--format", action="append", choices=(*weights.FORMATS, "loops"), help="one format (all)")
    parser.add_argument("--shape", action="append", type=shape, help="N x K (4096x4096); 'all' means three of them")
    parser.add_argument("--m", action="append", type=int, help="rows of inputs (1, 4, 256)")
    return parser.parse_args()


def shape(text):
    if text == "all":
        return list(SHAPES.values())
    n, _, k = text.partition("x")
    return [(int(n), int(k))]


# ---- linear layers


def linear_rows(session, format, n, k, rows_of_inputs):
    """One heat: the row counts of one weight."""
    many = all(m >= MANY for m in rows_of_inputs)
    layers = weights.layers(format, n, k, 0 if many else weights.COLD_BYTES)
    heat = []
    for m in rows_of_inputs:
        operands = layers.operands[: 1 if m >= MANY else None]
        x = torch.randn(m, k, generator=torch.Generator().manual_seed(m)).to(layers.dtype)
        size = layers.dtype.itemsize
        work = Work(layers.bytes_of_one + m * (n + k) * size, 2 * m * n * k)
        row = Row(f"{format} M={m} {n}x{k}", work, weights.PEAKS[format])
        enter_linear(session, row, format, layers.function, operands, x)
        heat.append(row)
    session.heat(heat)


def enter_linear(session, row, format, function, operands, x):
    def all_of_them(x, operands):
        return [function(x, *one) for one in operands]

    expected = function(x, *operands[0])

    def player(engine, operands=operands):
        run, clock = engines.compiled(engine, all_of_them)
        contest.check_close(engine.name, run(x, operands)[0], expected, TOLERANCE[x.dtype])
        return lambda: engines.seconds_of(run, clock, x, operands) / len(operands)

    # Eager makes float weights of quantised ones at each call: one copy shows that as well as thirty.
    contest.enter(row, "eager", lambda _: player(engines.EAGER, operands if format in weights.FLOATS else operands[:1]))
    for engine in (engines.INDUCTOR, engines.GRAPHEX):
        if session.wants(engine.name):
            contest.enter(row, engine.name, lambda _, engine=engine: linear_player(engine, format, player))


def linear_player(engine, format, player):
    if engine is engines.INDUCTOR and format not in weights.FLOATS:
        raise contest.Missing("has no such operator: it would run eager's")
    return player(engine)


# ---- loops


def loop_rows(session):
    for loop in loops.loops():
        session.heat([loop_row(session, loop)])


def loop_row(session, loop):
    generator = torch.Generator().manual_seed(0)
    copies = -(-weights.COLD_BYTES // loop.bytes)
    sets = [(loop.out(), *loop.inputs(generator)) for _ in range(copies)]
    row = Row(f"loop {loop.name}", Work(0, 0, loop.bytes), "float32")
    for engine in (engines.EAGER, engines.INDUCTOR, engines.GRAPHEX):
        if session.wants(engine.name):
            contest.enter(row, engine.name, lambda _, engine=engine: loop_player(engine, loop, sets))
    return row


def loop_player(engine, loop, sets):
    run, clock = engines.compiled(engine, loop.function)
    out, *inputs = sets[0]
    expected = loop.function(torch.empty_like(out), *inputs)
    contest.check_close(engine.name, run(out, *inputs), expected, TOLERANCE[out.dtype])

    def play():
        return sum(engines.seconds_of(run, clock, *operands) for operands in sets) / len(sets)

    return play


def main():
    options = arguments()
    session = results.Session("kernels", options)
    chosen = options.format or [*weights.FORMATS, "loops"]
    with torch.no_grad():
        for format in [one for one in chosen if one != "loops"]:
            for n, k in [one for group in options.shape or [shape("4096x4096")] for one in group]:
                linear_rows(session, format, n, k, options.m or [1, 4, 256])
                gc.collect()
        if "loops" in chosen:
            loop_rows(session)
    return session.finish()


if __name__ == "__main__":
    sys.exit(main())
