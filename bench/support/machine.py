"""What this machine can do and what a process uses of it: cores, memory, and the two ceilings that rows stand beside.

Ceilings drift by a factor of two within minutes on shared machines, so they are probed next to each measurement
and never remembered. The probe is graphex's own (graphex._core.probe); where the module is not built a stand-in made
of torch operators is used and says so (Probe.source): it stays below what the machine can do.
"""

import contextlib
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

import torch

READ_BYTES = 1 << 30


def usable_cores():
    """Cores that this process may use: affinity and the cgroup's quota, at least one."""
    cores = len(os.sched_getaffinity(0))
    quota = Path("/sys/fs/cgroup/cpu.max")
    if quota.exists():
        limit, period = quota.read_text().split()
        if limit != "max":
            cores = min(cores, max(1, int(limit) // int(period)))
    return cores


def fix_threads(count=None):
    count = count or usable_cores()
    torch.set_num_threads(count)
    return count


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def cpu_model():
    """The CPU's name with family and model, since virtual machines give many CPUs one name."""
    fields = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    numbers = [fields[name] for name in ("cpu family", "model") if name in fields]
    return " ".join([cpu_name(), *numbers])


def describe(threads):
    level = torch.backends.cpu.get_cpu_capability()
    return f"{cpu_name()}, {level}, {threads} threads, torch {torch.__version__}"


@dataclass
class Probe:
    """Ceilings at one moment: bytes a second, and multiply-adds (two operations each) by type."""

    read_bytes_s: float
    flops_s: dict  # by dtype name, also "int8" and "int4"; a type that is missing has no known peak
    source: str
    copy_bytes_s: float = 0.0  # read and written

    def better(self, other):
        """The higher of two probes: a ceiling is what the machine was able to do."""
        flops = {name: max(rate, other.flops_s.get(name, 0.0)) for name, rate in self.flops_s.items()}
        read, copy = max(self.read_bytes_s, other.read_bytes_s), max(self.copy_bytes_s, other.copy_bytes_s)
        return Probe(read, flops, self.source, copy)

    def floor_s(self, work, dtype):
        """Seconds that `work` takes at least; by its bytes alone where the type's peak is unknown."""
        memory = work.bytes_read / self.read_bytes_s
        if work.bytes_copied:
            memory += work.bytes_copied / self.copy_bytes_s
        return max(memory, work.operations / self.flops_s[dtype]) if dtype in self.flops_s else memory

    def json(self, dtype):
        return {
            "read_gb_s": self.read_bytes_s / 1e9,
            "copy_gb_s": self.copy_bytes_s / 1e9,
            "peak_g_s": self.flops_s.get(dtype, 0.0) / 1e9,
            "source": self.source,
        }


PROBE_SECONDS = 0.05
_probers = {}


def probe():
    """Read bandwidth and arithmetic peaks, now: graphex's own probe (about half a second), or the stand-in."""
    native = native_prober()
    if not native:
        return torch_probe()
    threads = torch.get_num_threads()
    if threads not in _probers:
        _probers[threads] = native(threads)
    return from_native(_probers[threads].probe(PROBE_SECONDS))


def native_prober():
    """graphex._core.Prober, or None where the module or the class is absent."""
    try:
        from graphex import _core
    except ImportError:
        return None
    return getattr(_core, "Prober", None)


def from_native(found):
    # Without instructions of their own the products of 16-bit types are fp32's after widening, at fp32's peak.
    flops = {"float32": found["fp32"], "bfloat16": max(found["fp32"], found["bf16"]), "float16": found["fp32"]}
    flops |= {name: found[name] for name in ("int8", "int4") if found[name]}
    return Probe(found["read"], flops, "graphex", found["copy"])


_operands = {}


def torch_operands():
    """Made once: a gigabyte to read, and two matrices that stay in the second-level cache's reach."""
    if not _operands:
        _operands["read"] = torch.ones(READ_BYTES // 4)
        _operands["a"] = torch.randn(768, 768)
        _operands["b"] = torch.randn(768, 768)
    return _operands


def torch_probe():
    data = torch_operands()
    half = READ_BYTES // 8
    with torch.no_grad():
        read = best_of(3, lambda: data["read"].sum())
        copy = best_of(3, lambda: data["read"][:half].copy_(data["read"][half:]))
        peak = best_of(8, lambda: torch.mm(data["a"], data["b"]))
    return Probe(READ_BYTES / read, {"float32": 2 * 768**3 / peak}, "torch stand-in", READ_BYTES / copy)


def best_of(times, work):
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def status_kib(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise KeyError(field)


def resident_bytes():
    return status_kib("VmRSS") * 1024


class PeakMemory:
    """with PeakMemory() as peak: ...; peak.extra = bytes above the resident size at the start, at the highest."""

    def __enter__(self):
        with contextlib.suppress(OSError):  # refused: then the mark is the process's own, which can only be higher
            Path("/proc/self/clear_refs").write_text("5")  # the kernel starts a new high-water mark
        self.before = resident_bytes()
        self.extra = 0
        return self

    def __exit__(self, *_):
        self.extra = max(0, status_kib("VmHWM") * 1024 - self.before)
