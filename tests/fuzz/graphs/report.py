"""A failing program as Python that stands alone."""

from __future__ import annotations

from .program import PRELUDE, Program

_CALL = """
arguments, twins = inputs({n}, {m}, {seed}), inputs({n}, {m}, {seed})
with torch.no_grad():
    print(torch.compile(f, backend="graphex", dynamic={dynamic}, options={options})(*arguments), arguments)
    print(f(*twins), twins)  # eager
"""


def reproduction(program: Program, seed: int, fault: str) -> str:
    """Python text: the inputs, the function, a call by each side; the fault and the way to it as comments."""
    n, m = program.sizes[-1]
    door = "torch.compile" if program.dynamo else "AOTAutograd"
    comments = [
        f"seed {seed}, by {door}, {program.threads} threads, n and m in turn {program.sizes}",
        *fault.splitlines(),
    ]
    call = _CALL.format(n=n, m=m, seed=1, dynamic=program.dynamic, options=dict(program.options) or None)
    head = "\n".join("# " + line[:300] for line in comments)
    return f"{head}\nimport torch\n{PRELUDE}\n\n{program.source()}\n{call}"
