"""What eager operators between replays cost, on a team of our own threads and on torch's OpenMP team.

A replay here is 300 launches that read weights from memory, with a barrier after each. After each replay the process
does what a decode loop does: nothing; an eager argmax over 49 152 logits, for one sequence (torch runs that on the
calling thread) or for eight (torch's OpenMP threads wake and then spin for milliseconds); an eager add (they wake too);
an add and 2 ms of Python. Cases are interleaved; the median replay and the CPU used while idle are shown.
"""

import argparse
import ctypes
import json
import pathlib
import resource
import statistics
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAUNCHES = 300


def load():
    library = ctypes.CDLL(str(ROOT / "build" / "release" / "bench" / "libteam_c.so"))
    library.gx_bench_team.restype = ctypes.c_void_p
    library.gx_bench_team.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    library.gx_bench_replay.restype = ctypes.c_double
    pointer, number, integer = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    library.gx_bench_replay.argtypes = [pointer, integer, pointer, number, number, integer, pointer]
    return library


def spin_in_python(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Bench:
    def __init__(self, options):
        self.options = options
        self.library = load()
        self.workers = torch.get_num_threads()
        self.weights = torch.ones(256 << 20 >> 2)  # 8 x the L3 of the machine that the design was measured on
        self.logits = torch.randn(8, 49152)
        self.sink = ctypes.c_double()
        self.at = 0
        self.logits.add(1.0)  # torch's OpenMP library starts its threads
        self.teams = {kind: self.library.gx_bench_team(kind.encode(), self.workers, 1000) for kind in ("own", "openmp")}

    def replay(self, kind):
        floats = int(self.options.megabytes * 1e6) // 4 // LAUNCHES
        stride = 0 if self.options.resident else floats
        if self.at + stride * LAUNCHES > self.weights.numel():
            self.at = 0
        data = self.weights.data_ptr() + 4 * self.at
        self.at += stride * LAUNCHES
        team, sink = self.teams[kind], ctypes.byref(self.sink)
        return self.library.gx_bench_replay(team, self.workers, data, floats, stride, LAUNCHES, sink)

    def between(self, what):
        start = time.perf_counter()
        if what.startswith("argmax"):
            torch.argmax(self.logits[: int(what[6:])], dim=-1)
        elif what.startswith("add"):
            self.logits[0].add(1.0)
        if what.endswith("python"):
            spin_in_python(0.002)
        return (time.perf_counter() - start) * 1e6

    def case(self, kind, what):
        replays, eager = [], []
        for step in range(self.options.steps + 2):
            microseconds = self.replay(kind)
            if step >= 2:
                replays.append(microseconds)
            eager.append(self.between(what))
        time.sleep(0.02)
        return replays, eager

    def idle_share(self, kind):
        """CPU seconds per second in the 100 ms that start 10 ms after a replay."""
        self.replay(kind)
        time.sleep(0.01)
        before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        time.sleep(0.1)
        after = resource.getrusage(resource.RUSAGE_SELF)
        used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return used / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=160, help="bytes that one replay reads")
    parser.add_argument("--resident", action="store_true", help="each launch reads the same bytes, from the cache")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    bench = Bench(options)
    whats = ("nothing", "argmax1", "argmax8", "add", "add+python")
    samples = {(kind, what): ([], []) for kind in bench.teams for what in whats}
    for _ in range(options.rounds):
        for key, (replays, eager) in samples.items():
            new_replays, new_eager = bench.case(*key)
            replays += new_replays
            eager += new_eager
    rows = []
    for (kind, what), (replays, eager) in samples.items():
        base = statistics.median(samples[kind, "nothing"][0])
        middle = statistics.median(replays)
        best = sorted(replays)[len(replays) // 10]
        row = {
            "team": kind,
            "between": what,
            "replay_us": middle,
            "p10_us": best,
            "slower_percent": 100 * (middle / base - 1),
        }
        rows.append(row | {"between_us": statistics.median(eager)})
    idle = {kind: statistics.median(bench.idle_share(kind) for _ in range(7)) for kind in bench.teams}
    if options.json:
        print(json.dumps({"workers": bench.workers, "rows": rows, "idle_cpu_share": idle}, indent=1))
        return
    print(f"{bench.workers} workers, {options.megabytes:g} MB and {LAUNCHES} launches a replay")
    for row in rows:
        print(
            f"{row['team']:>7} {row['between']:>14}  replay p50 {row['replay_us']:8.0f} us  p10 {row['p10_us']:8.0f} us"
            f"  {row['slower_percent']:+6.1f} %  between {row['between_us']:7.0f} us"
        )
    print("CPU share from 10 ms after a replay on: " + ", ".join(f"{k} {v:.3f}" for k, v in idle.items()))


if __name__ == "__main__":
    main()
