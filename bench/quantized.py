"""Decode of the demo's model over quantised weights: ./dev bench quantized [--rounds N] [--schemes w8a8 w4a8 ..].

Each scheme is one model, compiled and warm; models take turns, one step each, and the read bandwidth is probed once a
round. "gguf" is the file that the model came from, its blocks as they are. The floor of a step is the time to read the
weights that it uses once: linear layers and one row of the embedding. Replay clock; best and median over the rounds.
The last column is the mean KL divergence of the next-token distribution from the unquantised model's, in nats, over the
same text.
"""

import argparse
import json
import statistics
import time

import torch
from graphex.blocks import BlockLinear
from graphex.quantization import QuantizedLinear
from rich.table import Table
from support import engines, generate, machine, screen, smollm2

import graphex

PROMPT = "The read bandwidth of a machine bounds how fast a language model can write, because every weight is read once"


def bytes_of_linears(model):
    kinds = (torch.nn.Linear, QuantizedLinear, BlockLinear)
    tensors = [t for m in model.modules() if isinstance(m, kinds) for t in (*m.parameters(), *m.buffers())]
    return sum(t.numel() * t.element_size() for t in tensors)


class Subject:
    """One scheme's model, compiled, in the middle of a sequence."""

    def __init__(self, scheme, context):
        chat = smollm2.load("float32")
        self.scheme, self.model = scheme, chat.model
        if scheme == "gguf":
            graphex.load_gguf_linears(self.model, smollm2.gguf_file())
        elif scheme != "float32":
            graphex.quantize(self.model, scheme)
        self.bytes = bytes_of_linears(self.model)
        self.clock = engines.ReplayClock()
        self.ids = chat.ids(PROMPT)
        self.logits = self.model(self.ids).logits[0].log_softmax(-1)
        self.sequence = generate.Sequence(self.model.forward, self.model, "static", context)
        self.sequence.step(self.ids)
        self.sequence.forward = engines.GRAPHEX.compile(self.model.forward, self.clock)
        self.token = self.ids[:, -1:]
        for _ in range(3):
            self.sequence.step(self.token)
        self.clock.take()
        self.times = []

    def step(self):
        self.sequence.step(self.token)
        self.times += self.clock.take()


def measure(schemes, rounds):
    with torch.no_grad():
        subjects = [Subject(scheme, 64 + rounds) for scheme in schemes]
        reads = []
        for _ in range(rounds):
            reads.append(machine.probe().read_bytes_s)
            for subject in subjects:
                subject.step()
    exact = subjects[0].logits
    for subject in subjects:
        floor = subject.bytes / statistics.median(reads)
        yield {
            "scheme": subject.scheme,
            "megabytes": subject.bytes / 1e6,
            "best_ms": min(subject.times) * 1e3,
            "median_ms": statistics.median(subject.times) * 1e3,
            "floor_ms": floor * 1e3,
            "share_of_floor": floor / statistics.median(subject.times),
            "kl": (exact.exp() * (exact - subject.logits)).sum(-1).mean().item(),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--schemes", nargs="+", default=["w8a8", "w8a16", "w4a8", "w4a16", "gguf"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    machine.fix_threads(0)
    rows = list(measure(["float32", *options.schemes], options.rounds))
    if options.json:
        print(json.dumps({"date": time.strftime("%Y-%m-%d"), "rows": rows}, indent=2))
        return
    table = Table("weights", "MB", "best ms", "median ms", "floor ms", "share of floor", "KL")
    for row in rows:
        numbers = [f"{row['megabytes']:.0f}", *(f"{row[k]:.2f}" for k in ("best_ms", "median_ms", "floor_ms"))]
        table.add_row(row["scheme"], *numbers, f"{row['share_of_floor']:.0%}", f"{row['kl']:.4f}")
    screen.console(False).print(table)


if __name__ == "__main__":
    main()
