"""python -m graphex env | options | replay-bug: what a bug report needs; what can be set; a recording run anew."""

from __future__ import annotations

import argparse
import sys


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m graphex", description="graphex's own commands")
    verbs = parser.add_subparsers(dest="verb", required=True)
    env = verbs.add_parser("env", help="versions, machine and settings")
    env.add_argument("--json", action="store_true", help="print JSON")
    options = verbs.add_parser("options", help="what can be set, and npugraph_ex's options among it")
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument("--markdown", action="store_true", help="print the page docs/options.md")
    replay = verbs.add_parser("replay-bug", help="run a recording of Graph.save_recording() and compare with eager")
    replay.add_argument("file")
    chosen = parser.parse_args()
    if chosen.verb == "env":
        from . import env as page

        page.show(as_json=chosen.json)
    elif chosen.verb == "replay-bug":
        sys.exit(_replay_bug(chosen.file))
    else:
        from . import options_page

        options_page.show(as_json=chosen.json, as_markdown=chosen.markdown)


def _replay_bug(file: str) -> int:
    from .debug import bug

    agrees = True
    try:
        for good, line in bug.replay(file):
            print(line)
            agrees &= good
    except (ValueError, OSError) as why:
        print(why, file=sys.stderr)
        return 2
    return 0 if agrees else 1


if __name__ == "__main__":
    main()
