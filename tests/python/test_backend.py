"""The backend as users meet it: options, islands, gradients, odd arguments and results, explain."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from compare import backend, check

import graphex

pytestmark = pytest.mark.usefixtures("interpreter")


def test_importing_the_package_loads_no_torch():
    code = "import sys, graphex; assert 'torch' not in sys.modules; graphex.explain; "
    code += "assert 'torch._inductor' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_unknown_and_wrong_options_are_errors():
    def message(options, mode=None):
        with pytest.raises(Exception) as error:
            torch._dynamo.reset()
            torch.compile(lambda x: x + 1, backend=backend(), options=options)(torch.ones(2))
        return str(error.value)

    assert "did you mean 'fallback'" in message({"fallbck": "error"}) and "threads" in message({"fallbck": 1})
    assert "'eager', 'error'" in message({"fallback": "maybe"})
    assert "takes int" in message({"threads": True})
    assert "0 to 1024" in message({"threads": -1}) and "0 to 1024" in message({"threads": 2**70})
    assert "known are" in message({"disable_passes": ["nope"]})
    assert "no folder that can be written to" in message({"dump_dir": __file__})
    assert "deadlock_check" in message({"deadlock_check": True})


def test_options_of_npugraph_ex_are_accepted():
    options = {
        "force_recapture": True,
        "clone_input": False,
        "capture_limit": 4,
        "inplace_pass": True,
    }
    check(lambda x: x + 1, torch.ones(2), **options)


def test_an_unknown_variable_of_the_environment_is_told_once(monkeypatch, caplog):
    from graphex import options

    monkeypatch.setenv("GRAPHEX_THREDS", "1")
    options._warn_of_unknown_variables.cache_clear()
    options.resolve()
    options.resolve()
    (warning,) = caplog.messages
    assert "GRAPHEX_THREDS" in warning and "did you mean GRAPHEX_THREADS?" in warning and "GRAPHEX_ISA" in warning


def test_an_option_from_the_environment(monkeypatch):
    from graphex.options import OptionError, resolve

    monkeypatch.setenv("GRAPHEX_FALLBACK", "error")
    monkeypatch.setenv("GRAPHEX_THREADS", "3")
    assert resolve()["fallback"] == "error" and resolve()["threads"] == 3 and resolve({"threads": 1})["threads"] == 1
    monkeypatch.setenv("GRAPHEX_DISABLE_PASSES", "merge_common, bound_masks")
    assert resolve()["disable_passes"] == ["merge_common", "bound_masks"]
    monkeypatch.setenv("GRAPHEX_THREADS", "many")
    with pytest.raises(OptionError, match="GRAPHEX_THREADS"):
        resolve()
    monkeypatch.setenv("GRAPHEX_THREADS", "99999")
    with pytest.raises(OptionError, match="0 to 1024"):
        resolve()
    monkeypatch.delenv("GRAPHEX_THREADS")
    with pytest.raises(OptionError, match="dict of names"):
        resolve(["threads"])


def test_a_missing_native_module_is_an_error_with_a_hint(monkeypatch):
    from graphex.native import core

    monkeypatch.delattr(graphex, "_core", raising=False)
    monkeypatch.setitem(sys.modules, "graphex._core", None)
    with pytest.raises(ImportError, match="./dev build"):
        core()


def test_explain_of_a_module_that_was_compiled_in_place():
    class Module(torch.nn.Module):
        def forward(self, x):
            return x.sin() + 1

    module = Module()
    module.compile(backend=backend())
    module(torch.ones(3))
    assert graphex.explain(module)["native"] == 2
    with pytest.raises(TypeError, match="module.compile"):
        graphex.explain(torch.nn.Linear(3, 2))


def test_an_island_is_counted_with_its_reason_and_line():
    report = check(lambda x: torch.special.digamma(x + 1) * 2, torch.rand(3, 4), native=False)
    (island,) = report["graphs"][0]["islands"]
    assert island["op"] == "aten.digamma.default" and island["source"].startswith(__file__.rsplit("/", 1)[0])
    assert "digamma" in str(report)


def test_fallback_error_names_operator_and_line():
    compiled = torch.compile(lambda x: torch.special.digamma(x), backend=backend(), options={"fallback": "error"})
    with pytest.raises(Exception, match=r"digamma.*test_backend.py"):
        compiled(torch.rand(3))


def test_islands_of_many_kinds():
    def f(x, n):
        a = [*torch.sort(x, 1), *torch.topk(x, 2), torch.linalg.inv(x @ x.t() + torch.eye(3)), torch.cdist(x, x)]
        return [*a, x.repeat(1, n).sort().values, torch.searchsorted(x[0].sort().values, x), torch.fft.rfft(x[0]).abs()]

    check(
        f,
        torch.randn(3, 4),
        2,
        exact=False,
        native=False,
        more=[(torch.randn(3, 4), 3), (torch.randn(3, 4), 4)],
        scale=8,
    )


def test_operators_that_are_ordered_by_tokens():
    """linalg.inv checks for errors by an operator with an effect, to which AOT hands tokens in and out."""

    def f(x, y):
        return torch.linalg.inv(x) + 1, torch.linalg.inv(x + y) @ x

    check(f, torch.eye(3) * 2, torch.ones(3, 3), native=False, exact=False, more=[(torch.eye(3) * 3, torch.eye(3))])
    compiled = torch.compile(f, backend=backend())
    with torch.no_grad(), pytest.raises(torch.linalg.LinAlgError, match="singular"):
        compiled(torch.zeros(3, 3), torch.ones(3, 3))


def test_quantised_graphs_run_by_eager():
    check(lambda x: x.to(torch.float8_e4m3fn).float(), torch.randn(3, 2), native=False)


def test_dropout_follows_the_seed_and_differs_between_calls():
    compiled = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5, training=True), backend=backend())
    x = torch.ones(64)
    with torch.no_grad():
        torch.manual_seed(3)
        a, b = compiled(x), compiled(x)
        torch.manual_seed(3)
        assert a.equal(compiled(x)) and not a.equal(b)


def test_random_operators_draw_in_order():
    check(
        lambda x: (x + torch.rand(3), torch.randn(3) * 2, torch.randint(0, 9, (3,)), torch.bernoulli(x)),
        torch.rand(3),
        native=False,
    )


def test_odd_arguments_and_results():
    def f(x, n, y, flag, none, pair):
        out = x + n if flag else x
        return x, None, n, out, {"twice": [out, out], "y": y}, pair[0] * pair[1], 2.5, (x.shape[0], "text"), y is x

    x = torch.rand(3)
    check(f, x, 3, x, True, None, (x, torch.rand(3)), exact=True)
    a, _, _, b, tree, *_ = torch.compile(f, backend=backend())(x, 3, x, True, None, (x, x))
    assert a is x and tree["twice"][0] is tree["twice"][1] is b


def test_a_second_call_leaves_the_first_result_alone():
    compiled = torch.compile(lambda x: x * 2, backend=backend())
    y1 = compiled(torch.ones(3))
    y2 = compiled(torch.full((3,), 5.0))
    assert y1.eq(2).all() and y2.eq(10).all()


def test_gradients_are_eagers():
    layer = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    x = torch.randn(3, 4)
    layer(x).square().sum().backward()
    expected = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    torch.compile(layer, backend=backend())(x).square().sum().backward()
    for p, grad in zip(layer.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, grad, rtol=1e-5, atol=1e-6)


def test_modules_methods_graph_breaks_and_modes():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.drop = torch.nn.Linear(3, 3), torch.nn.Dropout(0.5)

        def forward(self, x):
            y = self.linear(x)
            torch._dynamo.graph_break()
            return self.drop(y) + self.extra(y)

        def extra(self, y):
            return y.relu()

    model, x = Model().eval(), torch.randn(2, 3)
    compiled = torch.compile(model, backend=backend())
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        report = graphex.explain(compiled)
        assert len(report["graphs"]) == 2 and sum(report["graph_breaks"].values()) >= 1
        compiled.train()
        assert not compiled(x).equal(compiled(x))
        compiled.eval()
        model.linear.weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))
        model.linear.weight.data = torch.ones(3, 3)
        torch.testing.assert_close(compiled(x), model(x))


def test_compile_fx_takes_graphs_of_dynamo_and_of_aot():
    from torch._dynamo.backends.common import aot_autograd

    kept = []

    def mine(gm, example_inputs):
        return graphex.compile_fx(gm, example_inputs, {"fallback": "error"})

    def aten(gm, example_inputs):
        kept.append(graphex.compile_fx(gm, example_inputs))
        return kept[-1]

    x = torch.rand(3)
    with torch.no_grad():
        assert torch.compile(lambda x: x.sin() + 1, backend=mine)(x).allclose(x.sin() + 1)
        assert torch.compile(lambda x: x.cos() + 1, backend=aot_autograd(fw_compiler=aten))(x).allclose(x.cos() + 1)
    assert graphex.explain(kept[0])["native"] == 2
    with pytest.raises(TypeError):
        graphex.explain(lambda x: x)


def test_user_passes_edit_the_graph():
    def swap(gm, example_inputs, options):
        for node in gm.graph.nodes:
            if node.target is torch.ops.aten.sin.default:
                node.target = torch.ops.aten.cos.default

    compiled = torch.compile(lambda x: x.sin(), backend=backend(), options={"post_grad_custom_pre_pass": swap})
    assert compiled(torch.zeros(2)).eq(1).all()


def test_force_eager():
    check(lambda x: x + 1, torch.ones(2), native=False, force_eager=True)


def test_custom_operators_are_islands():
    @torch.library.custom_op("graphex_test::scale_into", mutates_args=("out",))
    def scale_into(x: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(x * 3)

    @scale_into.register_fake
    def _(x, out):
        return None

    @torch.library.custom_op("graphex_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    def f(x, buffer):
        scale_into(x + 1, buffer)
        return twice(buffer) - 1

    check(f, torch.rand(3), torch.zeros(3), native=False)


def test_the_page_of_options_is_what_the_table_says():
    from pathlib import Path

    from graphex.options_page import markdown

    page = Path(__file__).parents[2] / "docs" / "options.md"
    assert page.read_text() == markdown(), "run ./dev python -m graphex options --markdown > docs/options.md"
