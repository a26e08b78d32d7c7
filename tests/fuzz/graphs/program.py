"""A random program: Python source that makes inputs, and a function of them, as lines that can be taken out singly."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

_NAME = re.compile(r"\b[axpv]\d+\b")

PRELUDE = '''
def draw(dtype, shape, seed):
    """Quarters between -4 and 4, small whole numbers, or truth values."""
    random = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=random).bool()
    low, high = (0, 10) if dtype is torch.uint8 else (-5, 6)
    if dtype.is_floating_point:
        return (torch.randint(-16, 17, shape, generator=random) / 4).to(dtype)
    return torch.randint(low, high, shape, generator=random).to(dtype)


def places(size, count, seed):
    """Different indices below size, at most count of them."""
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))[:count]
'''


@dataclass(frozen=True)
class Line:
    """`name = text`, or a bare `text` for its effect when the name is empty."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name} = {self.text}" if self.name else self.text

    def uses(self) -> set[str]:
        """The variables that the line reads."""
        return set(_NAME.findall(self.text))


@dataclass(frozen=True)
class Program:
    """A function of n and m that makes the inputs, a function of these, and how to compile and call it."""

    inputs: tuple[Line, ...]
    body: tuple[Line, ...]
    returns: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]  # n and m, one pair per call; all of one compile
    dynamic: bool = False
    dynamo: bool = False  # by torch.compile instead of straight by AOTAutograd
    threads: int = 1
    options: tuple[tuple[str, Any], ...] = ()

    def arguments(self) -> list[str]:
        """Names of the inputs that the function takes, in order."""
        return [line.name for line in self.inputs if line.name.startswith("a")]

    def source(self) -> str:
        """The two functions as Python text."""
        names = ", ".join(self.arguments())
        made = [*map(str, self.inputs), f"return [{names}]"]
        done = [*map(str, self.body), f"return {', '.join(self.returns)}" + ("," if len(self.returns) == 1 else "")]
        break_ = "\n    "
        first = f"def inputs(n, m, seed):{break_}{break_.join(made)}\n"
        return f"{first}\n\ndef f({names}):{break_}{break_.join(done)}\n"

    def functions(self) -> tuple[Callable[..., list[torch.Tensor]], Callable[..., Any]]:
        """`inputs` and `f`, ready to call."""
        scope: dict[str, Any] = {"torch": torch}
        exec(PRELUDE + self.source(), scope)
        return scope["inputs"], scope["f"]

    def tidied(self) -> Program:
        """Without the lines whose variables nobody uses, unless they have effects on something that is used."""
        body, wanted = list(self.body), set(self.returns)
        for line in [*self.inputs, *self.body]:
            if not line.name:
                wanted |= line.uses()
        for line in reversed(self.body):
            if line.name and line.name not in wanted:
                body.remove(line)
            else:
                wanted |= line.uses()
        kept = []
        for line in reversed(self.inputs):
            if line.name in wanted:
                kept.append(line)
                wanted |= line.uses()
        return replace(self, inputs=tuple(reversed(kept)), body=tuple(body))
