"""What a replay of a captured region costs beside the eager code it was captured from: ./dev bench graphs.

Tiny operators on 16 elements, captured by graphex.graph, with the optimising passes and without; values that replays
refresh, and attention whose work follows its lengths. Eager and replays take turns; best and median over all rounds, in
microseconds. A replay should take at most a tenth of eager's time.
"""

import argparse
import itertools
import json
import statistics
import sys
import time

import torch
from rich.table import Table
from support import machine, screen

import graphex

TINY = (200, 2000)
PASSES = ("bound_masks", "fold_grouped_heads", "merge_common", "remove_unused")


def region(x, operators):
    """Dependent operators of five kinds, one after the other."""
    y = x
    for _ in range(operators // 5):
        y = ((y * 0.5).add_(1.0).tanh() - x).relu()
    return y


def captured(function, options):
    g = graphex.Graph()
    start = time.perf_counter()
    with graphex.graph(g, options=options):
        result = function()
    return g, result, time.perf_counter() - start


class Player:
    """One way to run the region."""

    def __init__(self, name, call, capture_seconds=0.0):
        self.name, self.call, self.capture_seconds, self.times = name, call, capture_seconds, []
        for _ in range(5):
            call()

    def play(self, calls):
        for _ in range(calls):
            start = time.perf_counter_ns()
            self.call()
            self.times.append((time.perf_counter_ns() - start) / 1e3)

    def figures(self, eager):
        best, median = min(self.times), statistics.median(self.times)
        share = median / statistics.median(eager.times)
        seconds = self.capture_seconds
        return {"way": self.name, "best_us": best, "median_us": median, "of_eager": share, "capture_s": seconds}


@torch.no_grad()
def measure(operators, calls, rounds):
    x = torch.randn(16)
    players = [Player("eager", lambda: region(x, operators))]
    ways = {"replay": {}, "replay, passes off": {"disable_passes": list(PASSES)}}
    for name, options in ways.items():
        g, result, seconds = captured(lambda: region(x, operators), options)
        g.replay()
        torch.testing.assert_close(result, region(x, operators))
        players.append(Player(name, g.replay, seconds))
    for _ in range(rounds):
        for player in players:
            player.play(calls)
    return {"case": f"{operators} tiny operators", "ways": [p.figures(players[0]) for p in players]}


@torch.no_grad()
def measure_refresh(calls, rounds):
    """A sum over the first n of 64 rows: the same n at each replay, and another one."""
    x, g, n = torch.randn(64, 16), graphex.Graph(), itertools.cycle(range(64))
    with graphex.graph(g, refresh={"n": graphex.Refreshable(40, min=0, max=64)}) as now:
        y = x[: now.n].sum(0) * now.n
    players = [Player("eager", lambda: x[: (k := next(n))].sum(0) * k), Player("replay, n as before", g.replay)]
    players.append(Player("replay, another n", lambda: g.replay(n=next(n))))
    players.append(Player("replay, another n, fresh results", lambda: g.replay(n=next(n), fresh=y)))
    for _ in range(rounds):
        for player in players:
            player.play(calls)
    return {"case": "a refreshed number", "ways": [p.figures(players[0]) for p in players]}


@torch.no_grad()
def measure_lengths(calls, rounds):
    """A decode step's attention, 8 sequences of 8 heads over 2 heads of 64 in pages of 16, room for 2048 keys each."""
    keys, values = torch.randn(2, 8 * 128, 16, 2, 64)
    query, tables = torch.randn(8, 8, 64), torch.arange(8 * 128).view(8, 128)
    attention, g = graphex.ops.paged_attention, graphex.Graph()
    with graphex.graph(g, refresh={"lengths": graphex.Refreshable([2048] * 8, min=1, max=2048)}) as now:
        y = attention(query, keys, values, tables, now.lengths)
    players = []
    for length in (2048, 256, 32):
        many = [length] * 8
        expected = attention(query, keys, values, tables, torch.tensor(many))
        torch.testing.assert_close(g.replay(lengths=many, fresh=y), expected)
        players.append(Player(f"{length} keys each", lambda many=many: g.replay(lengths=many)))
    for _ in range(rounds):
        for player in players:
            player.play(calls)
    return {"case": "attention, lengths refreshed", "ways": [p.figures(players[0]) for p in players]}


@torch.no_grad()
def measure_empty(calls, rounds):
    g, _, seconds = captured(lambda: None, {})
    players = [Player("a Python function", lambda: None), Player("replay", g.replay, seconds)]
    for _ in range(rounds):
        for player in players:
            player.play(calls)
    return {"case": "an empty graph", "ways": [p.figures(players[0]) for p in players]}


def table(rows):
    made = Table(title="microseconds a call", title_justify="left")
    for name in ("case", "way"):
        made.add_column(name)
    for name in ("best", "median", "share of the first", "capture, s"):
        made.add_column(name, justify="right")
    for row in rows:
        for i, way in enumerate(row["ways"]):
            figures = (f"{way['best_us']:.1f}", f"{way['median_us']:.1f}", f"{way['of_eager']:.3f}")
            seconds = f"{way['capture_s']:.2f}" if way["capture_s"] else "-"
            made.add_row(row["case"] if i == 0 else "", way["way"], *figures, seconds)
        made.add_section()
    return made


def main():
    parser = argparse.ArgumentParser(prog="./dev bench graphs", description=__doc__.split("\n\n")[0])
    parser.add_argument("--calls", type=int, default=50, help="calls a round")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=0, help="worker threads (all usable cores)")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, all else on stderr")
    options = parser.parse_args()
    console = screen.console(options.json)
    threads = machine.fix_threads(options.threads)
    console.print(machine.describe(threads), style="dim", highlight=False)
    rows = [measure_empty(options.calls, options.rounds)]
    rows += [way(options.calls, options.rounds) for way in (measure_refresh, measure_lengths)]
    for operators in TINY:
        with console.status(f"{operators} operators ..."):
            rows.append(measure(operators, options.calls, options.rounds))
    console.print(table(rows))
    if options.json:
        json.dump({"machine": machine.describe(threads), "rows": rows}, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
