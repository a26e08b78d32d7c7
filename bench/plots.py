"""Writes docs/benchmarks.md and its plots from what bench/results/ keeps: ./dev bench plots.

A row comes into bench/results/ by --keep of the bench that measures it.
"""

import argparse
import json
from pathlib import Path

from support import plot, results

DOCS = results.ROOT / "docs"
HEAD = """# Benchmarks
Written by `./dev bench plots` from `bench/results/`, not by hand. A bar is the share of the floor: the time that
reading the bytes, or doing the operations, takes at least on that machine in that minute, over the time it took. The
floor's rates are probed in the same process around each round; times are medians of the rounds, in which the engines
take turns. "-": not measured, and why. `./dev bench NAME --help` says what each bench does and by which clock.
"""
TITLES = {
    "kernels": "Kernels",
    "attention": "Attention",
    "decode": "Decode, SmolLM2-135M",
    "prefill": "Prefill, SmolLM2-135M",
    "layers": "Layers of larger models",
}


def page(kept: list[tuple[str, dict]]) -> tuple[str, dict[str, str]]:
    """The page's text and its plots by file name."""
    text, plots = HEAD, {}
    for stem, facts in kept:
        text += f"\n## {facts['cpu']}\n"
        for bench in [name for name in TITLES if name in facts["rows"]]:
            rows = sorted(facts["rows"][bench].values(), key=lambda row: order(row["row"]))
            name = f"{stem}-{bench}.svg"
            plots[name] = plot.bars(f"{TITLES[bench]}: share of the floor", chart(rows), rows[0]["machine"])
            text += f"\n### {TITLES[bench]}\n![{TITLES[bench]}](benchmarks/{name})\n\n{table(rows)}\n{sources(rows)}"
    return text, plots


def order(name: str) -> list:
    """Numbers by size, words by letters."""
    words = name.replace("=", " ").replace("x", " ").split()
    return [(0, int(word), "") if word.isdigit() else (1, 0, word) for word in words]


def chart(rows: list[dict]) -> list[tuple[str, dict[str, float]]]:
    shares = [(row["row"], {one["engine"]: share_of(one) for one in row["engines"] if "ms" in one}) for row in rows]
    return [(label, values) for label, values in shares if values]


def share_of(one: dict) -> float:
    """By the replay clock where there are two."""
    return one.get("replay_share", one["share"])


def table(rows: list[dict]) -> str:
    engines = list(dict.fromkeys(one["engine"] for row in rows for one in row["engines"]))
    lines = [
        f"| row | floor ms | {' | '.join(f'{engine}, ms' for engine in engines)} | graphex, of floor |",
        "| --- |" + " ---: |" * (len(engines) + 2),
    ]
    for row in rows:
        by_name = {one["engine"]: one for one in row["engines"]}
        cells = [cell(by_name.get(engine)) for engine in engines]
        ours = by_name.get("graphex", {})
        share = f"{share_of(ours):.0%}" if "ms" in ours else "-"
        lines.append(f"| {row['row']} | {row['floor_ms']:.3g} | {' | '.join(cells)} | {share} |")
    return "\n".join(lines) + "\n"


def cell(one: dict | None) -> str:
    if one is None:
        return ""
    return f"{one['ms']:.3g}" if "ms" in one else f"- ({one['missing'][:60]})".replace("|", "/")


def sources(rows: list[dict]) -> str:
    """When and by which commands, each once."""
    notes = dict.fromkeys(f"`{row['command']}` on {row['date']}, commit {row['commit']}" for row in rows)
    return "\nMeasured by " + "; ".join(notes) + ".\n"


def main() -> None:
    argparse.ArgumentParser(
        prog="./dev bench plots", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    kept = [(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(results.FOLDER.glob("*.json"))]
    text, plots = page(kept)
    folder = DOCS / "benchmarks"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, drawing in plots.items():
        Path(folder / name).write_text(drawing, encoding="utf-8")
    (DOCS / "benchmarks.md").write_text(text, encoding="utf-8")
    print(f"docs/benchmarks.md: {sum(len(rows) for _, facts in kept for rows in facts['rows'].values())} rows")


if __name__ == "__main__":
    main()
