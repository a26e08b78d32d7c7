"""Checks the direction of includes: a lower room never includes a higher one, and some headers live in one room only.

Run by ./dev lint; exits 1 and names each line that breaks a rule.
"""

import re
import sys
from pathlib import Path

# Room -> rooms it may include (its own is always allowed). docs/architecture.md draws it.
ALLOWED = {
    "base": set(),
    "runtime": {"base"},
    "ir": {"base"},
    "kernels": {"base"},
    "ops": {"base", "ir"},
    "passes": {"base", "ir", "ops"},
    "codegen": {"base", "ir", "ops", "kernels"},
    "frontends": {"base", "ir", "ops"},
    "compile": {"base", "ir", "ops", "passes", "codegen", "kernels", "runtime"},
    "models": {"base", "ir", "ops", "frontends"},
    "engine": {"base", "ir", "ops", "frontends", "models", "runtime", "compile"},
    "capi": {"base", "ir", "ops", "passes", "frontends", "models", "runtime", "compile", "engine"},
}

# Start of an include -> folders that alone may have it.
CONFINED = {
    "llvm/": ["graphex/codegen"],
    "llvm-c/": ["graphex/codegen"],
    "nanobind/": ["python/src"],
    "Python.h": ["python/src"],
    "immintrin.h": ["graphex/kernels", "graphex/runtime"],
    "torch/": [],
    "ATen/": [],
    "gtest/": ["tests"],
    "benchmark/": ["bench"],
    "tests/": ["tests", "bench"],
    "bench/": ["bench"],
}

FOLDERS = ["graphex", "python/src", "tools", "tests", "bench", "examples"]
SUFFIXES = {".h", ".cc", ".inc", ".def"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found[1] == '"', found[2]


def room_of(name):
    parts = name.split("/")
    return parts[1] if parts[0] == "graphex" and len(parts) > 2 else None


def fault(root, name, quoted, header):
    """What is wrong with this include, or None."""
    for start, homes in CONFINED.items():
        if header.startswith(start) and not any(name.startswith(home + "/") for home in homes):
            return f"<{header}> belongs to {' and '.join(homes) or 'no folder of this repository'}"
    room, target = room_of(name), room_of(header)
    if target and target not in ALLOWED:
        return f"{target}/ is not a known room; add it to ALLOWED in tools/check_layers.py"
    if room and room not in ALLOWED:
        return f"{room}/ is not a known room; add it to ALLOWED in tools/check_layers.py"
    if room and target and target != room and target not in ALLOWED[room]:
        below = ", ".join(sorted(ALLOWED[room])) or "no other room"
        return f"{room}/ may not include {target}/ (it may include {below})"
    if room and quoted and not header.startswith("graphex/"):
        return f'"{header}" is not a path from the repository root'
    return None


def check(root):
    faults = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            name = path.relative_to(root).as_posix()
            for number, quoted, header in includes(path):
                text = fault(root, name, quoted, header)
                if text:
                    faults.append(f"{name}:{number}: {text}")
    return faults


if __name__ == "__main__":
    found = check(Path(__file__).resolve().parent.parent)
    print("\n".join(found))
    sys.exit(1 if found else 0)
