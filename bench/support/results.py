"""What benches hand over: a table, JSON, and the rows kept in bench/results, one file per kind of CPU.

A kept row says when, by which command and on which commit it was measured; a later run replaces the rows that it
measured and leaves the others.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from rich.table import Table

from . import contest, machine, screen

FOLDER = Path(__file__).resolve().parents[1] / "results"
ROOT = FOLDER.parents[1]


def parser(name: str, text: str) -> argparse.ArgumentParser:
    """The options that all benches have."""
    made = argparse.ArgumentParser(
        prog=f"./dev bench {name}", description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--rounds", type=int, default=5, help="turns of each engine; medians are shown (5)")
    made.add_argument("--threads", type=int, default=0, help="worker threads (all usable cores)")
    made.add_argument("--engine", action="append", help="only these beside eager; may be repeated (all)")
    made.add_argument("--json", metavar="FILE", nargs="?", const="-", help="write JSON there; - is stdout (-)")
    made.add_argument("--keep", action="store_true", help="put the rows into bench/results/ of this CPU")
    made.add_argument("--peer-python", default=sys.executable, help="a Python that has llama_cpp or openvino_genai")
    return made


class Session:
    """One run of a bench: its console, its rows as they come, and what becomes of them."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name, self.options, self.rows = name, options, []
        self.console = screen.console(options.json == "-")
        self.threads = machine.fix_threads(options.threads)
        self.say(machine.describe(self.threads))

    def say(self, text: str) -> None:
        self.console.print(text, style="dim", highlight=False, markup=False)

    def wants(self, engine: str) -> bool:
        return engine == "eager" or not self.options.engine or engine in self.options.engine

    def heat(self, rows: list[contest.Row]) -> None:
        """Plays rows that are set up and takes their figures."""
        probes = contest.play(rows, self.options.rounds)
        for row in rows:
            self.rows.append(contest.summary(row, probes))
            shown = ", ".join(
                f"{one['engine']} {one['ms']:.3g}" if "ms" in one else f"{one['engine']} -"
                for one in self.rows[-1]["engines"]
            )
            self.say(f"{row.name}: {shown} ms")

    def finish(self) -> int:
        """The table, the files; 1 where the figures can't stand."""
        self.console.print(table(self.name, self.rows))
        facts = self.facts()
        if self.options.json == "-":
            print(json.dumps(facts, indent=1))
        elif self.options.json:
            Path(self.options.json).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        found = contest.faults(self.rows)
        for fault in found:
            self.console.print(fault, style="red", highlight=False, markup=False)
        if self.options.keep and not found:
            keep(facts)
        return 1 if found else 0

    def facts(self) -> dict:
        return {
            "bench": self.name,
            "machine": machine.describe(self.threads),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "command": shlex.join(["./dev", "bench", self.name, *shown_arguments(sys.argv[1:])]),
            "commit": commit(),
            "rows": self.rows,
        }


def shown_arguments(arguments: list[str]) -> list[str]:
    """Without what names a place on this machine."""
    hidden = {"--peer-python", "--json"}
    return [
        one
        for before, one in zip(["", *arguments], arguments, strict=False)
        if one not in hidden and before not in hidden
    ]


def commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


# ---- the table


def table(name: str, rows: list[dict]) -> Table:
    made = Table(title=f"{name}: medians of the rounds", title_justify="left")
    for column in ("row", "engine"):
        made.add_column(column)
    for column in ("ms", "best", "of floor", "x eager"):
        made.add_column(column, justify="right")
    extras = sorted({key for row in rows for one in row["engines"] for key in one} - KNOWN)
    for column in extras:
        made.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        for index, one in enumerate(row["engines"]):
            head = f"{row['row']}\n  floor {row['floor_ms']:.3g} ms ({row['clock']})" if index == 0 else ""
            made.add_row(head, one["engine"], *cells(one), *(shown(one.get(key)) for key in extras))
        made.add_section()
    return made


KNOWN = {"engine", "ms", "best_ms", "share", "ratio", "rounds", "missing"}


def cells(one: dict) -> tuple[str, ...]:
    if "missing" in one:
        return (f"[dim]{one['missing'][:60]}", "", "", "")
    ratio = "-" if one["ratio"] is None else f"{one['ratio']:.2f}"
    return (f"{one['ms']:.3g}", f"{one['best_ms']:.3g}", f"{one['share']:.0%}", ratio)


def shown(value: object) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


# ---- what is kept


def file_name(cpu: str) -> str:
    """Letters and numbers of a CPU's name."""
    return re.sub(r"[^a-z0-9]+", "-", cpu.lower()).strip("-") + ".json"


def keep(facts: dict) -> None:
    """Puts the rows of a run in the place of the kept rows of the same names."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / file_name(machine.cpu_model())
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cpu": machine.cpu_model(), "rows": {}}
    rows = kept["rows"].setdefault(facts["bench"], {})
    note = {key: facts[key] for key in ("date", "command", "commit", "machine")}
    for row in facts["rows"]:
        rows[row["row"]] = {**rounded(row), **note}
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def rounded(value: object) -> object:
    """Four digits are more than such figures have, and keep the files small."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value
