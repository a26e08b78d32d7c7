"""Reads the IR's text line by line, for the interpreter: tokens, types, nodes, attributes."""

from __future__ import annotations

import re
from typing import Any

import torch

DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
}  # fmt: skip
TOKEN = re.compile(
    r'\s*("(?:\\.|[^"\\])*"|<-|-?\d+\.\d*(?:e[-+]?\d+)?|-?\d+e[-+]?\d+|%?[A-Za-z0-9_.]+|@\w+|[-+*(){}\[\],:=])'
)


class Text:
    """Tokens of one line."""

    def __init__(self, line: str) -> None:
        self.tokens = TOKEN.findall(line)
        assert "".join(self.tokens) == re.sub(r'\s+(?=(?:[^"]*"[^"]*")*[^"]*$)', "", line), line
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        got = self.next()
        assert got == token, f"expected {token}, got {got} in {self.tokens}"

    def until(self, *ends: str) -> str:
        """An expression's text up to a comma or a closing bracket of its own depth."""
        depth, parts = 0, []
        while depth or self.peek() not in ends:
            token = self.next()
            depth += (token in "([") - (token in ")]")
            parts.append(token)
        return "".join(parts)

    def list(self) -> list[str]:
        self.expect("[")
        items = []
        while not self.accept("]"):
            items.append(self.until(",", "]"))
            self.accept(",")
        return items


def row_major(shape: list[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


class Type:
    def __init__(self, text: Text) -> None:
        self.dtype = DTYPES[text.next()]
        self.shape = text.list()
        self.strides = text.list() if text.accept("strides") else None

    def empty(self, size: Any) -> torch.Tensor:
        shape = [size(s) for s in self.shape]
        strides = row_major(shape) if self.strides is None else [size(s) for s in self.strides]
        return torch.empty_strided(shape, strides, dtype=self.dtype)

    def check(self, value: torch.Tensor, size: Any, what: str) -> None:
        shape = [size(s) for s in self.shape]
        strides = row_major(shape) if self.strides is None else [size(s) for s in self.strides]
        assert value.dtype == self.dtype, f"{what}: {value.dtype} is not {self.dtype}"
        assert list(value.shape) == shape, f"{what}: shape {tuple(value.shape)} is not {shape}"
        pairs = zip(value.shape, value.stride(), strides, strict=True)
        assert value.numel() == 0 or all(n == 1 or a == b for n, a, b in pairs), (
            f"{what}: strides {value.stride()} not {strides}"
        )


class Node:
    def __init__(self, line: str) -> None:
        text = Text(line)
        self.line = line
        self.results: list[tuple[str, Type]] = []
        while text.peek().startswith("%"):
            name = text.next()
            text.expect(":")
            self.results.append((name, Type(text)))
            if not text.accept(","):
                text.expect("=")
        self.op = text.next()
        self.inputs: list[str] = []
        self.attrs: dict[str, str | list[str]] = {}
        if text.accept("("):
            while not text.accept(")"):
                self.inputs.append(text.next())
                text.accept(",")
        if text.accept("{"):
            while not text.accept("}"):
                key = text.next()
                text.expect("=")
                self.attrs[key] = text.list() if text.peek() == "[" else text.until(",", "}")
                text.accept(",")
        assert not text.peek(), line


class Attrs:
    """A node's attributes with the symbols' values put in."""

    def __init__(self, node: Node, size: Any) -> None:
        self.raw, self.size = node.attrs, size

    def get(self, name: str, default: Any = None) -> Any:
        raw = self.raw.get(name)
        if raw is None:
            return default
        if isinstance(raw, list):
            return [self.size(r) for r in raw]
        if raw in ("true", "false"):
            return raw == "true"
        if raw.startswith('"'):
            return raw[1:-1]
        if re.fullmatch(r"-?(inf|nan|\d+\.\d*(e[-+]?\d+)?|\d+e[-+]?\d+)", raw):
            return float(raw)
        return self.size(raw)

    def __getattr__(self, name: str) -> Any:
        value = self.get(name)
        assert value is not None, f"attribute {name} is missing"
        return value
