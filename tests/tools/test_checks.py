"""The repository's own checks: each must fail on the fault it is for, and pass the repository."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


layers = load("check_layers")
sizes = load("check_sizes")


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("name", "include", "complaint"),
    [
        ("graphex/base/x.cc", '"graphex/ir/graph.h"', "base/ may not include ir/"),
        ("graphex/runtime/x.cc", '"graphex/ir/graph.h"', "runtime/ may not include ir/"),
        ("graphex/ops/x.h", '"graphex/passes/pass.h"', "ops/ may not include passes/"),
        ("graphex/ir/x.cc", "<llvm/IR/Module.h>", "belongs to graphex/codegen"),
        ("graphex/compile/x.cc", "<torch/torch.h>", "no folder of this repository"),
        ("graphex/ir/x.cc", '"graph.h"', "not a path from the repository root"),
        ("graphex/novel/x.cc", '"graphex/base/error.h"', "novel/ is not a known room"),
        ("graphex/ir/x.cc", '"tests/support/help.h"', "belongs to tests and bench"),
    ],
)
def test_a_wrong_include_is_named(tmp_path, name, include, complaint):
    write(tmp_path, "graphex/base/error.h", "")
    write(tmp_path, name, f"// x\n#include {include}\n")
    (fault,) = layers.check(tmp_path)
    assert fault.startswith(f"{name}:2: ") and complaint in fault


def test_right_includes_pass(tmp_path):
    write(tmp_path, "graphex/base/error.h", "#include <string>\n")
    write(tmp_path, "graphex/codegen/x.cc", '#include <llvm/IR/Module.h>\n#include "graphex/base/error.h"\n')
    write(tmp_path, "tests/codegen/x_test.cc", '#include <gtest/gtest.h>\n#include "graphex/codegen/x.h"\n')
    assert layers.check(tmp_path) == []


def cpp(body_lines, opening="int f(int x) {"):
    return opening + "\n" + "  x += 1;\n" * body_lines + "}\n"


@pytest.mark.parametrize(
    ("opening", "name"),
    [
        ("int f(int x) {", "f"),
        ("template <class T>\nvoid Box<T>::put(T x) const {", "Box<T>::put"),
        ("TEST(Suite, DoesIt) {", "Suite.DoesIt"),
        ('extern "C" void gx_run(int x) {', "gx_run"),
        ("struct Pair make(int x) {", "make"),
    ],
)
def test_a_long_function_is_named(tmp_path, opening, name):
    write(tmp_path, "graphex/ir/x.cc", "namespace a {\n" + cpp(80, opening) + "}\n")
    (fault,) = sizes.check(tmp_path)
    assert name.split("<")[0] in fault or name.split("::")[-1] in fault
    assert "graphex/ir/x.cc:2: " in fault and f"{81 + opening.count(chr(10)) + 1} lines, over 60" in fault


def test_braces_in_text_and_macros_do_not_count(tmp_path):
    noise = 'const char* a = "{{{"; char b = \'{\'; const char* c = R"(}}})"; // {\n#define X {\\\n {\n'
    write(tmp_path, "graphex/ir/x.cc", noise + cpp(58) + noise + cpp(70))
    assert len(sizes.check(tmp_path)) == 1


def test_macro_calls_before_a_function_are_not_its_head(tmp_path):
    write(tmp_path, "graphex/ir/x.cc", "GX_ALL(eq, a == b)\n" * 90 + cpp(10))
    write(tmp_path, "graphex/ir/y.cc", "void g() {\n  for (T x : {\n    T(1),\n    T(2)})\n    add(x);\n}\n" + cpp(50))
    assert sizes.check(tmp_path) == []


def test_members_are_measured_and_classes_are_not(tmp_path):
    members = "".join(f"  int m{i}() {{ return {i}; }}\n" for i in range(90))
    write(tmp_path, "graphex/ir/x.h", "class Big {\n" + members + "};\n")
    assert sizes.check(tmp_path) == []


def test_python_and_files_are_measured(tmp_path):
    write(tmp_path, "tools/x.py", "def f():\n" + "    pass\n" * 61)
    write(tmp_path, "graphex/ir/x.h", "\n" * 401)
    found = sizes.check(tmp_path)
    assert len(found) == 2 and "401 lines, over 400" in found[0] and "f: 62 lines, over 60" in found[1]


def test_an_exception_needs_a_reason_and_a_use(tmp_path):
    write(tmp_path, "graphex/ir/x.cc", cpp(80))
    write(tmp_path, "tools/size_exceptions.txt", "# comment\ngraphex/ir/x.cc:f a table\n")
    assert sizes.check(tmp_path) == []
    write(tmp_path, "tools/size_exceptions.txt", "graphex/ir/x.cc:f\ngraphex/ir/y.cc gone\n")
    faults = sizes.check(tmp_path)
    assert ["has no reason" in faults[0], "remove its line" in faults[1]] == [True, True]


def test_no_exception_reaches_the_upper_bound(tmp_path):
    write(tmp_path, "graphex/ir/x.cc", cpp(120))
    write(tmp_path, "tools/size_exceptions.txt", "graphex/ir/x.cc:f a table\n")
    (fault,) = sizes.check(tmp_path)
    assert "100 is the most" in fault
