"""A plain interpreter of the IR's text in torch operators: slow, independent of the C++ core, strict.

`compile(text, signature, islands, options)` has the shape of graphex._core.compile, so it can stand in for the native
module. Every value is checked against its type, views are as_strided of their base, and nothing writes what it reads.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from ir_text import Attrs, Node, Type

REDUCED = (torch.float16, torch.bfloat16)
SIZE_NAMES = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max}


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in REDUCED else dtype


def widened(*xs: torch.Tensor) -> list[torch.Tensor]:
    """Operands in their shared compute type; it has to be shared."""
    types = {wide(x.dtype) for x in xs}
    assert len(types) == 1, f"operands compute in {types}"
    return [x.to(wide(x.dtype)) for x in xs]


UNARY = "abs acos asin atan bitwise_not ceil cos cosh erf exp exp2 expm1 floor isinf isnan log log10 log1p log2 neg "
UNARY += "reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc relu"
BINARY = (
    "add atan2 bitwise_and bitwise_or bitwise_xor div eq fmax fmin fmod ge gt le logical_and logical_or logical_xor "
)
BINARY += "lt maximum minimum mul ne pow remainder sub floor_divide"
ELEMENTWISE: dict[str, Any] = {name: getattr(torch, name) for name in (UNARY + " " + BINARY).split()}
ELEMENTWISE |= {
    "logical_not": torch.logical_not,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "trunc_divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
}
RESULTS: dict[str, Any] = {}


def op(*names: str) -> Any:
    def register(function: Any) -> Any:
        RESULTS.update(dict.fromkeys(names, function))
        return function

    return register


@op("where")
def where(a: Attrs, c: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    assert c.dtype is torch.bool
    return torch.where(c, *widened(x, y))


@op("cast", "copy")
def same(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    return x


@op("cat")
def cat(a: Attrs, *xs: torch.Tensor) -> torch.Tensor:
    assert len({x.dtype for x in xs}) == 1 and len({x.dim() for x in xs}) == 1
    return torch.cat(xs, a.dim)


@op("region_write")
def region_write(a: Attrs, x: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    out = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)
    assert src.dtype == x.dtype
    torch.as_strided(out, src.shape, a.strides, a.offset).copy_(src)
    return out


def over(x: torch.Tensor, a: Attrs) -> tuple[int, ...]:
    dims = a.get("dims", [])
    return tuple(dims) if dims else tuple(range(x.dim()))


@op("sum")
def sum_(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    return torch.sum(x.to(wide(x.dtype)), over(x, a), a.get("keepdim", False), dtype=wide(x.dtype))


@op("prod")
def prod(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    x = x.to(wide(x.dtype))
    for d in sorted(over(x, a), reverse=True):
        x = torch.prod(x, d, a.get("keepdim", False), dtype=x.dtype)
    return x


@op("amax", "amin", "any", "all")
def extreme(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    return getattr(torch, a.op)(x, over(x, a), a.get("keepdim", False))


@op("argmax", "argmin")
def arg_extreme(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    return getattr(torch, a.op)(x, None if a.get("flat") else a.dim, a.get("keepdim", False))


@op("cumsum")
def cumsum(a: Attrs, x: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(x.to(wide(x.dtype)), a.dim, dtype=wide(x.dtype))


@op("sort")
def sort(a: Attrs, x: torch.Tensor) -> Any:
    x = x.contiguous()
    return torch.sort(x, dim=a.dim, descending=a.descending, stable=x.shape[a.dim] >= a.stable_from)


@op("topk")
def topk(a: Attrs, x: torch.Tensor) -> Any:
    return torch.topk(x, a.k, a.dim, a.largest, a.sorted)


@op("matmul")
def matmul(a: Attrs, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    assert x.dim() == y.dim() and x.dim() in (2, 3)
    return torch.matmul(*widened(x, y))


@op("addmm")
def addmm(a: Attrs, c: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    c, x, y = widened(c, x, y)
    return a.beta * c + a.alpha * torch.matmul(x, y)


@op("attention")
def attention(a: Attrs, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None) -> Any:
    group = a.get("group", 1)
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    q, k, v = widened(q, k, v)
    scores = q @ k.transpose(-1, -2) * a.scale
    if a.get("causal"):
        below = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~below, -math.inf)
    if mask is not None:
        assert mask.dim() == 4
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)


@op("index_select")
def index_select(a: Attrs, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    flat = torch.index_select(x, a.dim, i.reshape(-1))
    return flat.reshape(*x.shape[: a.dim], *i.shape, *x.shape[a.dim + 1 :])


@op("index")
def index(a: Attrs, x: torch.Tensor, *indices: torch.Tensor) -> torch.Tensor:
    return x[(slice(None),) * a.dim + indices]


@op("index_put")
def index_put(a: Attrs, x: torch.Tensor, values: torch.Tensor, *indices: torch.Tensor) -> torch.Tensor:
    assert values.dtype == x.dtype
    return torch.ops.aten.index_put(x, [None] * a.dim + list(indices), values, a.get("accumulate", False))


@op("gather")
def gather(a: Attrs, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.gather(x, a.dim, i.long())


@op("scatter", "scatter_add", "index_copy")
def scatter(a: Attrs, x: torch.Tensor, i: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    assert src.dtype == x.dtype
    return getattr(torch, a.op)(x, a.dim, i.long(), src)


@op("index_add")
def index_add(a: Attrs, x: torch.Tensor, i: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    alpha = a.alpha if x.dtype.is_floating_point else int(a.alpha)
    return torch.index_add(x, a.dim, i, src, alpha=alpha)


class Program:
    def __init__(self, text: str, signature: dict[str, Any], islands: list[Any], options: dict[str, Any]) -> None:
        self.signature, self.islands = signature, islands
        self.symbols: list[str] = []
        self.inputs: list[tuple[str, Type]] = []
        self.nodes: list[Node] = []
        self.writes: list[tuple[str, str]] = []
        self.returns: list[str] = []
        for line in text.strip().splitlines()[1:-1]:
            self._line(line.strip())
        assert len(self.symbols) == len(signature["symbols"])
        named = [a[1] for a in signature["args"] if a[0] == "tensor"] + [c[0] for c in signature["constants"]]
        assert sorted(named) == list(range(len(self.inputs)))

    def _line(self, line: str) -> None:
        words = line.replace(",", " ").split()
        if words[0] == "sym":
            self.symbols = words[1:]
        elif words[0] == "write":
            self.writes.append((words[1], words[3]))
        elif words[0] == "return":
            self.returns = words[1:]
        else:
            node = Node(line)
            if node.op == "input":
                self.inputs.append(node.results[0])
            else:
                self.nodes.append(node)

    def _sizes(self, args: list[Any]) -> dict[str, int]:
        values = {}
        for name, (kind, i, *dim) in zip(self.symbols, self.signature["symbols"], strict=True):
            source = args[i]
            values[name] = source if kind == "arg" else (source.shape if kind == "size" else source.stride())[dim[0]]
        return values

    def __call__(self, args: list[Any]) -> list[Any]:
        with torch.no_grad():
            return self._run(args)

    def _run(self, args: list[Any]) -> list[Any]:
        sizes = self._sizes(args)

        def size(text: str) -> int:
            return int(text) if text.lstrip("-").isdigit() else eval(text, {**SIZE_NAMES, **sizes})  # noqa: S307

        tensors: dict[int, torch.Tensor] = dict(self.signature["constants"])
        tensors |= {a[1]: args[i] for i, a in enumerate(self.signature["args"]) if a[0] == "tensor"}
        env: dict[str, torch.Tensor] = {}
        bases: dict[str, torch.Tensor] = {}
        for i, (name, type_) in enumerate(self.inputs):
            type_.check(tensors[i], size, name)
            env[name] = bases[name] = tensors[i].detach()
        before = {name: value.clone() for name, value in env.items()}
        for node in self.nodes:
            self._node(node, env, bases, size)
        for name, value in before.items():
            assert torch.equal(torch.nan_to_num(value), torch.nan_to_num(env[name])), f"{name} was written to"
        staged = [(env[a], env[b].clone()) for a, b in self.writes]
        for target, value in staged:
            assert target.dtype == value.dtype and target.shape == value.shape
            target.copy_(value)
        outputs = [self._output(entry, args, env, size) for entry in self.signature["outputs"]]
        args.clear()
        return outputs

    def _output(self, entry: list[Any], args: list[Any], env: dict[str, torch.Tensor], size: Any) -> Any:
        kind, *rest = entry
        if kind == "value":
            value = env[self.returns[rest[0]]]
            listed_before = self.returns[rest[0]] in self.returns[: rest[0]]
            return value.detach() if listed_before else value
        return {
            "arg": lambda: args[rest[0]],
            "int": lambda: size(rest[0]),
            "const": lambda: rest[0],
            "none": lambda: None,
        }[kind]()

    def _node(self, node: Node, env: dict[str, torch.Tensor], bases: dict[str, torch.Tensor], size: Any) -> None:
        attrs, inputs = Attrs(node, size), [env[name] for name in node.inputs]
        object.__setattr__(attrs, "op", node.op)
        if node.op == "view":
            name, type_ = node.results[0]
            base = bases[node.inputs[0]]
            like = type_.empty(size)
            offset = attrs.offset + base.storage_offset()
            env[name], bases[name] = base.as_strided(like.shape, like.stride(), offset), base
            return
        if node.op == "island":
            made = self.islands[attrs.call](*inputs, *attrs.get("ints", []))
        else:
            made = self._compute(node, attrs, inputs, size)
        made = made if isinstance(made, tuple) else (made,)
        for (name, type_), value in zip(node.results, made, strict=True):
            if node.op == "island":
                type_.check(value, size, node.line)
                env[name] = bases[name] = value
                continue
            out = type_.empty(size)
            assert out.shape == value.shape, f"{node.line}: made {tuple(value.shape)}"
            env[name] = bases[name] = out.copy_(value)

    def _compute(self, node: Node, attrs: Attrs, inputs: list[torch.Tensor], size: Any) -> Any:
        dtype = node.results[0][1].dtype
        if node.op in ELEMENTWISE:
            made = ELEMENTWISE[node.op](*widened(*inputs))
            assert wide(made.dtype) == wide(dtype), f"{node.line}: computes {made.dtype}"
            return made
        if node.op == "full":
            return torch.full([size(s) for s in node.results[0][1].shape], attrs.get("value"), dtype=dtype)
        if node.op == "iota":
            n = size(node.results[0][1].shape[0])
            return torch.arange(n, dtype=dtype) * attrs.get("step", 1) + attrs.get("start", 0)
        return RESULTS[node.op](attrs, *inputs)

    def explain(self) -> dict[str, Any]:
        return {"engine": "interpreter", "nodes": len(self.nodes)}


def compile(text: str, signature: dict[str, Any], islands: list[Any], options: dict[str, Any]) -> Program:  # noqa: A001
    return Program(text, signature, islands, options)
