"""The table of options for people: as text, as JSON, and as docs/options.md (python -m graphex options --markdown)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .options import OPTIONS, Option

STATES = {
    "": "graphex's own",
    "same": "as npugraph_ex's: the same meaning",
    "satisfied": "as npugraph_ex's: accepted at any value, since what it asks for is always so",
    "refused": "as npugraph_ex's: refused at any value but the default",
}


def facts(option: Option) -> dict[str, Any]:
    """One option in plain types."""
    return {
        "name": option.name,
        "type": " or ".join(_kind(kind) for kind in option.kinds),
        "default": list(option.default) if isinstance(option.default, tuple) else option.default,
        "values": list(option.choices) or (list(option.limits) if option.limits else None),
        "state": option.state or "ours",
        "environment": option.env or None,
        "meaning": option.doc,
    }


def _kind(kind: Any) -> str:
    return {type(None): "None", object: "any", Callable: "function"}.get(kind) or kind.__name__


def _values(option: Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    if option.limits:
        return f"{option.limits[0]} to {option.limits[1]}"
    return " or ".join(_kind(kind) for kind in option.kinds if kind is not tuple)


def markdown() -> str:
    """The page docs/options.md."""
    lines = [
        "# Options",
        "",
        '`torch.compile(model, backend="graphex", options={...})`. An unknown name is an error that lists the known',
        "ones. Made by `python -m graphex options --markdown`.",
    ]
    for state, title in STATES.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", ""]
        lines += ["| option | values | default | environment | meaning |", "|---|---|---|---|---|"]
        for option in OPTIONS:
            if option.state == state:
                twin = f"`{option.env}`" if option.env else ""
                default = "" if option.default in ("", ()) else f"`{option.default}`"
                lines.append(f"| `{option.name}` | {_values(option)} | {default} | {twin} | {option.doc} |")
    return "\n".join(lines) + "\n"


def text() -> str:
    """For a terminal: names, defaults and meanings, by state."""
    width = max(len(option.name) for option in OPTIONS)
    lines = []
    for state, title in STATES.items():
        lines.append(f"{title}:")
        for option in OPTIONS:
            if option.state == state:
                lines.append(f"  {option.name:<{width}}  {option.doc} (default: {option.default!r})")
    return "\n".join(lines) + "\n"


def show(as_json: bool, as_markdown: bool) -> None:
    """Prints the table."""
    table = json.dumps([facts(option) for option in OPTIONS], indent=1) + "\n" if as_json else ""
    print(table or (markdown() if as_markdown else text()), end="")
