"""python -m graphex env | options: what a bug report needs; what can be set."""

from __future__ import annotations

import argparse


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m graphex", description="graphex's own commands")
    verbs = parser.add_subparsers(dest="verb", required=True)
    env = verbs.add_parser("env", help="versions, machine and settings")
    env.add_argument("--json", action="store_true", help="print JSON")
    options = verbs.add_parser("options", help="what can be set, and npugraph_ex's options among it")
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument("--markdown", action="store_true", help="print the page docs/options.md")
    chosen = parser.parse_args()
    if chosen.verb == "env":
        from . import env as page

        page.show(as_json=chosen.json)
    else:
        from . import options_page

        options_page.show(as_json=chosen.json, as_markdown=chosen.markdown)


if __name__ == "__main__":
    main()
