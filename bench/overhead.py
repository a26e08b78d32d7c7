"""What a call costs that computes next to nothing: ./dev bench overhead.

One add on one element; 200 dependent tiny operators on 16 elements; a replay with 395 inputs and nothing to do with
them, and one that adds them all. Two clocks: `step` is what the caller waits for, Dynamo's guards included, `replay`
runs from the entry of the backend's callable to its return. Engines take turns; best and median over all rounds, in
microseconds.
"""

import argparse
import json
import statistics
import sys
import time

import torch
from rich.table import Table
from support import engines, machine, screen

INPUTS = 395


def add_one(x):
    return x + 1


def chain_of_200(x):
    for _ in range(100):
        x = x * 0.5
        x = x + 1.0
    return x


def only_looks_at(x, *others):
    """Nothing to compute, yet each of the others is an input of the graph: the views are dead code behind Dynamo."""
    for other in others:
        other.view(-1)
    return x.view(-1)


def adds_all(x, *others):
    for other in others:
        x = x + other
    return x


def cases():
    many = [torch.randn(16) for _ in range(INPUTS)]
    return {
        "one add on 1 element": (add_one, [torch.randn(1)]),
        "200 dependent operators on 16 elements": (chain_of_200, [torch.randn(16)]),
        f"empty replay, {INPUTS} inputs": (only_looks_at, many),
        f"{INPUTS} inputs, all read": (adds_all, many),
    }


def inputs_of_graph(function, arguments):
    """How many inputs Dynamo's graph has: the bench would measure nothing if it dropped those that are not used."""
    seen = []

    def count(graph, _):
        seen.append(len(graph.graph.find_nodes(op="placeholder")))
        return graph.forward

    torch._dynamo.reset()
    torch.compile(function, backend=count)(*arguments)
    return sum(seen)


class Player:
    def __init__(self, engine, function, arguments):
        self.engine, self.arguments = engine, arguments
        self.clock = engines.ReplayClock()
        self.call = engine.compile(function, self.clock)
        self.steps, self.replays = [], []
        for _ in range(20):
            self.call(*arguments)
        self.clock.take()

    def play(self, calls):
        call, arguments, clock = self.call, self.arguments, time.perf_counter_ns
        for _ in range(calls):
            start = clock()
            call(*arguments)
            self.steps.append((clock() - start) / 1e3)
        self.replays += [seconds * 1e6 for seconds in self.clock.take()]

    def figures(self):
        facts = {"engine": self.engine.name, "step_best_us": min(self.steps), "step_us": statistics.median(self.steps)}
        if self.replays:
            facts |= {"replay_best_us": min(self.replays), "replay_us": statistics.median(self.replays)}
        return facts


@torch.no_grad()
def measure(name, function, arguments, chosen, options):
    if len(arguments) > 1 and (found := inputs_of_graph(function, arguments)) != len(arguments):
        raise SystemExit(f"{name}: the graph has {found} inputs, not {len(arguments)}; this bench measures nothing")
    torch._dynamo.reset()
    players = [Player(engine, function, arguments) for engine in chosen]
    for _ in range(options.rounds):
        for player in players:
            player.play(options.calls)
    return {"case": name, "engines": [player.figures() for player in players]}


def table(rows):
    made = Table(title="microseconds a call", title_justify="left")
    for name in ("case", "engine"):
        made.add_column(name)
    for name in ("step, best", "step, median", "replay, best", "replay, median"):
        made.add_column(name, justify="right")
    for row in rows:
        for index, one in enumerate(row["engines"]):
            keys = ("step_best_us", "step_us", "replay_best_us", "replay_us")
            figures = [f"{one[key]:.1f}" if key in one else "-" for key in keys]
            made.add_row(row["case"] if index == 0 else "", one["engine"], *figures)
        made.add_section()
    return made


def main():
    parser = argparse.ArgumentParser(prog="./dev bench overhead", description=__doc__.split("\n\n")[0])
    parser.add_argument("--calls", type=int, default=500, help="calls a round")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=0, help="worker threads (all usable cores)")
    parser.add_argument("--without-graphex", action="store_true", help="leave graphex out where it is not installed")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, all else on stderr")
    options = parser.parse_args()
    console = screen.console(options.json)
    chosen = engines.choose((engines.EAGER, engines.INDUCTOR, engines.GRAPHEX), options.without_graphex)
    threads = machine.fix_threads(options.threads)
    console.print(machine.describe(threads), style="dim", highlight=False)
    rows = []
    for name, (function, arguments) in cases().items():
        with console.status(f"{name} ..."):
            rows.append(measure(name, function, arguments, chosen, options))
    console.print(table(rows))
    if options.json:
        json.dump({"machine": machine.describe(threads), "rows": rows}, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
