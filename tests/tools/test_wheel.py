"""The wheel: what is in it, what its build asks for, and that it runs without a compiler, LLVM and the clone."""

import fcntl
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# torch and Python themselves ask for these; everything else is inside.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}

SCRIPT = """
import sys
import torch

torch.manual_seed(0)
layers = torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)
model = torch.nn.Sequential(*layers).eval()
compiled = torch.compile(model, backend="graphex", options={"fallback": "error"})
with torch.no_grad():
    for rows in (3, 5, 7):
        x = torch.randn(rows, 32)
        torch.testing.assert_close(compiled(x), model(x))
print(sys.modules["graphex"].__file__, sys.modules["graphex._core"].__file__, sep="\\n")
"""


def must(command, **more):
    answer = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **more)
    assert answer.returncode == 0, (answer.stdout + answer.stderr)[-4000:]
    return answer.stdout


def build_wheel(source, folder, *more):
    must([sys.executable, "-m", "pip", "wheel", source, "--no-deps", "-w", folder, *more])
    (wheel,) = folder.glob("graphex-*.whl")
    return wheel


def files_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built once, by whichever worker of pytest comes first."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return next(folder.glob("graphex-*.whl"), None) or build_wheel(ROOT, folder)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A new environment: the wheel, and of this one what lies in site-packages (torch), without what is editable."""
    import torch

    venv = tmp_path_factory.mktemp("installed") / "venv"
    must([sys.executable, "-m", "venv", "--without-pip", venv])
    must(
        [sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install", "--no-deps", "--no-index", wheel]
    )
    (packages,) = venv.glob("lib/python3*/site-packages")
    (packages / "torch.pth").write_text(str(Path(torch.__file__).parents[1]))
    return venv


def run_installed(venv, script, folder):
    """Nothing of the caller's environment and no program but Python on PATH."""
    env = {"PATH": str(venv / "bin"), "HOME": str(folder), "GRAPHEX_CACHE_DIR": str(folder / "cache")}
    return must([venv / "bin" / "python", "-c", script], env=env, cwd=folder)


def test_versions_that_are_named_twice_agree():
    pins = set((ROOT / "requirements.txt").read_text().splitlines())
    assert set(PROJECT["project"]["dependencies"]) | set(PROJECT["build-system"]["requires"]) <= pins


def configure(folder, *more, path=None):
    env = os.environ | ({"PATH": path} if path else {})
    python = f"-DPython_EXECUTABLE={sys.executable}"
    command = [Path(sys.executable).parent / "cmake", "-G", "Ninja", "-S", ROOT, "-B", folder / "build", python, *more]
    answer = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=env)
    return answer.returncode, " ".join(answer.stderr.split())


def test_without_clang_the_build_says_what_to_install(tmp_path):
    code, said = configure(tmp_path, path=str(tmp_path))
    assert code != 0 and "clang-19 is missing" in said
    assert "apt-get install clang-19 lld-19 llvm-19-dev zlib1g-dev libzstd-dev python3-dev" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("CMAKE_DISABLE_FIND_PACKAGE_LLVM=ON", "LLVM (its CMake package)"),
        ("GX_ZLIB_ARCHIVE=OFF", "libz.a"),
        ("GX_ZSTD_ARCHIVE=OFF", "libzstd.a"),
        ("GX_LLD=OFF", "lld"),
        ("CMAKE_DISABLE_FIND_PACKAGE_Python=ON", "Python 3.11 or newer with its headers"),
    ],
)
def test_each_missing_piece_is_named(tmp_path, setting, what):
    code, said = configure(tmp_path, f"-D{setting}")
    assert code != 0 and f"; {what}" in said and "is missing" in said and "apt-get install" in said


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_wheel_has_the_package_its_stubs_and_nothing_else(wheel):
    tracked = must(["git", "ls-files", "python/graphex"], cwd=ROOT).split()
    found = files_of(wheel)
    (extension,) = (name for name in found if name.endswith(".so"))
    assert re.fullmatch(r"graphex/_core\.cpython-\d+-x86_64-linux-gnu\.so", extension)
    assert found == {name.removeprefix("python/") for name in tracked} | {extension, "graphex/_core.pyi"}
    with zipfile.ZipFile(wheel) as archive:
        stubs = archive.read("graphex/_core.pyi").decode()
    assert "class Program:" in stubs and re.search(r"^def compile\(.*\) -> Program", stubs, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_extension_brings_its_libraries_and_exports_one_name(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".so"))
        extension = archive.extract(name, tmp_path)
    needed = set(re.findall(r"NEEDED\s+(\S+)", must(["objdump", "-p", extension])))
    assert "libc.so.6" in needed and needed <= SYSTEM_LIBRARIES
    exported = [line.split()[-1] for line in must(["nm", "-D", "--defined-only", extension]).splitlines()]
    assert exported == ["PyInit__core"]


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_it_runs_where_nothing_else_is_installed(installed, tmp_path):
    places = run_installed(installed, SCRIPT, tmp_path).split()
    assert len(places) == 2 and all(Path(place).is_relative_to(installed) for place in places)
    kernels = sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert kernels
    times = [path.stat().st_mtime_ns for path in kernels]
    run_installed(installed, SCRIPT, tmp_path)
    assert kernels == sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert times == [path.stat().st_mtime_ns for path in kernels]


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_source_archive_builds_the_same_wheel(wheel, tmp_path):
    hook = "import sys, scikit_build_core.build as backend; print(backend.build_sdist(sys.argv[1]))"
    must([sys.executable, "-c", hook, tmp_path], cwd=ROOT)
    (archive,) = tmp_path.glob("graphex-*.tar.gz")
    with tarfile.open(archive) as source:
        tops = {name.split("/")[1] for name in source.getnames() if "/" in name}
    assert {"graphex", "python", "cmake", "CMakeLists.txt", "pyproject.toml"} <= tops
    assert not tops & {"tests", "bench", "build", ".venv", ".cache"}
    again = build_wheel(archive, tmp_path / "from-source", "--no-build-isolation")
    assert files_of(again) == files_of(wheel)
