"""Decoder layers of the true shapes of well-known models, with seeded weights: a decode step after a prompt.

Few layers say what all of them cost, for each reads its own weights from memory. The vocabulary is cut to 1024, so that
the head weighs little. Clock: step, and replay beside it. Keys and values of the prompt are random: nothing is computed
for them.

    ./dev bench layers                                       openPangu-Embedded-7B in bf16, batch 1
    ./dev bench layers --model all --batch 1 --batch 4 --batch 16 --long
"""

import sys

import torch
from support import contest, engines, generate, language, results, steps

VOCABULARY = 1024
# Hidden, intermediate, heads, heads of keys and values, size of a head; openPangu's is a Llama with biases.
SHAPES = {
    "openpangu-7b": ("llama", {"hidden_size": 4096, "intermediate_size": 12800, "num_attention_heads": 32,
                               "num_key_value_heads": 8, "head_dim": 128, "attention_bias": True}),
    "qwen3-8b": ("qwen3", {"hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32,
                           "num_key_value_heads": 8, "head_dim": 128}),
    "llama3-8b": ("llama", {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
                            "num_key_value_heads": 8, "head_dim": 128, "rope_theta": 500000.0}),
}  # fmt: skip
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def arguments():
    parser = results.parser("layers", __doc__)
    parser.add_argument("--model", action="append", choices=(*SHAPES, "all"), help="whose shapes (openpangu-7b)")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--batch", action="append", type=int, help="sequences; may be repeated (1)")
    parser.add_argument("--layers", type=int, default=2, help="how many layers (2)")
    parser.add_argument("--long", action="store_true", help="a context of 8192 tokens too, besides 1024")
    return parser.parse_args()


def seeded_model(name, layers, dtype):
    from transformers import AutoConfig, AutoModelForCausalLM

    kind, sizes = SHAPES[name]
    config = AutoConfig.for_model(kind, **sizes, num_hidden_layers=layers, vocab_size=VOCABULARY,
                                  tie_word_embeddings=False, max_position_embeddings=16384)  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


class FilledText(steps.Text):
    """The cache after a prompt that was never computed: seeded keys and values."""

    def after_prompt(self, forward):
        if self.prompted is None:
            self.prompted = self.start(self.model.forward)
            self.prompted.step(self.ids[:, :1])  # makes the cache's tensors
            self.fill()
        return super().after_prompt(forward)

    def fill(self):
        cache = self.prompted.fixed[generate.cache_keyword(self.model)]
        for layer in cache.layers:
            for tensor in (layer.keys, layer.values):
                tensor[:, :, : self.kind.context].uniform_(-1, 1)
            layer.cumulative_length.add_(self.kind.context - 1)


@torch.no_grad()
def row_of(session, name, model, kind):
    title, peak = f"{name} {session.options.dtype} {kind.name}", language.FLOATS[session.options.dtype]
    row = contest.Row(title, kind.work(model), peak, clock="step")
    text = FilledText(model, kind, "static")
    expected = steps.eager_logits(text)
    bound = 0.05 * expected.abs().max().item()
    contest.enter(row, "eager", steps.player(engines.EAGER, text, None, 0))
    for engine in (engines.INDUCTOR, engines.GRAPHEX):
        if session.wants(engine.name):
            contest.enter(row, engine.name, steps.player(engine, text, expected, bound))
    return row


def main():
    options = arguments()
    session = results.Session("layers", options)
    names = options.model or ["openpangu-7b"]
    for name in SHAPES if "all" in names else names:
        model = seeded_model(name, options.layers, DTYPES[options.dtype])
        for context in (1024, 8192) if options.long else (1024,):
            for batch in options.batch or [1]:
                row = row_of(session, name, model, steps.Kind("decode", batch, context))
                session.heat([row])
                language.close(row)
    return session.finish()


if __name__ == "__main__":
    sys.exit(main())
