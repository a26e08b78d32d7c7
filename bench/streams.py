"""Two captured branches of small operators on two streams beside the same on one: ./dev bench streams.

Each branch is a chain of products of one row with a small matrix, each too small to split over cores. The ways take
turns; best and median over all rounds, in microseconds a replay. Two streams should be 1.5 times as fast as the better
of one stream's two, on one core and on all. The machine must be quiet: with one core taken, a wait costs time slices.
"""

import argparse
import json
import statistics
import sys
import time

import torch
from rich.table import Table
from support import machine, screen

import graphex


def branches(x, weights, length, side):
    """A chain over each of two weights, the second on stream `side` if there is one, and their sum."""
    main, ends = graphex.current_stream(), []
    if side is not None:
        side.wait_stream(main)
    for weight, stream in zip(weights, (main, side), strict=True):
        with graphex.stream(stream):
            y = x
            for _ in range(length):
                y = y @ weight
            ends.append(y)
    if side is not None:
        main.wait_stream(side)
    return ends[0] + ends[1]


def timed(replay, calls, times):
    for _ in range(calls):
        start = time.perf_counter_ns()
        replay()
        times.append((time.perf_counter_ns() - start) / 1e3)


def on_one_core(g):
    def replay():
        with graphex.scope.limit_core_num(1):
            g.replay()

    return replay


@torch.no_grad()
def measure(size, length, calls, rounds):
    x, weights = torch.randn(1, size), [torch.randn(size, size) / size**0.5 for _ in range(2)]
    graphs, results = [], []
    for side in (None, graphex.Stream()):
        graphs.append(graphex.Graph())
        with graphex.graph(graphs[-1]):
            results.append(branches(x, weights, length, side))
        graphs[-1].replay()
    assert torch.equal(*results)
    ways = {
        "one stream, one core": on_one_core(graphs[0]),
        "one stream": graphs[0].replay,
        "two streams": graphs[1].replay,
    }
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, replay in ways.items():
            timed(replay, calls, times[name])
    figures = {name: {"best_us": min(t), "median_us": statistics.median(t)} for name, t in times.items()}
    return {"case": f"2 x {length} products of {size}", "ways": figures}


def gain(row, figure):
    one = min(row["ways"][name][figure] for name in ("one stream, one core", "one stream"))
    return one / row["ways"]["two streams"][figure]


def table(rows):
    made = Table(title="microseconds a replay", title_justify="left")
    for name in ("case", "way"):
        made.add_column(name)
    for name in ("best", "median"):
        made.add_column(name, justify="right")
    for row in rows:
        for i, (name, way) in enumerate(row["ways"].items()):
            made.add_row(row["case"] if i == 0 else "", name, f"{way['best_us']:.1f}", f"{way['median_us']:.1f}")
        made.add_row("", "x faster", f"{gain(row, 'best_us'):.2f}", f"{gain(row, 'median_us'):.2f}")
        made.add_section()
    return made


def main():
    parser = argparse.ArgumentParser(prog="./dev bench streams", description=__doc__.split("\n\n")[0])
    parser.add_argument("--calls", type=int, default=100, help="calls a round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=0, help="worker threads (all usable cores)")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, all else on stderr")
    options = parser.parse_args()
    console = screen.console(options.json)
    threads = machine.fix_threads(options.threads)
    console.print(machine.describe(threads), style="dim", highlight=False)
    rows = [measure(size, length, options.calls, options.rounds) for size, length in ((32, 100), (96, 100), (128, 200))]
    console.print(table(rows))
    if options.json:
        json.dump({"machine": machine.describe(threads), "rows": rows}, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
