"""What the demo's model must show: eager's tokens, logits as near to the truth as eager's, and nothing left to islands.

The fast cases run always, the whole of it with ./dev test --slow. Where two runs in one dtype choose differently,
eager's two best logits must lie within smollm2.MARGIN_BOUNDS; the comparison then goes on along eager's text, so
every position counts.
"""

import copy
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from check import BACKEND, compiled
from support import generate, smollm2

pytestmark = [pytest.mark.usefixtures("backend"), pytest.mark.timeout(900)]
ours = pytest.mark.skipif(BACKEND != "graphex", reason="asks for what graphex promises beyond torch.compile's contract")
CAPACITY = 256
# A dynamic cache compiles three graphs where a static one compiles two, each in Dynamo's time: not for every push.
CACHES = [pytest.param(kind, marks=pytest.mark.slow if kind == "dynamic" else ()) for kind in generate.CACHES]
SPARE_BYTES = 150_000_000


@functools.cache
def chat(dtype="float32"):
    return smollm2.load(dtype)


@functools.cache
def eager_run(dtype, prompt, count, cache):
    of = chat(dtype)
    return generate.generate(of.model.forward, of.model, of.ids(prompt), count, cache, CAPACITY, keep=True)


def follow(forward, model, dtype, prompt, reference, cache):
    """The steps of `reference` again, fed its tokens."""
    ids, count = chat(dtype).ids(prompt), len(reference.tokens)
    return generate.generate(forward, model, ids, count, cache, CAPACITY, forced=reference.tokens, keep=True)


def assert_same_choices(dtype, prompts, count, cache, **options):
    forward = compiled(chat(dtype).model.forward, **options)
    for prompt in prompts:
        reference = eager_run(dtype, prompt, count, cache)
        run = follow(forward, chat(dtype).model, dtype, prompt, reference, cache)
        found = generate.differences(reference, run)
        wrong = [one for one in found if one.margin > smollm2.MARGIN_BOUNDS[dtype]]
        assert not wrong, f"{prompt!r}: {wrong}"


@pytest.mark.parametrize("cache", CACHES)
def test_tokens_are_eagers_in_short(cache):
    assert_same_choices("float32", smollm2.PROMPTS[:2], 16, cache)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cache", generate.CACHES)
def test_tokens_are_eagers(cache):
    assert_same_choices("float32", smollm2.PROMPTS, 128, cache)


# ---- distance to the truth


@functools.cache
def truth(dtype, prompt, count):
    """The same weights in fp64, on the tokens that eager chose in `dtype`."""
    model = copy.deepcopy(chat(dtype).model).double()
    return follow(model.forward, model, dtype, prompt, eager_run(dtype, prompt, count, "static"), "static")


def distances(run, reference):
    got, want = torch.stack(run.logits).double(), torch.stack(reference.logits).double()
    return (got - want).abs()


def assert_no_worse_than_eager(dtype, prompts, count, maximum):
    """Not farther from the truth by more than chance; a position, whose logits share one hidden state, is one draw."""
    forward = compiled(chat(dtype).model.forward)
    eagers, others = [], []
    for prompt in prompts:
        reference = eager_run(dtype, prompt, count, "static")
        run = follow(forward, chat(dtype).model, dtype, prompt, reference, "static")
        eagers.append(distances(reference, truth(dtype, prompt, count)))
        others.append(distances(run, truth(dtype, prompt, count)))
    eager, other = torch.cat(eagers), torch.cat(others)
    excess = other.mean(1) - eager.mean(1)
    chance = 3 * excess.std() / len(excess) ** 0.5
    print(
        f"{dtype}: mean {other.mean():.4g} (eager {eager.mean():.4g}, chance {chance:.4g}), "
        f"max {other.max():.4g} (eager {eager.max():.4g})"
    )
    assert excess.mean() <= chance
    if maximum:
        assert other.max() <= 1.25 * eager.max()


def test_bf16_logits_in_short():
    """The mean alone: over a few dozen positions the two maxima are single draws from the same tail."""
    assert_no_worse_than_eager("bfloat16", smollm2.PROMPTS[:3], 12, maximum=False)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_bf16_logits():
    assert_no_worse_than_eager("bfloat16", smollm2.PROMPTS[::4], 64, maximum=True)


# ---- nothing left over, weights, memory


@pytest.mark.slow
@pytest.mark.timeout(1800)
@ours
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nothing_is_left_to_islands(dtype, cache):
    forward = compiled(chat(dtype).model.forward, options={"fallback": "error"})
    reference = eager_run(dtype, smollm2.PROMPTS[0], 5, cache)
    follow(forward, chat(dtype).model, dtype, smollm2.PROMPTS[0], reference, cache)

    import graphex

    facts = graphex.explain(forward)
    assert facts["graphs"] and facts["native"] > 0
    assert facts["islands"] == 0 and facts["eager_graphs"] == 0


def logits_with_swapped_weights(model, forward, swap):
    """Logits before, with another matrix in one layer, and with the old one again."""
    ids, weight = chat().ids(smollm2.PROMPTS[1]), model.model.layers[7].mlp.down_proj.weight
    original = weight.detach().clone()

    def logits():
        return torch.stack(generate.generate(forward, model, ids, 3, "static", CAPACITY, keep=True).logits)

    found = [logits()]
    swap(weight, original.flip(0))
    found.append(logits())
    swap(weight, original)
    found.append(logits())
    return found


def swap_by_copy(weight, value):
    with torch.no_grad():
        weight.copy_(value)


def swap_by_data(weight, value):
    weight.data = value.clone()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("swap", [swap_by_copy, swap_by_data])
def test_swapped_weights_are_seen_without_a_new_capture(swap):
    model = copy.deepcopy(chat().model)
    forward = compiled(model.forward)
    expected = logits_with_swapped_weights(model, model.forward, swap)
    generate.generate(forward, model, chat().ids(smollm2.PROMPTS[1]), 3, "static", CAPACITY)
    with torch._dynamo.config.patch(error_on_recompile=True):
        found = logits_with_swapped_weights(model, forward, swap)
    assert not torch.allclose(expected[0], expected[1], rtol=0.1, atol=0.1)
    for want, got in zip(expected, found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)


MEMORY_PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
from support import engines, generate, machine, smollm2
machine.fix_threads()
chat = smollm2.load("float32")
engine = engines.Engine(sys.argv[2], None if sys.argv[2] == "eager" else sys.argv[2])
forward = engine.compile(chat.model.forward)
for _ in range(2):
    generate.generate(forward, chat.model, chat.ids(smollm2.PROMPTS[0]), 12, "static", 256)
arena = 0
if sys.argv[2] == "graphex":
    import graphex
    arena = sum(graph["program"]["arena_bytes"] for graph in graphex.explain(forward)["graphs"])
print(json.dumps({"resident": machine.resident_bytes(), "arena": arena}))
"""


def memory_of(engine):
    bench = Path(smollm2.__file__).parents[1]
    command = [sys.executable, "-c", MEMORY_PROGRAM, str(bench), engine]
    # Not from the repository's root: there the C++ folder graphex/ would hide the package.
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=bench)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@ours
def test_resident_memory():
    """No second copy of the weights: they alone are 538 MB."""
    eager, other = memory_of("eager"), memory_of(BACKEND)
    assert other["resident"] <= eager["resident"] + other["arena"] + SPARE_BYTES
