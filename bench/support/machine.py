"""What this machine can do and what a process uses of it: cores, memory, and the two ceilings that rows stand beside.

Ceilings drift by a factor of two within minutes on shared machines, so they are probed next to each measurement
and never remembered. The probe is graphex's own (graphex._core.probe); where the module is not built a stand-in made
of torch operators is used and says so (Probe.source): it stays below what the machine can do.
"""

import contextlib
import os
import platform
import time
from dataclasses import asdict, dataclass
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


def describe(threads):
    level = torch.backends.cpu.get_cpu_capability()
    return f"{cpu_name()}, {level}, {threads} threads, torch {torch.__version__}"


@dataclass
class Probe:
    """Ceilings at one moment: bytes read a second, and multiply-adds (two operations each) by element type."""

    read_bytes_s: float
    flops_s: dict  # by dtype name; a type that is missing has no known peak
    source: str

    def better(self, other):
        """The higher of two probes: a ceiling is what the machine was able to do."""
        flops = {name: max(rate, other.flops_s.get(name, 0.0)) for name, rate in self.flops_s.items()}
        return Probe(max(self.read_bytes_s, other.read_bytes_s), flops, self.source)

    def floor_s(self, work, dtype):
        """Seconds that `work` takes at least; by its bytes alone where the type's peak is unknown."""
        reading = work.bytes_read / self.read_bytes_s
        return max(reading, work.operations / self.flops_s[dtype]) if dtype in self.flops_s else reading

    def json(self):
        return asdict(self)


def probe():
    """Read bandwidth and arithmetic peaks, now: graphex's own probe (about two seconds), or the stand-in."""
    native = native_probe()
    return from_native(native(torch.get_num_threads())) if native else torch_probe()


def native_probe():
    """graphex._core.probe, or None where the module or the function is absent."""
    try:
        from graphex import _core
    except ImportError:
        return None
    return getattr(_core, "probe", None)


def from_native(found):
    # Without instructions for bf16 its products are fp32's after widening, so fp32's peak is within reach.
    flops = {"float32": found["fp32"], "bfloat16": max(found["fp32"], found["bf16"])}
    return Probe(found["read"], flops, "graphex")


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
    with torch.no_grad():
        read = best_of(3, lambda: data["read"].sum())
        peak = best_of(8, lambda: torch.mm(data["a"], data["b"]))
    return Probe(READ_BYTES / read, {"float32": 2 * 768**3 / peak}, "torch stand-in")


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
