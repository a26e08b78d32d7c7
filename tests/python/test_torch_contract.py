"""What torch.compile's users may hand over and expect back, whatever the backend: see check.py for what is compared."""

import pytest
import torch
from check import BACKEND, NATIVE_SOURCE, check, clone_arguments, compiled
from torch import nn

pytestmark = pytest.mark.usefixtures("backend")
ours = pytest.mark.skipif(BACKEND != "graphex", reason="asks for what graphex promises beyond torch.compile's contract")
native = pytest.mark.skipif(not NATIVE_SOURCE.exists(), reason="the native module is not written yet")


def randn(*shape):
    return lambda: (torch.randn(*shape),)


# ---- arguments and results


def same_tensor_twice():
    x = torch.randn(4, 5)
    return (x, x)


def overlapping_views():
    base = torch.randn(8, 5)
    return (base[:6], base[2:])


def disjoint_views():
    base = torch.randn(8, 5)
    return (base[:4], base[4:])


def strided():
    return (torch.randn(6, 8)[::2, 1::3], torch.randn(3, 3).t())


def expanded():
    return (torch.randn(1, 5).expand(4, 5), torch.randn(4, 1).expand(4, 5))


def write_first(x, y):
    x.mul_(2)
    return x + 1, y + 1


SIGNATURES = {
    "none and an int out": (lambda x: (None, x + 1, 7, x.shape[0]), [randn(4, 5)]),
    "nothing out": (lambda x: None, [randn(4, 5)]),
    "a list, a dict, a nested tuple out": (lambda x: [x + 1, {"a": x * 2, "b": (x.sum(), None)}], [randn(4, 5)]),
    "an optional argument": (lambda x, y: x + 1 if y is None else x + y, [lambda: (torch.randn(3), None)]),
    "a float argument": (lambda x, s: x * s, [lambda: (torch.randn(3), 0.5), lambda: (torch.randn(3), 0.25)]),
    "an int argument": (lambda x, n: x[:n] + n, [lambda: (torch.randn(9), 3), lambda: (torch.randn(9), 4)]),
    "a list of tensors in": (lambda xs: xs[0] + xs[1], [lambda: ([torch.randn(3), torch.randn(3)],)]),
    "the same tensor twice": (lambda x, y: x + y, [same_tensor_twice]),
    "the same tensor twice, written": (write_first, [same_tensor_twice]),
    "overlapping views": (lambda x, y: x + y, [overlapping_views]),
    "overlapping views, written": (write_first, [overlapping_views]),
    "disjoint views, written": (write_first, [lambda: tuple(v[:4] for v in disjoint_views())]),
    "strided arguments": (lambda x, y: x + y, [strided]),
    "expanded arguments": (lambda x, y: x + y, [expanded]),
    "an input as it is": (lambda x: x, [randn(4, 5)]),
    "an input as it is, and a result": (lambda x: (x + 1, x), [randn(4, 5)]),
    "a written input as it is": (lambda x: (x.add_(1), x), [randn(4, 5)]),
    "a view of an input": (lambda x: x.view(-1)[3:], [randn(4, 5)]),
    "a view of a written input": (lambda x: x.add_(1)[1:], [randn(4, 5)]),
    "a result and its views": (lambda x: (lambda y: (y, y[1:], y.t(), y.view(-1)))(x + 1), [randn(4, 5)]),
    "two views without their base": (lambda x: (lambda y: (y[1:], y[:2]))(x * 2), [randn(4, 5)]),
    "the same result twice": (lambda x: (lambda y: (y, y))(x * 2), [randn(4, 5)]),
    "a detached alias": (lambda x: (lambda y: (y, y.detach()))(x * 2), [randn(4, 5)]),
    "aliases of the same layout": (lambda x: (lambda y: (y.view(4, 5), y, y.detach(), y))(x * 2), [randn(4, 5)]),
    "detached aliases of a view": (lambda x: (lambda y: (y, y.detach()))((x * 2)[1:]), [randn(4, 5)]),
    "equal results": (lambda x: (x * 2, x * 2, x * 1, x + 0, x.clone()), [randn(4, 5)]),
    "results in other strides": (lambda x: (x.t() + 1, (x + 1).t(), x.unsqueeze(0) * 2), [randn(4, 5)]),
    "other dtypes": (lambda x: (x > 0, x.int(), x.double(), x.bfloat16()), [randn(4, 5)]),
    "a constant": (lambda x: (x + 1, torch.arange(5), torch.tensor([1.0, 2.0])), [randn(5)]),
    "resize of nothing": (lambda x: x.reshape(x.shape) + x.flatten().view(x.shape), [randn(4, 5)]),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_and_results(name):
    function, makes = SIGNATURES[name]
    check(function, *makes)


ALIASES = {
    "a result twice, through a view": lambda x: (lambda y: (y, y[1:]))(x * 2),
    "two overlapping views": lambda x: (lambda y: (y[:3], y[1:]))(x * 2),
    "an input and its view": lambda x: (x, x[1:]),
    "a result and its transpose": lambda x: (lambda y: (y, y.t()))(x * 2),
}


@pytest.mark.parametrize("name", ALIASES)
def test_aliases_are_one_storage_for_a_second_compiled_function(name):
    """Two storages over one memory would make the second graph's write invisible to its read, or the reverse."""
    make = ALIASES[name]

    def write_one_read_other(a, b):
        before = b.sum(0)
        a.mul_(3)
        return before, b + 1

    first, second = compiled(make), compiled(write_one_read_other)
    for call in range(3):
        x = torch.randn(4, 4) + call
        (twin,) = clone_arguments((x,))
        want, got = write_one_read_other(*make(x)), second(*first(twin))
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(twin, x)


def test_results_can_be_resized_and_are_writable():
    candidate = compiled(lambda x: x + 1)
    for _ in range(3):
        y = candidate(torch.zeros(4, 5))
        y.add_(1)
        y.resize_(20, 30).fill_(2)
        assert y.shape == (20, 30) and float(y.sum()) == 1200
        assert torch.equal(candidate(torch.zeros(4, 5)), torch.ones(4, 5))


def test_inference_mode_and_no_grad():
    for mode in (torch.no_grad, torch.inference_mode):
        torch._dynamo.reset()
        candidate = compiled(lambda x: (x * 2, x[1:]))
        with mode():
            for _ in range(3):
                x = torch.randn(4, 5)
                want, got = (x * 2, x[1:]), candidate(x)
                torch.testing.assert_close(got, want)
                assert [one.is_inference() for one in got] == [one.is_inference() for one in want]
                assert got[1].untyped_storage()._cdata == x.untyped_storage()._cdata


# ---- modules, methods, state


class Block(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(dropout)
        self.down = nn.Linear(16, 8, bias=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.steps += 1
        return self.down(self.drop(torch.relu(self.norm(self.up(x))))) + x

    def logits(self, x, scale=1.0):
        return self.up(x) * scale


def test_a_module_in_evaluation():
    with torch.no_grad():
        check(Block().eval(), randn(3, 8), length=16, operations=16)


def test_a_module_method():
    with torch.no_grad():
        check(Block().eval().logits, randn(3, 8), length=8)


def test_module_compile_in_place():
    module = Block().eval()
    twin = Block().eval()
    twin.load_state_dict(module.state_dict())
    module.compile(backend=BACKEND)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(3, 8)
            torch.testing.assert_close(module(x), twin(x))
    assert int(module.steps) == int(twin.steps) == 3


def test_a_function_with_keywords():
    candidate = compiled(lambda x, *, scale=2.0, bias=None: x * scale if bias is None else x * scale + bias)
    x = torch.randn(4)
    for _ in range(2):
        torch.testing.assert_close(candidate(x), x * 2)
        torch.testing.assert_close(candidate(x, scale=3.0, bias=x), x * 3 + x)


def test_train_and_eval_take_turns():
    torch.manual_seed(0)
    module, twin = Block(), Block()
    twin.load_state_dict(module.state_dict())
    candidate = compiled(module)
    for call in range(6):
        training = call % 2 == 0
        module.train(training), twin.train(training)
        x = torch.randn(5, 8)
        with torch.no_grad():
            torch.testing.assert_close(candidate(x), twin(x), rtol=1e-5, atol=1e-5)
        for (name, got), want in zip(module.state_dict().items(), twin.state_dict().values(), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5, msg=name)


def swap_by_copy(weight, value):
    with torch.no_grad():
        weight.copy_(value)


def swap_by_data(weight, value):
    weight.data = value


def swap_by_transposed_data(weight, value):
    weight.data = value.t().contiguous().t()


@pytest.mark.parametrize("swap", [swap_by_copy, swap_by_data, swap_by_transposed_data])
def test_a_swapped_weight_is_seen(swap):
    module = nn.Linear(6, 6, bias=False)
    candidate = compiled(module)
    x = torch.randn(3, 6)
    with torch.no_grad():
        for call in range(4):
            value = torch.randn(6, 6) + call
            swap(module.weight, value)
            torch.testing.assert_close(candidate(x), x @ value.t())


@ours
@pytest.mark.parametrize("swap", [swap_by_copy, swap_by_data])
def test_a_swapped_weight_needs_no_new_capture(swap):
    module = nn.Linear(6, 6, bias=False)
    candidate = compiled(module)
    x = torch.randn(3, 6)
    with torch.no_grad():
        candidate(x)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for call in range(3):
                value = torch.randn(6, 6) + call
                swap(module.weight, value)
                torch.testing.assert_close(candidate(x), x @ value.t())


# ---- graph breaks and dynamic shapes


def breaks_in_the_middle(x):
    y = x * 2
    torch._dynamo.graph_break()
    z = y + 1
    if float(z.sum()) > 0:
        return z.relu(), y
    return z - 1, y


def test_graph_breaks():
    check(breaks_in_the_middle, randn(4, 5), calls=5)


def test_fullgraph_refuses_a_break():
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(breaks_in_the_middle, fullgraph=True)(torch.randn(4, 5))
    check(lambda x: x * 2 + 1, randn(4, 5), fullgraph=True)


def mixed(x, w):
    y = (x @ w).softmax(-1)
    return torch.cat([y, x], dim=1), y.view(-1)[: x.shape[0]], x.shape[0]


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_changing_lengths(dynamic):
    makes = [lambda n=n: (torch.randn(n, 6), torch.randn(6, 4)) for n in (3, 5, 2, 8, 1, 0, 3)]
    check(mixed, *makes, calls=14, dynamic=dynamic, length=6, operations=12)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 31, 64, 1000])
def test_one_dynamic_compile_serves_every_size(size):
    makes = [lambda n=n: (torch.randn(n, 6), torch.randn(6, 4)) for n in (5, 6, max(size, 2))]
    check(mixed, *makes, dynamic=True, length=6, operations=12)


def test_mark_dynamic():
    candidate = compiled(mixed)
    w = torch.randn(6, 4)
    for rows in (4, 9, 17, 33):
        x = torch.randn(rows, 6)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(candidate(x, w), mixed(x, w))


# ---- gradients


def test_a_plain_module_without_no_grad():
    """The commonest first try: nobody said no_grad. Results are eager's, and so are the gradients."""
    module = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    check(module, randn(4, 6), length=8, operations=16, grad=True)


def test_gradients_of_an_input():
    check(lambda x: (x.sin() * x).sum(1), lambda: (torch.randn(4, 5, requires_grad=True),), length=5, grad=True)


def test_gradients_with_a_written_buffer():
    # No bias before the normalisation: its gradient is zero but for rounding, which nothing could be compared with.
    module = nn.Sequential(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8)).train()
    check(module, randn(5, 6), length=8, operations=32, grad=True)


def test_a_training_step():
    torch.manual_seed(1)
    module, twin = nn.Linear(6, 3), nn.Linear(6, 3)
    twin.load_state_dict(module.state_dict())
    candidate = compiled(module)
    steps = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (module, twin)]
    for _ in range(4):
        x = torch.randn(5, 6)
        for one, optimizer in zip((candidate, twin), steps, strict=True):
            optimizer.zero_grad()
            one(x).square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(module.weight, twin.weight)


# ---- options and doors of graphex itself


@ours
def test_an_unknown_option_lists_the_known():
    with pytest.raises(Exception, match="fallback") as caught:
        compiled(lambda x: x + 1, options={"no_such_option": 1})(torch.randn(3))
    assert "no_such_option" in str(caught.value)


@ours
def test_a_bad_value_of_an_option_is_an_error():
    with pytest.raises(Exception, match="fallback"):
        compiled(lambda x: x + 1, options={"fallback": "perhaps"})(torch.randn(3))


@ours
def test_fallback_error_names_the_operator():
    def program(x):
        return torch.linalg.eigvalsh(x @ x.t())

    check(program, randn(4, 4), length=64, operations=64)  # an island by default, and right
    torch._dynamo.reset()
    with pytest.raises(Exception, match="eigh"):
        compiled(program, options={"fallback": "error"})(torch.randn(4, 4))


@ours
@native
def test_the_backend_needs_no_import_by_the_user():
    import subprocess
    import sys

    program = "import torch; f = torch.compile(lambda x: x + 1, backend='graphex'); print(f(torch.ones(2)).tolist())"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[2.0, 2.0]"


@ours
def test_compile_fx_from_a_backend_of_the_users_own():
    import graphex

    seen = []

    def backend(module, example_inputs):
        seen.append(len(list(module.graph.nodes)))
        return graphex.compile_fx(module, example_inputs, {"fallback": "error"})

    candidate = torch.compile(lambda x: (x * 2 + 1).relu(), backend=backend)
    for _ in range(2):
        x = torch.randn(4, 5)
        torch.testing.assert_close(candidate(x), (x * 2 + 1).relu())
    assert len(seen) == 1


@ours
@native
def test_explain_counts():
    import graphex

    candidate = compiled(lambda x: (x * 2 + 1).relu())
    candidate(torch.randn(4, 5))
    text = str(graphex.explain(candidate))
    for word in ("native", "island", "kernel"):
        assert word in text.lower()
