"""Engines against one another on rows of work: setting up, turns in rounds, probes between them, shares of the floor.

A shared machine's speed drifts by a factor of two within minutes. So all contestants of a heat play in turn, round
after round, the machine's limits are probed before and after each round, and a share is floor / time of its own round.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch

from . import engines, machine
from .work import Work

MOST_SHARE = 1.02  # beyond it the probe or the count of work is wrong
SLOW = 0.7  # who takes so many seconds for a turn plays in the first round only
TURN = 0.03  # a turn repeats what is shorter


class Missing(Exception):
    """Why an engine doesn't take part in a row."""


@dataclass
class Contestant:
    """`play` does the row's work once and returns seconds by its clock; it may be called any number of times."""

    engine: str
    play: Callable[[], float] | None = None
    missing: str = ""
    seconds: list[float] = field(default_factory=list)  # a turn's median, by round
    facts: dict[str, object] = field(default_factory=dict)  # what else the row's table shows
    repeats: int = 1
    clock: engines.ReplayClock | None = None  # where `play` gives the caller's seconds: what its callable takes of them
    replays: list[float] = field(default_factory=list)

    def turn(self) -> None:
        if self.clock:
            self.clock.take()
        self.seconds.append(statistics.median(self.play() for _ in range(self.repeats)))
        if self.clock and (taken := self.clock.take()):
            self.replays.append(statistics.median(taken))


@dataclass
class Row:
    """Work, the type whose peak bounds it, and who does it; the first is what the others are compared with."""

    name: str
    work: Work
    peak: str
    contestants: list[Contestant] = field(default_factory=list)
    clock: str = "replay"


def enter(row: Row, engine: str, make: Callable[..., Callable[[], float]]) -> Contestant:
    """Sets an engine up for a row, plays once to warm it and once to learn how long a turn is."""
    contestant = Contestant(engine)
    row.contestants.append(contestant)
    try:
        contestant.play = make(contestant)
        contestant.play()
        once = contestant.play()
        contestant.repeats = max(1, int(TURN / max(once, 1e-6)))
    except Missing as why:
        drop(contestant, str(why))
    except MemoryError as why:
        drop(contestant, f"out of memory: {why}")
    except Exception as why:
        drop(contestant, f"failed: {type(why).__name__}: {' '.join(str(why).split())[:200]}")
    return contestant


def drop(contestant: Contestant, reason: str) -> None:
    contestant.play, contestant.missing = None, reason


def play(rows: list[Row], rounds: int) -> list[machine.Probe]:
    """All rounds of a heat: the rows that share its probes, which it returns, one more than rounds."""
    probes = [machine.probe()]
    for number in range(rounds):
        for contestant in players(rows):
            if number == 0 or contestant.seconds[0] < SLOW:
                contestant.turn()
        probes.append(machine.probe())
    return probes


def players(rows: Iterable[Row]) -> list[Contestant]:
    return [one for row in rows for one in row.contestants if one.play]


def summary(row: Row, probes: list[machine.Probe]) -> dict:
    """A row's figures as JSON holds them."""
    floors = [a.better(b).floor_s(row.work, row.peak) for a, b in zip(probes, probes[1:], strict=False)]
    reference = row.contestants[0].seconds
    best = probes[0]
    for probe in probes[1:]:
        best = best.better(probe)
    return {
        "row": row.name,
        "clock": row.clock,
        "floor_ms": statistics.median(floors) * 1e3,
        "work": row.work.json(),
        "ceilings": best.json(row.peak),
        "engines": [figures(one, floors, reference) for one in row.contestants],
    }


def figures(one: Contestant, floors: list[float], reference: list[float]) -> dict:
    if not one.seconds:
        return {"engine": one.engine, "missing": one.missing or "it was not asked", **one.facts}
    median = statistics.median(one.seconds)
    if one.replays:
        share = statistics.median(f / s for f, s in zip(floors, one.replays, strict=False))
        one.facts |= {"replay_ms": statistics.median(one.replays) * 1e3, "replay_share": share}
    return {
        "engine": one.engine,
        "ms": median * 1e3,
        "best_ms": min(one.seconds) * 1e3,
        "share": statistics.median(f / s for f, s in zip(floors, one.seconds, strict=False)),
        "ratio": statistics.median(reference) / median if reference else None,
        "rounds": len(one.seconds),
        **one.facts,
    }


def faults(rows: Iterable[dict], ours: str = "graphex") -> list[str]:
    """Why a run's figures can't stand: faster than the floor, or our own engine missing."""
    found = []
    for row in rows:
        for one in row["engines"]:
            if max(one.get("share", 0), one.get("replay_share", 0)) > MOST_SHARE:
                found.append(
                    f"{one['engine']} on {row['row']} is faster than its floor: the probe or the count is wrong"
                )
            if one["engine"] == ours and "missing" in one:
                found.append(f"{ours} on {row['row']}: {one['missing']}")
    return found


def check_close(engine: str, got: object, expected: object, tolerance: float) -> None:
    """Figures mean nothing where something else was computed: an error, unless results agree."""
    for g, e in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(expected), strict=True):
        off = (g.double() - e.double()).abs().max().item()
        most = e.double().abs().max().item()
        if not off <= tolerance * most:
            raise ValueError(f"{engine} is off eager's results by {off:.3g}, of values up to {most:.3g}")
