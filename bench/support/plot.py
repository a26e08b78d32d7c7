"""Bar charts as SVG, without a plotting library: a row of bars for each line, one colour an engine."""

from __future__ import annotations

from html import escape

COLOURS = {
    "graphex": "#c2410c",
    "eager": "#94a3b8",
    "eager, fp32": "#94a3b8",
    "inductor": "#2563eb",
    "llama.cpp": "#15803d",
    "openvino": "#7e22ce",
}
LABELS, PLOT, BAR, GAP, HEAD = 250, 480, 11, 9, 46  # pixels


def bars(title: str, rows: list[tuple[str, dict[str, float]]], note: str) -> str:
    """A chart of shares of the floor: rows of (label, engine -> share), 1 at the right end of the axis."""
    top, parts = HEAD, []
    for label, values in rows:
        parts.append(text(LABELS - 8, top + BAR * len(values) / 2 + 4, label, "end"))
        for engine, share in values.items():
            parts.append(bar(top, engine, share))
            top += BAR
        top += GAP
    engines = list(dict.fromkeys(engine for _, values in rows for engine in values))
    frame = [text(8, 16, title, weight="bold"), legend(engines), axis(top), text(8, top + 32, note, size=10)]
    width, height = LABELS + PLOT + 50, top + 42
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return (
        f'{head} font-family="sans-serif">\n<rect width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join([*frame, *parts])
        + "\n</svg>\n"
    )


def bar(top: float, engine: str, share: float) -> str:
    width = PLOT * min(share, 1.0)
    colour = COLOURS.get(engine, "#64748b")
    return f'<rect x="{LABELS}" y="{top}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}"/>' + text(
        LABELS + width + 4, top + BAR - 3, f"{share:.0%}", size=9
    )


def axis(bottom: float) -> str:
    lines = []
    for tenth in range(0, 11, 2):
        x = LABELS + PLOT * tenth / 10
        lines.append(f'<line x1="{x}" y1="{HEAD - 6}" x2="{x}" y2="{bottom}" stroke="#e2e8f0"/>')
        lines.append(text(x, bottom + 14, f"{10 * tenth} %", "middle", size=10))
    return "".join(lines)


def legend(engines: list[str]) -> str:
    parts, x = [], LABELS
    for engine in engines:
        parts.append(f'<rect x="{x}" y="24" width="10" height="10" fill="{COLOURS.get(engine, "#64748b")}"/>')
        parts.append(text(x + 14, 33, engine, size=11))
        x += 40 + 7 * len(engine)
    return "".join(parts)


def text(x: float, y: float, words: str, anchor: str = "start", size: int = 12, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )
