"""The demo: a language model writes the same text three times, by eager PyTorch, by inductor and by graphex.

Each engine is handed to the same loop (support/generate.py). Its first, compiling run is timed apart; then it writes.
At the end a table says what each cost, and whether it chose eager's tokens. Exit status 1 if it did not, unless the
two best logits of eager lay within the stated bound of each other.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field

import torch
from rich.table import Table
from support import engines, generate, machine, screen, smollm2

WARM_TOKENS = 4  # with a dynamic cache the third decode step is the first that compiles nothing


@dataclass
class Result:
    engine: str
    compile_s: float
    backend_s: float | None  # of compile_s, inside the backend; the rest is Dynamo and AOTAutograd
    prefill_tokens_s: float
    decode_ms: float
    decode_best_ms: float
    decode_tokens_s: float
    peak_extra_mb: float
    verdict: str
    good: bool
    speed_up: float
    text: str
    tokens: list = field(repr=False, default_factory=list)


def arguments():
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--prompt", default=smollm2.PROMPTS[0], help="what the model is asked")
    parser.add_argument("--tokens", type=int, default=64, help="at most this many are written (64)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--cache", choices=generate.CACHES, default="static", help="the kind of KV cache (static)")
    parser.add_argument("--threads", type=int, default=0, help="worker threads (all usable cores)")
    parser.add_argument("--without-graphex", action="store_true", help="run what does not need this project's backend")
    parser.add_argument("--json", action="store_true", help="the table as JSON on stdout, all else on stderr")
    options = parser.parse_args()
    if options.tokens < 2:
        parser.error("--tokens must be at least 2: one from the prefill, one from a decode step")
    return options


class Writer:
    """Prints a text as its tokens arrive. Half a character (some take several tokens) waits for its other half."""

    def __init__(self, console, chat):
        self.console, self.chat = console, chat
        self.tokens, self.shown = [], 0

    def __call__(self, token):
        self.tokens.append(token)
        text = self.chat.text(self.tokens)
        if not text.endswith("\ufffd"):
            self.console.print(text[self.shown :], end="", markup=False, highlight=False, soft_wrap=True)
            self.shown = len(text)


class Demo:
    def __init__(self, options, console):
        self.options, self.console = options, console
        self.chat = smollm2.load(options.dtype, say=console.print)
        self.ids = self.chat.ids(options.prompt)
        for weight in self.chat.model.parameters():
            weight.sum()  # they are mapped from a file: resident from here on, so that no engine is charged for them
        self.capacity = generate.capacity_for(self.ids.shape[1] + options.tokens)

    def run(self, forward, count, **more):
        return generate.generate(
            forward,
            self.chat.model,
            self.ids,
            count,
            self.options.cache,
            self.capacity,
            end=self.chat.end_tokens,
            **more,
        )

    def warm(self, forward):
        """Seconds that the first run took longer than the second, and the prefill times of the runs after it."""
        with self.console.status("first run, compiling ..."):  # animated on a terminal only
            start = time.perf_counter()
            self.run(forward, WARM_TOKENS)
            first = time.perf_counter() - start
            start = time.perf_counter()
            again = self.run(forward, WARM_TOKENS)
            second = time.perf_counter() - start
        return max(0.0, first - second), [again.prefill_s]

    def write(self, engine, reference):
        """One engine's whole turn; `reference` is eager's generation, None when this is eager."""
        self.console.rule(f"[bold]{engine.name}", align="left")
        torch._dynamo.reset()
        with machine.PeakMemory() as memory:
            forward = engine.compile(self.chat.model.forward)
            compile_s, prefills = self.warm(forward)
            backend_s = engines.backend_seconds(engine, forward)
            if engine.backend:
                inside = "" if backend_s is None else f", {backend_s:.2f} s of it in the backend"
                self.console.print(f"compiled in {compile_s:.1f} s{inside}", style="dim", highlight=False)
            made = self.run(forward, self.options.tokens, on_token=Writer(self.console, self.chat))
        self.console.print()
        verdict, good = ("(reference)", True) if reference is None else self.judge(forward, reference, made)
        return made, self.result(
            engine, (compile_s, backend_s), [*prefills, made.prefill_s], made, memory.extra, verdict, good
        )

    def judge(self, forward, reference, made):
        """Whether the tokens are eager's. After a first, excusable difference the rest is compared on eager's text."""
        bound = smollm2.MARGIN_BOUNDS[self.options.dtype]
        found = generate.differences(reference, made)
        if not found and len(made.tokens) == len(reference.tokens):
            return "yes", True
        if found and found[0].margin <= bound:
            followed = self.run(forward, len(reference.tokens), forced=reference.tokens)
            found = generate.differences(reference, followed)
        wrong = [one for one in found if one.margin > bound]
        if wrong or not found:
            at = wrong[0] if wrong else None
            return (f"NO, from {at.position} on (margin {at.margin:.3g})" if at else "NO, other length"), False
        return f"{len(found)} near-ties (margin <= {bound:g})", True

    def result(self, engine, compiling, prefills, made, extra, verdict, good):
        compile_s, backend_s = compiling
        decode = statistics.median(made.step_s)
        return Result(
            engine=engine.name,
            compile_s=compile_s,
            backend_s=backend_s,
            prefill_tokens_s=made.prompt_tokens / statistics.median(prefills),
            decode_ms=decode * 1e3,
            decode_best_ms=min(made.step_s) * 1e3,
            decode_tokens_s=1 / decode,
            peak_extra_mb=extra / 1e6,
            verdict=verdict,
            good=good,
            speed_up=0.0,
            text=self.chat.text(made.tokens),
            tokens=made.tokens,
        )


def table(results):
    made = Table(title="what each cost", title_justify="left")
    made.add_column("engine", style="bold")
    for name in (
        "compile s",
        "in backend",
        "prefill tok/s",
        "decode ms/token",
        "best",
        "tok/s",
        "peak extra MB",
        "x eager",
    ):
        made.add_column(name, justify="right")
    made.add_column("eager's tokens?")
    for one in results:
        made.add_row(
            one.engine,
            f"{one.compile_s:.1f}" if one.engine != "eager" else "-",
            f"{one.backend_s:.2f}" if one.backend_s is not None else "-",
            f"{one.prefill_tokens_s:.0f}",
            f"{one.decode_ms:.1f}",
            f"{one.decode_best_ms:.1f}",
            f"{one.decode_tokens_s:.1f}",
            f"{one.peak_extra_mb:.0f}",
            f"{one.speed_up:.2f}",
            one.verdict if one.good else f"[red]{one.verdict}",
        )
    return made


def announce(console, options, names, threads):
    console.print(f"[bold]SmolLM2-135M-Instruct, {options.dtype}, {options.cache} cache, greedy[/], by {names}.")
    console.print("Each engine first compiles in a run of its own, then writes; the same tokens are expected.")
    console.print(machine.describe(threads), style="dim", highlight=False)
    console.print(f"prompt: {options.prompt}\n", markup=False, highlight=False)


def main():
    options = arguments()
    console = screen.console(options.json)
    chosen = engines.choose((engines.EAGER, engines.INDUCTOR, engines.GRAPHEX), options.without_graphex)
    threads = machine.fix_threads(options.threads)
    announce(console, options, ", ".join(one.name for one in chosen), threads)
    demo = Demo(options, console)
    reference, results = None, []
    for engine in chosen:
        made, result = demo.write(engine, reference)
        reference = reference or made
        result.speed_up = results[0].decode_ms / result.decode_ms if results else 1.0
        results.append(result)
    console.print()
    console.print(table(results))
    if options.json:
        facts = {
            "machine": machine.describe(threads),
            "options": vars(options),
            "prompt_tokens": reference.prompt_tokens,
        }
        json.dump({**facts, "results": [asdict(one) for one in results]}, sys.stdout, indent=1)
        print()
    return 0 if all(one.good for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
