"""A recording that a bug report can carry: the graph's calls, the shapes of its inputs, seeds; no weights.

It is JSON, so reading one runs no code of the sender's: only operators of torch.ops and Python's arithmetic are called.
"""

from __future__ import annotations

import json
import operator
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

FORMAT = "graphex recording 1"
_WORDS = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}
_ARITHMETIC = ("add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "pow", "getitem")


def save(path: str | os.PathLike[str], replayer: Any, inputs: list[Any], numbers: list[Any], values: Any) -> None:
    """Writes a recording. ValueError for a graph that draws from a generator of the user's."""
    blocks: dict[int, int] = {}
    data = {
        "format": FORMAT,
        "made_with": {"torch": torch.__version__, "machine": platform.machine()},
        "seed": torch.initial_seed(),
        "options": {k: v for k, v in values.items() if isinstance(v, str | int | float | bool | list | type(None))},
        "numbers": numbers,
        "inputs": [_input(i, blocks.setdefault(id(i.block), len(blocks))) for i in inputs],
        "calls": [_call(node) for node in replayer.graph.graph.nodes if node.op not in ("placeholder", "output")],
    }
    Path(path).write_text(json.dumps(data, indent=1))


def _input(i: Any, block: int) -> dict[str, Any]:
    layout, tensor = i.layout, i.tensor
    found: dict[str, Any] = {"dtype": _word(layout.dtype), "shape": list(layout.shape), "strides": list(layout.strides)}
    found |= {"offset": layout.offset, "conj": layout.conj, "neg": layout.neg, "memory": block}
    found |= {"written": i.block.written, "node": i.node.name}
    if not layout.dtype.is_floating_point and not layout.dtype.is_complex and tensor.numel():
        found["between"] = [int(tensor.min()), int(tensor.max())]  # indices have to be in range
    return found


def _word(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _call(node: fx.Node) -> dict[str, Any]:
    if node.op == "get_attr":
        raise ValueError("a graph that draws from a generator of the user's can't be saved; use the default generator")
    target = node.target
    name = str(target) if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", "")
    if not isinstance(target, torch._ops.OpOverload) and getattr(operator, name, None) is not target:
        raise ValueError(f"a recording can't hold a call of {target}; only operators of torch.ops and arithmetic")
    if isinstance(target, torch._ops.OpOverload):
        name = f"{target.namespace}.{target._opname}.{target._overloadname}"
    marks = node.meta.get("custom")
    return {
        "node": node.name,
        "target": name,
        "args": _encoded(list(node.args)),
        "kwargs": {key: _encoded(value) for key, value in node.kwargs.items()},
        **({"marks": marks} if marks else {}),
    }


def _encoded(value: Any) -> Any:
    if isinstance(value, fx.Node):
        return {"node": value.name}
    if isinstance(value, list | tuple):
        return [_encoded(v) for v in value]
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for kind, word in _WORDS.items():
        if isinstance(value, kind):
            return {word: _word(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"a recording can't hold an argument of type {type(value).__name__}")


def _decoded(value: Any, nodes: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_decoded(v, nodes) for v in value]
    if not isinstance(value, dict):
        return value
    [(kind, said)] = value.items()
    if kind == "node":
        return nodes[said]
    if kind == "complex":
        return complex(*said)
    if kind == "device":
        return torch.device(said)
    found = getattr(torch, said, None) if kind in _WORDS.values() else None
    if type(found) not in _WORDS or _WORDS[type(found)] != kind:
        raise ValueError(f"a recording holds {kind} {said!r}, which torch {torch.__version__} doesn't know")
    return found


def load(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The recording of a file, with inputs drawn anew, and the file's data. ValueError for another kind of file."""
    from ..capture.recording import Block, Input, Layout, Recording

    try:
        data = json.loads(Path(path).read_text())
    except (UnicodeDecodeError, json.JSONDecodeError) as why:
        raise ValueError(f"{path} is no recording of graphex: {why}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"{path} is no recording of graphex in the format {FORMAT!r}; save one by save_recording()")
    recording, generator = Recording(), torch.Generator().manual_seed(0)
    blocks: dict[int, Block] = {}
    memories = _memories(data["inputs"], generator)
    nodes: dict[str, Any] = {}
    for said in data["inputs"]:
        layout = Layout(
            getattr(torch, said["dtype"]), tuple(said["shape"]), tuple(said["strides"]), said["offset"], *_marks(said)
        )
        memory = memories[said["memory"]]
        block = blocks.setdefault(said["memory"], Block(None, memory.untyped_storage()))
        block.written = said["written"]
        node = nodes[said["node"]] = recording.graph.placeholder(said["node"])
        plain = torch.empty(0, dtype=layout.dtype)
        plain.set_(memory.untyped_storage(), layout.offset, layout.shape, layout.strides)
        recording.inputs.append(Input(node, layout.marked(plain), block, layout))
    for k, number in enumerate(data["numbers"], 1):
        nodes[f"number_{k}"] = number
    for call in data["calls"]:
        args, kwargs = _decoded(call["args"], nodes), {k: _decoded(v, nodes) for k, v in call["kwargs"].items()}
        made = recording.call(_target(call["target"]), tuple(args), kwargs)
        if call.get("marks"):
            made.meta["custom"] = call["marks"]
        nodes[call["node"]] = made
    recording.graph.output(())
    return recording, data


def _marks(said: dict[str, Any]) -> tuple[bool, bool]:
    return bool(said["conj"]), bool(said["neg"])


def _target(name: str) -> Any:
    if "." not in name:
        if name not in _ARITHMETIC:
            raise ValueError(f"a recording calls {name!r}, which is none of {', '.join(_ARITHMETIC)}")
        return getattr(operator, name)
    namespace, packet, overload = name.split(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    except AttributeError:
        raise ValueError(f"a recording calls {name}, which isn't registered here; import what defines it") from None


def _memories(inputs: list[dict[str, Any]], generator: torch.Generator) -> dict[int, torch.Tensor]:
    """Memory for the inputs, filled with numbers of their kind."""
    memories: dict[int, torch.Tensor] = {}
    for said in inputs:
        dtype = getattr(torch, said["dtype"])
        extent = said["offset"] + 1 + sum((n - 1) * s for n, s in zip(said["shape"], said["strides"], strict=True))
        old = memories.get(said["memory"])
        if old is not None and old.nbytes >= extent * dtype.itemsize:
            continue
        if dtype.is_floating_point or dtype.is_complex:
            made = torch.randn(max(extent, 0), generator=generator, dtype=torch.float64).to(dtype)
        else:
            low, high = said.get("between", [0, 1])
            made = torch.randint(low, high + 1, (max(extent, 0),), generator=generator).to(dtype)
        memories[said["memory"]] = made
    return memories


def replay(path: str | os.PathLike[str]) -> Iterator[tuple[bool, str]]:
    """Runs a recording by graphex and by eager PyTorch; yields per written input whether they agree, and a line."""
    from ..capture.replayer import Replayer
    from ..native import core
    from ..options import resolve

    mine, data = load(path)
    theirs, _ = load(path)
    known = {name: value for name, value in data["options"].items() if name in resolve()}
    replayer = Replayer(mine, FakeTensorMode(), resolve(known), core().Pool())
    with torch.no_grad():
        torch.manual_seed(data["seed"])
        replayer([i.tensor for i in mine.inputs])
        torch.manual_seed(data["seed"])
        fx.GraphModule(theirs.root, theirs.graph)(*[i.tensor for i in theirs.inputs])
    yield True, "native" if replayer.program is not None else "runs by eager PyTorch, so there is nothing to compare"
    for k, (a, b) in enumerate(zip(mine.inputs, theirs.inputs, strict=True)):
        if a.block.written:
            yield _compared(k, a.tensor, b.tensor)


def _compared(k: int, got: torch.Tensor, expected: torch.Tensor) -> tuple[bool, str]:
    what = f"input {k}: {_word(got.dtype)} {list(got.shape)}"
    rtol = {torch.bfloat16: 4e-2, torch.float16: 1e-2, torch.float64: 1e-7}.get(got.dtype, 1e-4)
    try:
        torch.testing.assert_close(got, expected, rtol=rtol, atol=rtol, equal_nan=True)
    except AssertionError as why:
        return False, f"{what}: differs from eager PyTorch. {' '.join(str(why).split())}"
    return True, f"{what}: agrees with eager PyTorch within {rtol}"
