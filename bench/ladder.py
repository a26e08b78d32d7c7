"""How near a real model's step comes to what the machine allows: ./dev bench ladder.

SmolLM2-135M, fp32 and bf16, a prefill of 256 tokens and decode at batch 1 and 8, by eager, inductor (with and without
freezing, the better one is shown) and graphex. Engines take turns in rounds, since a shared machine's speed drifts;
memory bandwidth and arithmetic peak are probed around every round, and a row's share is floor / time of its own
round. Two clocks: `step` is what the caller waits for, Python and guards included; `replay` runs from the entry of
the backend's callable to its return. A share above 102 % means that the probe or the count is wrong: exit status 1.
"""

import argparse
import copy
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass

import torch
from rich.table import Table
from support import engines, generate, machine, screen, smollm2
from support.work import step_work

PROMPT = 256
DECODE_STEPS = 8
MOST_SHARE = 1.02


@dataclass(frozen=True)
class Row:
    dtype: str
    phase: str
    batch: int

    @property
    def name(self):
        return f"{self.dtype} {self.phase} {PROMPT if self.phase == 'prefill' else ''} batch {self.batch}".replace(
            "  ", " "
        )


@dataclass
class Measured:
    engine: str
    compile_s: float
    step_ms: float
    step_best_ms: float
    replay_ms: float | None
    ratio: float  # eager's time / this one's, by the step clock
    share: float  # of the floor, by the step clock
    tokens_s: float


class Text:
    """What all engines of a row are given: the ids, and for decode the cache after the prompt, which eager filled."""

    def __init__(self, model, row, cache):
        self.model, self.row, self.cache = model, row, cache
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(1000, 40_000, (row.batch, PROMPT), generator=generator)
        self.next_ids = torch.randint(1000, 40_000, (row.batch, 1), generator=generator)
        self.capacity = generate.capacity_for(PROMPT + DECODE_STEPS)
        self.prompted = None

    def start(self, forward):
        return generate.Sequence(forward, self.model, self.cache, self.capacity)

    @torch.no_grad()
    def after_prompt(self, forward):
        if self.prompted is None:
            self.prompted = self.start(self.model.forward)
            self.prompted.step(self.ids)
        sequence = copy.copy(self.prompted)
        sequence.forward = forward
        sequence.fixed = copy.deepcopy(self.prompted.fixed)
        return sequence

    def work(self):
        if self.row.phase == "prefill":
            return step_work(self.model, self.row.batch, PROMPT, 0)
        return step_work(self.model, self.row.batch, 1, PROMPT + DECODE_STEPS // 2)


class Player:
    """One engine on one row: set up, compiled, and ready to be asked for a round."""

    def __init__(self, engine, text):
        self.engine, self.text, self.row = engine, text, text.row
        self.clock = engines.ReplayClock()
        self.forward = engine.compile(text.model.forward, self.clock)
        self.rounds, self.replays, self.logits = [], [], None
        start = time.perf_counter()
        self.play()
        first = time.perf_counter() - start
        self.play()  # a dynamic cache compiles once more
        self.compile_s = max(0.0, first - sum(self.play())) if engine.backend else 0.0
        self.rounds.clear(), self.replays.clear()

    def timed_steps(self):
        if self.row.phase == "prefill":
            return [self.step(self.text.start(self.forward), self.text.ids)]
        sequence = self.text.after_prompt(self.forward)
        return [self.step(sequence, self.text.next_ids) for _ in range(DECODE_STEPS)]

    def step(self, sequence, ids):
        start = time.perf_counter()
        logits = sequence.step(ids)
        seconds = time.perf_counter() - start
        self.logits = logits.float()
        return seconds

    @torch.no_grad()
    def play(self):
        """One round: seconds of each step. Its median is what the round counts as."""
        self.clock.take()
        steps = self.timed_steps()
        self.rounds.append(statistics.median(steps))
        replays = self.clock.take()
        self.replays.append(statistics.median(replays) if replays else None)
        return steps


def floors_of_rounds(players, rounds):
    """Plays the rounds; the floor in seconds of each, from probes before and after it."""
    work, dtype = players[0].text.work(), players[0].row.dtype
    floors, probes = [], [machine.probe()]
    for _ in range(rounds):
        for player in players:
            player.play()
        probes.append(machine.probe())
        floors.append(probes[-2].better(probes[-1]).floor_s(work, dtype))
    return floors, probes


def check_logits(players, dtype):
    """A row of figures means nothing if an engine computed something else: eager's choice, or a near-tie."""
    expected = players[0].logits
    for player in players[1:]:
        best = expected.argmax(-1, keepdim=True)
        behind = expected.gather(-1, best) - expected.gather(-1, player.logits.argmax(-1, keepdim=True))
        if float(behind.max()) > smollm2.MARGIN_BOUNDS[dtype]:
            raise SystemExit(f"{player.engine.name} chose another token than eager on {player.row.name}")


def summarise(players, floors):
    eager = statistics.median(players[0].rounds)
    new_tokens = players[0].row.batch * (PROMPT if players[0].row.phase == "prefill" else 1)
    found = []
    for player in players:
        step = statistics.median(player.rounds)
        replays = [seconds for seconds in player.replays if seconds is not None]
        found.append(
            Measured(
                engine=player.engine.name,
                compile_s=player.compile_s,
                step_ms=step * 1e3,
                step_best_ms=min(player.rounds) * 1e3,
                replay_ms=statistics.median(replays) * 1e3 if replays else None,
                ratio=eager / step,
                share=statistics.median(floor / seconds for floor, seconds in zip(floors, player.rounds, strict=True)),
                tokens_s=new_tokens / step,
            )
        )
    return better_inductor(found)


def better_inductor(found):
    inductors = [one for one in found if one.engine.startswith("inductor")]
    worse = {id(one) for one in sorted(inductors, key=lambda one: one.step_ms)[1:]}
    return [one for one in found if id(one) not in worse]


def measure(row, model, chosen, options):
    torch._dynamo.reset()
    text = Text(model, row, options.cache)
    players = [Player(engine, text) for engine in chosen]
    floors, probes = floors_of_rounds(players, options.rounds)
    check_logits(players, row.dtype)
    work = text.work()
    return {
        "row": row.name,
        "floor_ms": statistics.median(floors) * 1e3,
        "bytes": work.bytes_read,
        "operations": work.operations,
        "read_gb_s": [round(one.read_bytes_s / 1e9, 2) for one in probes],
        "peak_gflop_s": [round(one.flops_s.get(row.dtype, 0.0) / 1e9, 1) for one in probes],
        "probe": probes[0].source,
        "engines": [asdict(one) for one in summarise(players, floors)],
    }


def table(rows):
    made = Table(title="steps, medians of the rounds", title_justify="left")
    for name in ("row", "engine"):
        made.add_column(name)
    for name in ("step ms", "best", "replay ms", "tok/s", "x eager", "of floor", "compile s"):
        made.add_column(name, justify="right")
    for row in rows:
        ceilings = f"{max(row['read_gb_s'])} GB/s, {max(row['peak_gflop_s'])} GFLOP/s"
        head = f"{row['row']}\nfloor {row['floor_ms']:.1f} ms\n{ceilings}"
        for index, one in enumerate(row["engines"]):
            replay = "-" if one["replay_ms"] is None else f"{one['replay_ms']:.1f}"
            figures = (f"{one['step_ms']:.1f}", f"{one['step_best_ms']:.1f}", replay, f"{one['tokens_s']:.0f}")
            ratios = (f"{one['ratio']:.2f}", f"{one['share']:.0%}", f"{one['compile_s']:.1f}")
            made.add_row(head if index == 0 else "", one["engine"], *figures, *ratios)
        made.add_section()
    return made


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench ladder", description=__doc__.split("\n\n")[0])
    parser.add_argument("--dtype", action="append", choices=("float32", "bfloat16"), help="one dtype; may be repeated")
    parser.add_argument("--phase", action="append", choices=("prefill", "decode"), help="one phase; may be repeated")
    parser.add_argument("--batch", action="append", type=int, help="batch sizes of decode (1 and 8)")
    parser.add_argument("--engine", action="append", choices=("inductor", "graphex"), help="beside eager (all)")
    parser.add_argument("--cache", choices=generate.CACHES, default="static")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="worker threads (all usable cores)")
    parser.add_argument("--without-graphex", action="store_true", help="leave graphex out where it is not installed")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, all else on stderr")
    parser.add_argument("--save", metavar="FILE", help="write the JSON there too")
    return parser.parse_args()


def rows_of(options):
    phases = options.phase or ["prefill", "decode"]
    for dtype in options.dtype or ["float32", "bfloat16"]:
        for phase in phases:
            for batch in [1] if phase == "prefill" else options.batch or [1, 8]:
                yield Row(dtype, phase, batch)


def main():
    options = arguments()
    console = screen.console(options.json)
    asked = options.engine or ["inductor", "graphex"]
    everyone = (engines.EAGER, engines.INDUCTOR, engines.FREEZING, engines.GRAPHEX)
    wanted = [one for one in everyone if one.backend is None or one.backend in asked]
    chosen = engines.choose(wanted, options.without_graphex)
    threads = machine.fix_threads(options.threads)
    console.print(machine.describe(threads), style="dim", highlight=False)
    rows, chat = [], None
    for row in rows_of(options):
        if chat is None or chat.dtype != smollm2.DTYPES[row.dtype]:
            chat = smollm2.load(row.dtype, say=console.print)
        with console.status(f"{row.name} ..."):
            rows.append(measure(row, chat.model, chosen, options))
        shown = ", ".join(f"{one['engine']} {one['step_ms']:.1f} ms" for one in rows[-1]["engines"])
        console.print(f"{row.name}: {shown}", style="dim", highlight=False)
    console.print(table(rows))
    report(options, console, {"machine": machine.describe(threads), "clock": "step", "rows": rows})
    return fault(console, rows)


def report(options, console, facts):
    if facts["rows"] and facts["rows"][0]["probe"] != "graphex":
        console.print("ceilings by a stand-in made of torch operators: shares are too high", style="yellow")
    if options.save:
        with open(options.save, "w") as file:
            json.dump(facts, file, indent=1)
    if options.json:
        json.dump(facts, sys.stdout, indent=1)
        print()


def fault(console, rows):
    over = [(row["row"], one["engine"]) for row in rows for one in row["engines"] if one["share"] > MOST_SHARE]
    for row, engine in over:
        console.print(f"[red]{engine} on {row} is faster than its floor: the probe or the count of work is wrong")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
