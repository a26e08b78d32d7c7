"""Checks that files and functions stay small enough to read in one go.

A file over 400 lines or a function over 60 needs a line in tools/size_exceptions.txt that says why; over 800 and 100
nothing helps. A line of that file that is no longer needed is a fault too, so the list only shrinks.
"""

import ast
import re
import sys
from pathlib import Path

FILE_LINES, FILE_MOST = 400, 800
FUNCTION_LINES, FUNCTION_MOST = 60, 100
FOLDERS = ["graphex", "python", "tools", "tests", "bench", "examples"]
CPP = {".h", ".cc"}

NOISE = re.compile(
    r'R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*"
    r"|/\*.*?\*/"
    r"|^[ \t]*\#(?:[^\n\\]|\\\n|\\.)*",  # preprocessor line with its continuations
    re.DOTALL | re.MULTILINE,
)
SCOPE = re.compile(
    r"^(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace|class|struct|union|extern)\b(?!.*\)\s*(?:const|noexcept|override|->.*)*\s*$)",
    re.DOTALL,
)
TEST = re.compile(r"\b(TEST(?:_[FP])?)\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)")
MACRO_CALL = re.compile(r"^(?!TEST)[A-Z][A-Z0-9_]{2,}\([^{}\n]*\)$", re.MULTILINE)  # alone on a line, no semicolon
CALLED = re.compile(r"([\w:~]+|operator\s*\S+?)\s*\(")


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def function_name(head):
    test = TEST.search(head)
    if test:
        return f"{test[2]}.{test[3]}"
    called = CALLED.search(head)
    return called[1] if called else None


def cpp_functions(text):
    """(name, first line, lines) of each function at namespace or class level; a rough brace count, no parser."""
    text = MACRO_CALL.sub(blank, NOISE.sub(blank, text))
    head_begin, scopes = 0, []
    for mark in re.finditer(r"[{};]", text):
        at = mark.start()
        if mark[0] == "{":
            scopes.append(opened(text[head_begin:at], scopes, text.count("\n", 0, at) + 1))
        elif mark[0] == "}" and scopes:
            kind, *rest = scopes.pop()
            if kind == "function":
                yield rest[0], rest[1], text.count("\n", 0, at) + 1 - rest[1] + 1
        head_begin = at + 1


def opened(head, scopes, line):
    """What a brace after `head` on `line` opens."""
    if SCOPE.match(head.strip()):
        return ("scope",)
    if all(kind == "scope" for kind, *_ in scopes) and function_name(head):
        return ("function", function_name(head), line - head.lstrip().count("\n"))
    return ("block",)


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in CPP or path.suffix == ".py":
                yield path
    if (root / "dev").exists():
        yield root / "dev"


def measure(root):
    """(subject, place, lines, limit, most) of each file and function."""
    for path in sources(root):
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        yield name, name, text.count("\n"), FILE_LINES, FILE_MOST
        functions = cpp_functions(text) if path.suffix in CPP else python_functions(text)
        for function, line, lines in functions:
            yield f"{name}:{function}", f"{name}:{line}: {function}", lines, FUNCTION_LINES, FUNCTION_MOST


def exceptions(root):
    path = root / "tools" / "size_exceptions.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {line.split(None, 1)[0]: line for line in lines if line.strip() and not line.startswith("#")}


def check(root):
    known, used, faults = exceptions(root), set(), []
    for subject, place, lines, limit, most in measure(root):
        if lines <= limit:
            continue
        used.add(subject)
        if lines > most:
            faults.append(f"{place}: {lines} lines, {most} is the most there is; split it")
        elif subject not in known:
            faults.append(
                f"{place}: {lines} lines, over {limit}; split it or give the reason in tools/size_exceptions.txt"
            )
    for subject, line in known.items():
        if len(line.split(None, 1)) < 2:
            faults.append(f"tools/size_exceptions.txt: {subject} has no reason")
        if subject not in used:
            faults.append(f"tools/size_exceptions.txt: {subject} is small enough now, remove its line")
    return faults


if __name__ == "__main__":
    found = check(Path(__file__).resolve().parent.parent)
    print("\n".join(found))
    sys.exit(1 if found else 0)
