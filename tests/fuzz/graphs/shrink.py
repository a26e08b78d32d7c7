"""Makes a failing program small: takes out what isn't needed for the same kind of failure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from .program import Line, Program


def shrink(program: Program, fails: Callable[[Program], bool], tries: int = 400) -> Program:
    """The smallest program found for which `fails` still holds."""
    again = True
    while again and tries > 0:
        again = False
        for smaller in _smaller(program):
            tries -= 1
            if tries <= 0:
                break
            if fails(smaller):
                program, again = smaller, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less, the boldest first."""
    if program.dynamo:
        yield replace(program, dynamo=False)
    if program.threads > 1:
        yield replace(program, threads=1)
    if program.options:
        yield replace(program, options=())
    if len(program.returns) > 1:
        for i in range(len(program.returns)):
            yield replace(program, returns=program.returns[:i] + program.returns[i + 1 :]).tidied()
    for i in reversed(range(len(program.body))):
        yield from _without(program, i)
    for i, size in enumerate(program.sizes):
        if len(program.sizes) > 1:
            yield replace(program, sizes=program.sizes[:i] + program.sizes[i + 1 :])
            yield replace(program, sizes=(size,))
    if program.dynamic:
        yield replace(program, dynamic=False, sizes=program.sizes[:1])
    yield from _simpler_inputs(program)


def _without(program: Program, i: int) -> Iterator[Program]:
    """The line taken out; where its variable is used, another that the line read, or an input, stands for it."""
    line, body = program.body[i], program.body[:i] + program.body[i + 1 :]
    if not line.name:
        yield replace(program, body=body).tidied()
        return
    for other in sorted(line.uses()) + [name for name in program.arguments() if name not in line.uses()]:
        renamed = tuple(Line(each.name, _renamed(each.text, line.name, other)) for each in body)
        returns = tuple(other if name == line.name else name for name in program.returns)
        yield replace(program, body=renamed, returns=returns).tidied()


def _renamed(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{old}\b", new, text)


def _simpler_inputs(program: Program) -> Iterator[Program]:
    """Inputs without what makes their layout odd, and in float32."""
    for i, line in enumerate(program.inputs):
        drawn = re.match(r"draw\((\S+), \(.*?\), seed \+ \d+\)", line.text)
        if not drawn:
            continue
        for text in (drawn[0], line.text.replace(drawn[1], "torch.float32")):
            if text != line.text:
                made = Line(line.name, text)
                yield replace(program, inputs=(*program.inputs[:i], made, *program.inputs[i + 1 :]))
