"""Random programs. Each line is tried by eager PyTorch while the program is written, so that it runs and stays finite.

Equal seeds give equal programs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .program import PRELUDE, Line, Program

LARGEST = 1000.0  # of a float: far from overflow in every dtype, also after a few more operators
DTYPES = (torch.float32,) * 6 + (torch.int64,) * 3 + (torch.bool, torch.bool, torch.int32, torch.uint8, torch.float64)
REDUCED = (torch.bfloat16, torch.float16)
# Few sizes, so that kernels repeat; the first pair is the one that the program is written for.
SIZES = ((5, 7), (4, 6), (3, 8), (16, 9), (2, 5))
DYNAMIC_SIZES = ((9, 6), (4, 4), (17, 3), (2, 33), (40, 21))
EDGES = ((1, 4), (0, 3), (5, 1), (4, 0))
LARGE = (130, 70)


class Rejected(Exception):
    """The line that an operator proposes can't be used here."""


class Generator:
    """Writes one program. Operators see the variables as real tensors of the first size."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.inputs: list[Line] = []
        self.body: list[Line] = []
        self.n, self.m = self.choose(SIZES)
        self.scope: dict[str, Any] = {"torch": torch, "n": self.n, "m": self.m, "seed": 1}
        exec(PRELUDE, self.scope)
        self.names: list[str] = []
        self.inexact: set[int] = set()  # storages
        # Storages of inputs with one element at several indices: AOTAutograd can't write to these.
        self.repeated: set[int] = set()
        self.used: set[str] = set()
        self.count = 0

    # -- choices

    def choose(self, items: Sequence[Any]) -> Any:
        """One of the items."""
        return items[self.random.randrange(len(items))]

    def chance(self, percent: int) -> bool:
        """True in so many cases of a hundred."""
        return self.random.randrange(100) < percent

    def tensor(self, name: str) -> torch.Tensor:
        """The value of a variable at the first size."""
        return self.scope[name]

    def is_inexact(self, name: str) -> bool:
        """Whether the variable's bits may differ from eager's in the last places."""
        return self.tensor(name).untyped_storage()._cdata in self.inexact

    def pick(self, fits: Callable[[torch.Tensor], bool] = lambda x: True, exact: bool = False) -> str:
        """A variable that fits, more often a late one; Rejected if there is none."""
        found = [n for n in self.names if fits(self.tensor(n)) and not (exact and self.is_inexact(n))]
        if not found:
            raise Rejected
        name = self.choose(found[-4:] if self.chance(50) else found)
        self.used.add(name)
        return name

    def dim(self, x: str) -> int:
        """A dimension of x."""
        if self.tensor(x).dim() == 0:
            raise Rejected
        return self.random.randrange(self.tensor(x).dim())

    # -- lines

    def attempt(self, text: str, prefix: str = "v", inexact: bool = False) -> str:
        """Runs the text and keeps it as a line; returns the variable, "" for a text that is only an effect."""
        in_place = not prefix
        try:
            value = eval(text, self.scope)
        except Exception:
            raise Rejected from None
        if isinstance(value, torch.Tensor):
            self._check(value)
            if in_place and value.untyped_storage()._cdata in self.repeated:
                raise Rejected
            inexact = value.is_floating_point() and (inexact or any(map(self.is_inexact, self.used)))
            if inexact:
                self.inexact.add(value.untyped_storage()._cdata)
        name = "" if in_place else f"{prefix}{self.count}"
        self.count += 1
        if name:
            self.scope[name] = value
            if isinstance(value, torch.Tensor):
                self.names.append(name)
                if prefix == "a" and 0 in value.stride():
                    self.repeated.add(value.untyped_storage()._cdata)
        (self.inputs if prefix in ("a", "p") else self.body).append(Line(name, text))
        return name

    def _check(self, value: torch.Tensor) -> None:
        if value.is_complex() or value.dim() > 4 or value.numel() > 40000:
            raise Rejected
        if value.is_floating_point() and value.numel() and not bool((value.abs() <= LARGEST).all()):
            raise Rejected


# ---- inputs


def _shape(g: Generator) -> str:
    rank = g.choose((0, 1, 1, 2, 2, 2, 2, 3, 3))
    sizes = [g.choose(("n", "n", "m", "m", "1", "2", "3", "4")) for _ in range(rank)]
    if g.chance(4) and rank:
        sizes[g.random.randrange(rank)] = "0"
    return "(" + "".join(s + ", " for s in sizes) + ")"


def _laid_out(g: Generator, dtype: str, number: int) -> str:
    """Text of a tensor with strides of any kind."""
    kind = g.random.randrange(10)
    draw = f"draw({dtype}, {{}}, seed + {number})"
    if kind < 5:
        return draw.format(_shape(g))
    return _odd(g, draw, kind)


def _odd(g: Generator, draw: str, kind: int) -> str:
    a, b = g.choose(("n", "m", "3")), g.choose(("n", "m", "2"))
    return {
        5: draw.format(f"({a}, {b})") + ".t()",
        6: draw.format(f"({a}, 2 * {b})") + g.choose(("[:, ::2]", "[:, 1::2]")),
        7: draw.format(f"({a} + 1, {b} + 2)") + "[1:, 1:-1]",
        8: draw.format(f"({a}, 1)") + f".expand({a}, {b})",
        9: draw.format(f"({a}, 2, {b})") + g.choose((".permute(2, 0, 1)", ".transpose(0, 1)", "[:, 1]")),
    }[kind]


_SHARED = ("{}", "{}[1:]", "{}.t()", "{}.flatten()", "{}[:1]", "{}.detach()", "{}[::2]", "{}.select(0, 0)", "{}[None]")


def add_inputs(g: Generator, dtypes: Sequence[torch.dtype]) -> None:
    """Two to four tensors, some of them over the memory of an earlier one, and an index."""
    for _ in range(2 + g.random.randrange(3)):
        g.used.clear()
        try:
            if g.names and g.chance(18):
                g.attempt(g.choose(_SHARED).format(g.pick()), "a")
            else:
                g.attempt(_laid_out(g, str(g.choose(dtypes)), 10 * len(g.inputs)), "a")
        except Rejected:
            continue
    if g.chance(25):
        g.attempt(f"places({g.choose('nm')}, {g.choose((1, 2, 3))}, seed + 7)", "a")
    if not g.names:
        g.attempt(f"draw({g.choose(dtypes)}, (n, m), seed)", "a")


# ---- the whole


def generate(seed: int) -> Program:
    """The program of a seed."""
    from .operators import OPERATORS, WEIGHTS

    g = Generator(seed)
    reduced = g.chance(15)
    add_inputs(g, (g.choose(REDUCED),) * 3 + DTYPES[:9] if reduced else DTYPES)
    length = g.choose((3, 5, 8, 12))
    for _ in range(4 * length):
        if len(g.body) >= length:
            break
        g.used.clear()
        try:
            g.random.choices(OPERATORS, WEIGHTS)[0](g)
        except Rejected:
            continue
    return _finish(g, reduced)


def _finish(g: Generator, reduced: bool) -> Program:
    made = [line.name for line in g.body if line.name in g.names]
    used = set().union(*(line.uses() for line in g.body))
    ends = [name for name in made if name not in used]  # what would be lost if it weren't returned
    returns = g.random.sample(ends, min(len(ends), 3))
    if not returns or g.chance(40):
        returns.append(g.choose(made or g.names))
    if g.chance(15):
        returns.append(g.choose(g.names))
    g.random.shuffle(returns)
    dynamic = g.chance(35)
    sizes = ((g.n, g.m), *g.random.sample(DYNAMIC_SIZES, 3), g.choose(EDGES)) if dynamic else ((g.n, g.m),)
    if not dynamic and g.chance(25):
        sizes = (g.choose(EDGES),)
    elif not dynamic and g.chance(8):
        sizes = (LARGE,)
    # Roundings between fused operators are kept where there are any, so that bits can be compared.
    options = (("emulate_precision_casts", True),) if reduced or g.chance(20) else ()
    program = Program(
        tuple(g.inputs), tuple(g.body), tuple(returns), sizes, dynamic, g.chance(10), g.choose((1, 2)), options
    )
    return program.tidied()
