"""./dev: what it says, how a step fails, what it counts."""

import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import devlib  # noqa: E402


def load_dev():
    loader = importlib.machinery.SourceFileLoader("dev", str(ROOT / "dev"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("dev", loader))
    loader.exec_module(module)
    return module


def call(*arguments, **env):
    command = [sys.executable, str(ROOT / "dev"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT, env=env or None)


def test_alone_it_lists_its_verbs():
    answer = call()
    assert answer.returncode == 0
    for verb in "setup build demo test bench lint format fuzz python clean".split():
        assert re.search(rf"^\s+{verb}\b", answer.stdout, re.MULTILINE), verb


def test_an_unknown_verb_is_refused_with_the_known():
    answer = call("frobnicate")
    assert answer.returncode == 2 and "'frobnicate'" in answer.stderr and "bench" in answer.stderr


def test_an_unknown_bench_and_fuzzer_are_refused_with_the_known():
    answer = call("bench", "nothing-such")
    assert answer.returncode == 1 and "no bench 'nothing-such'" in answer.stderr
    answer = call("fuzz", "nothing-such")
    assert answer.returncode == 1 and "graph_text" in answer.stderr


@pytest.mark.parametrize("verb", ["demo", "coverage"])
def test_what_runs_python_builds_the_module_alone(verb, monkeypatch):
    dev, built, started = load_dev(), [], []
    monkeypatch.setattr(dev, "setup", lambda: None)
    monkeypatch.setattr(dev, "build", lambda *what: built.append(what))
    monkeypatch.setattr(dev, "replace_process", started.append)
    monkeypatch.setattr(sys, "argv", ["dev", verb, "--tokens", "8"])
    dev.main()
    assert built == [("release", ["_core"])]
    assert started[0][-2:] == ["--tokens", "8"] and Path(started[0][1]).exists()


def test_a_failing_step_shows_the_end_of_its_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(devlib, "LOGS", tmp_path)
    script = "print('the reason'); raise SystemExit(3)"
    with pytest.raises(devlib.Failed, match="ended with code 3.*trying.log"):
        devlib.step("Only trying", [sys.executable, "-c", script])
    said = capsys.readouterr().err
    assert "the reason" in said and "failed" in said and "\033" not in said


def test_a_missing_program_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(devlib, "LOGS", tmp_path)
    with pytest.raises(devlib.Failed, match="no-such-program is not installed"):
        devlib.step("Only trying", ["no-such-program"])


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="no Debian")
def test_missing_packages_are_found():
    assert devlib.missing_packages(["dpkg", "no-such-package-here"]) == ["no-such-package-here"]


def test_without_root_and_sudo_the_command_is_told(monkeypatch):
    monkeypatch.setattr(devlib, "missing_packages", lambda names: ["lld-19"])
    monkeypatch.setattr(devlib.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(devlib.shutil, "which", lambda name: None)
    with pytest.raises(devlib.Failed, match="as root run: apt-get install lld-19"):
        devlib.install_packages(["lld-19"])


def test_every_requirement_is_pinned():
    for name in ["requirements.txt", "requirements-no-deps.txt"]:
        lines = devlib.requirements(name)
        assert lines and all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), name


def test_no_color_is_obeyed(monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert devlib.paint("x", 31, Terminal()) != "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert devlib.paint("x", 31, Terminal()) == "x"


def test_junit_files_are_counted(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite><testcase/><testcase><failure/></testcase><testcase><error/></testcase>"
        "<testcase><skipped/></testcase><testcase/></testsuite></testsuites>"
    )
    assert load_dev().count(report) == (2, 2, 1)
