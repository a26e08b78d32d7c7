"""python -m graphex env: what a bug report needs."""

from __future__ import annotations

import argparse

from .env import show


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m graphex", description="graphex's own commands")
    verbs = parser.add_subparsers(dest="verb", required=True)
    env = verbs.add_parser("env", help="versions, machine and settings")
    env.add_argument("--json", action="store_true", help="print JSON")
    show(as_json=parser.parse_args().json)


if __name__ == "__main__":
    main()
