"""What a program's lines may do. Each operator picks variables, writes a line, and tries it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .generate import Generator, Rejected

Operator = Callable[[Generator], object]


def is_float(x: torch.Tensor) -> bool:
    return x.is_floating_point()


def is_number(x: torch.Tensor) -> bool:
    return x.dtype is not torch.bool


def is_whole(x: torch.Tensor) -> bool:
    return not x.is_floating_point() and x.dtype is not torch.bool


def is_bool(x: torch.Tensor) -> bool:
    return x.dtype is torch.bool


# ---- views


def _range(g: Generator, size: int) -> str:
    if size >= 2 and g.chance(15):
        return g.choose(("0", "-1", "1"))
    return g.choose((":", ":", ":", "1:", ":-1", "::2", "1::2", "0:1", "1:3", "-2:", ":0" if g.chance(20) else ":2"))


def slices(g: Generator) -> str:
    x = g.pick(lambda t: t.dim() > 0)
    count = 1 + g.random.randrange(g.tensor(x).dim())
    ranges = [_range(g, g.tensor(x).shape[i]) for i in range(count)]
    if g.chance(10):
        ranges.insert(g.random.randrange(count + 1), "None")
    return f"{x}[{', '.join(ranges)}]"


def rearranged(g: Generator) -> str:
    x = g.pick(lambda t: t.dim() > 0)
    rank = g.tensor(x).dim()
    order = g.random.sample(range(rank), rank)
    a, b = g.dim(x), g.dim(x)
    return f"{x}." + g.choose(
        (
            f"transpose({a}, {b})",
            f"permute({', '.join(map(str, order))})",
            f"movedim({a}, {b})",
            f"unsqueeze({g.random.randrange(rank + 1)})",
            f"squeeze({a})",
            "squeeze()",
            f"select({a}, {g.choose((0, -1, 1))})",
            "detach()",
            f"narrow({a}, {g.choose((0, 1))}, {g.choose((1, 2))})",
        )
    )


def repeated(g: Generator) -> str:
    x = g.pick(lambda t: t.dim() < 3)
    rank = g.tensor(x).dim()
    at = g.random.randrange(rank + 1)
    sizes = ["-1"] * (rank + 1)
    sizes[at] = g.choose(("2", "3", "1", f"{x}.shape[0]" if rank else "2"))
    return f"{x}.unsqueeze({at}).expand({', '.join(sizes)})"


def reshaped(g: Generator) -> str:
    x = g.pick(lambda t: t.dim() > 0)
    t, a, b = g.tensor(x), g.dim(x), g.dim(x)
    if g.chance(20) and t.dim() == 2:
        return f"{x}.{g.choose(('view', 'reshape'))}({x}.shape[1], {x}.shape[0])"
    if g.chance(20) and t.shape[a] % 2 == 0:
        return f"{x}.unflatten({a}, ({g.choose(('2, -1', '-1, 2'))}))"
    if g.chance(25):
        return f"{x}.{g.choose(('view', 'reshape'))}(-1)"
    if g.chance(15):
        return f"{x}.view(-1, 1)"
    return f"{x}.flatten({min(a, b)}, {max(a, b)})"


def parted(g: Generator) -> str:
    x = g.pick(lambda t: t.dim() > 0)
    d, part = g.dim(x), g.choose((0, 0, -1, 1))
    return g.choose(
        (
            f"{x}.split({g.choose((1, 2, 3))}, {d})[{part}]",
            f"{x}.chunk(2, {d})[{part}]",
            f"{x}.unbind({d})[{part}]",
            f"{x}.tensor_split(3, {d})[{part}]",
        )
    )


def diagonal(g: Generator) -> str:
    x = g.pick(lambda t: t.dim() >= 2)
    return f"{x}.diagonal({g.choose((0, 0, 1, -1))}, {g.choose(('0, 1', '1, 0', '-2, -1'))})"


def unfolded(g: Generator) -> str:
    x = g.pick(lambda t: t.dim() > 0)
    return f"{x}.unfold({g.dim(x)}, {g.choose((1, 2, 3))}, {g.choose((1, 2))})"


def strided(g: Generator) -> str:
    x = g.pick(lambda t: t.numel() >= 8 and t.is_contiguous() and t.storage_offset() == 0)
    return f"{x}.as_strided({g.choose(('(2, 2), (3, 1)', '(3,), (2,), 1', '(2, 2), (1, 2), 2', '(2, 3), (0, 1)'))})"


VIEWS = (slices,) * 4 + (rearranged,) * 5 + (reshaped,) * 3 + (parted,) * 2 + (repeated, diagonal, unfolded, strided)


def view(g: Generator) -> None:
    g.attempt(g.choose(VIEWS)(g))


# ---- elementwise


def _broadcasts(a: torch.Tensor, b: torch.Tensor) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a.shape), reversed(b.shape), strict=False))


def _other(g: Generator, x: str, exact: bool = False) -> str:
    """A second operand: a variable that goes with x, or a number."""
    if g.chance(20):
        return g.choose(("2", "3", "-1", "0.5", "1.5", "True"))
    return g.pick(lambda t: _broadcasts(g.tensor(x), t), exact)


def binary(g: Generator) -> None:
    x = g.pick()
    op = g.choose(("{} + {}", "{} - {}", "{} * {}", "torch.add({}, {}, alpha=2)", "torch.where({0} > 0, {0}, {1})"))
    y = _other(g, x)
    if "where" in op and g.is_inexact(x):
        raise Rejected
    g.attempt(op.format(*((y, x) if g.chance(30) and op[0] == "{" else (x, y))))


def chosen(g: Generator) -> None:
    x = g.pick()
    y = g.pick(lambda t: _broadcasts(g.tensor(x), t))
    g.attempt(f"torch.{g.choose(('maximum', 'minimum'))}({x}, {y})")


def compared(g: Generator) -> None:
    x = g.pick(exact=True)
    g.attempt(f"{x} {g.choose(('<', '<=', '>', '>=', '==', '!='))} {_other(g, x, exact=True)}")


def where(g: Generator) -> None:
    mask = g.pick(is_bool)
    x = g.pick(lambda t: _broadcasts(g.tensor(mask), t))
    y = _other(g, x)
    g.attempt(g.choose(("torch.where({0}, {1}, {2})", "{1}.masked_fill({0}, 3)")).format(mask, x, y))


def unary(g: Generator) -> None:
    x = g.pick(is_number)
    g.attempt(f"{x}.{g.choose(('neg()', 'abs()', 'relu()', 'square()', 'clamp(-2, 3)', 'clamp(min=0)', 'clone()'))}")


def rounded(g: Generator) -> None:
    x = g.pick(is_number, exact=True)
    g.attempt(f"{x}.{g.choose(('floor()', 'round()', 'trunc()', 'sign()', 'remainder(3)', 'div(4)'))}")


def approximate(g: Generator) -> None:
    x = g.pick()
    fun = g.choose(("exp", "tanh", "sigmoid", "sin", "cos", "erf"))
    g.attempt(f"{x}.clamp(-3, 3).{fun}()" if fun == "exp" else f"{x}.{fun}()", inexact=True)


def whole(g: Generator) -> str:
    x = g.pick(lambda t: not is_float(t))
    if is_bool(g.tensor(x)):
        return g.attempt(g.choose(("~{0}", "{0} ^ True", "{0}.logical_not()", "{0}.long()")).format(x))
    text = g.choose(("{0} // 2", "{0} % 3", "{0} & 3", "{0} | 1", "{0} ^ 5", "{0} << 1", "~{0}", "{0} / 4"))
    return g.attempt(text.format(x))


def cast(g: Generator) -> None:
    x = g.pick()
    dtype = g.choose((torch.float32, torch.float32, torch.int64, torch.int32, torch.bool, torch.float64, torch.uint8))
    if is_float(g.tensor(x)) and not dtype.is_floating_point:
        if g.is_inexact(x):
            raise Rejected
        x = f"{x}.{'abs().' if dtype is torch.uint8 else ''}clamp(-100, 100)"
    g.attempt(f"{x}.to({dtype})")


# ---- in place


def overwritten(g: Generator) -> None:
    """An operator that changes a variable, and all that share its memory."""
    x = g.pick()
    t = g.tensor(x)
    plain = ("add_({})", "sub_({})", "mul_({})", "copy_({})", "copy_({})")
    if g.chance(60):
        text = g.choose(plain).format(_other(g, x) if g.chance(50) else g.pick(lambda y: _broadcasts(t, y)))
        if text.startswith("copy_") and text[6:-1] not in g.names:
            text = "fill_(2)"
    else:
        text = g.choose(("fill_(3)", "zero_()", "neg_()", "abs_()", "clamp_(-1, 2)", "relu_()", "add_(1, alpha=2)"))
    if g.chance(12):
        mask = g.pick(lambda y: is_bool(y) and _broadcasts(t, y))
        text = f"masked_fill_({mask}, 2)"
    if is_float(t):
        g.attempt(f"{x}.{text}", "" if g.chance(80) else "v")
    elif not any(is_float(g.tensor(y)) for y in g.used):
        g.attempt(f"{x}.{text}", "")


def overwritten_part(g: Generator) -> None:
    """x[...].op_(y), or torch's out-of-place twin."""
    part = g.choose((slices, slices, rearranged, diagonal))(g)
    text = g.choose(("mul_(2)", "fill_(1)", "add_(3)", "copy_({})", "copy_({})", "add_({})", "zero_()"))
    shape = tried(g, part)
    if "{}" in text:
        text = text.format(g.pick(lambda t: _broadcasts(shape, t) and t.dim() <= shape.dim()))
    g.attempt(f"{part}.{text}", "")


def tried(g: Generator, text: str) -> torch.Tensor:
    """What a text gives, without keeping it."""
    try:
        value = eval(text, g.scope)
    except Exception:
        raise Rejected from None
    return value


def region(g: Generator) -> None:
    x = g.pick(lambda t: t.dim() > 0)
    d, i = g.dim(x), g.choose((0, 1, -1))
    kind = g.random.randrange(3)
    start, end, step = g.choose((0, 1)), g.choose(("None", "3", "-1")), g.choose((1, 1, 2))
    part, call = (
        (f"{x}.select({d}, {i})", f"torch.select_scatter({x}, {{}}, {d}, {i})"),
        (
            f"{x}[{':, ' * d}{start}:{'' if end == 'None' else end}:{step}]",
            f"torch.slice_scatter({x}, {{}}, {d}, {start}, {end}, {step})",
        ),
        (f"{x}.diagonal()", f"torch.diagonal_scatter({x}, {{}})"),
    )[kind]
    shape = tried(g, part).shape
    same = [n for n in g.names if g.tensor(n).shape == shape]
    source = g.choose(same) if same and g.chance(70) else f"({part} + 1).to({x}.dtype)"
    g.used |= {source} & set(g.names)
    g.attempt(call.format(source))


# ---- indices


def _index(g: Generator, size: int) -> str:
    """A one-dimensional index below size: an input, or a constant."""
    fitting = [n for n in g.names if _is_index(g.tensor(n), size)]
    if fitting and g.chance(60):
        return g.choose(fitting)
    if size < 2:
        raise Rejected
    return g.choose(("torch.tensor([1, 0])", "torch.tensor([-1, 0])", "torch.arange(2)", "torch.tensor([1])"))


def _is_index(t: torch.Tensor, size: int) -> bool:
    good = t.dtype is torch.int64 and t.dim() == 1 and 0 < t.numel() <= size
    return good and bool((t >= 0).all() and (t < size).all()) and t.unique().numel() == t.numel()


def gathered(g: Generator) -> str:
    x = g.pick(lambda t: t.dim() > 0)
    d = g.dim(x)
    index = _index(g, g.tensor(x).shape[d])
    if index.startswith("torch.tensor([-"):
        return g.attempt(f"{x}[{':, ' * d}{index}]")
    lead = "[" + ", ".join(":" if i == d else "None" for i in range(g.tensor(x).dim())) + "]"
    return g.attempt(
        g.choose((f"{x}[{':, ' * d}{index}]", f"{x}.index_select({d}, {index})", f"{x}.gather({d}, {index}{lead})"))
    )


def scattered(g: Generator) -> None:
    x = g.pick(lambda t: t.dim() > 0)
    d = g.dim(x)
    index = _index(g, g.tensor(x).shape[d])
    if index.startswith("torch.tensor([-"):
        index = "torch.tensor([1, 0])"
    source = f"({x}.index_select({d}, {index}) + 1).to({x}.dtype)"
    end = g.choose(("", "_"))
    op = g.choose(("index_copy", "index_add", "index_fill", "index_put", "scatter", "scatter_add"))
    lead = "[" + ", ".join(":" if i == d else "None" for i in range(g.tensor(x).dim())) + "]"
    text = {
        "index_copy": f"index_copy{end}({d}, {index}, {source})",
        "index_add": f"index_add{end}({d}, {index}, {source})",
        "index_fill": f"index_fill{end}({d}, {index}, 2)",
        "index_put": f"index_put{end}(({index},), {x}.index_select(0, {index}), accumulate={g.chance(40)})",
        "scatter": f"scatter{end}({d}, {index}{lead}, 2)",
        "scatter_add": f"scatter_add{end}({d}, {index}{lead}, {x}.gather({d}, {index}{lead}))",
    }[op]
    g.attempt(f"{x}.{text}", "" if end else "v", inexact=True)


# ---- joining, reducing


def joined(g: Generator) -> str:
    x = g.pick(lambda t: t.dim() > 0)
    t, d = g.tensor(x), g.dim(x)
    if g.chance(25):
        y = g.pick(lambda o: o.shape == t.shape)
        return g.attempt(f"torch.stack([{x}, {y}], {d})")

    def fits(o: torch.Tensor) -> bool:
        return o.dim() == t.dim() and all(o.shape[i] == t.shape[i] for i in range(t.dim()) if i != d)

    parts = [x, *(g.pick(fits) for _ in range(1 + g.random.randrange(2)))]
    g.random.shuffle(parts)
    return g.attempt(f"torch.cat([{', '.join(parts)}], {d})")


def reduced(g: Generator) -> None:
    x = g.pick()
    t, rank = g.tensor(x), g.tensor(x).dim()
    dims = f"{g.dim(x)}, {g.chance(40)}" if rank and g.chance(80) else ""
    if rank > 1 and g.chance(20):
        dims = f"{tuple(g.random.sample(range(rank), 2))}"
    exact = ["amax", "amin"] if is_number(t) and "," in dims else []
    exact += ["any", "all"] if not g.is_inexact(x) and not dims.startswith("(") else []
    exact += ["argmax", "argmin"] if is_number(t) and not g.is_inexact(x) and not dims.startswith("(") else []
    near = ["sum"] + (["mean"] if is_float(t) else [])
    op = g.choose(near * 2 + exact)
    g.attempt(f"{x}.{op}({dims})", inexact=op in near)


def scanned(g: Generator) -> None:
    x = g.pick(lambda t: t.dim() > 0)
    op = g.choose((f"torch.softmax({x}, {g.dim(x)})", f"torch.log_softmax({x}, {g.dim(x)})", f"{x}.cumsum({g.dim(x)})"))
    g.attempt(op, inexact=True)


def multiplied(g: Generator) -> None:
    x = g.pick(lambda t: is_float(t) and t.dim() in (2, 3))
    t = g.tensor(x)
    y = g.pick(lambda o: o.dtype is t.dtype and o.dim() in (1, 2, t.dim()) and o.shape[-2:][0] == t.shape[-1])
    g.attempt(f"{x} @ {y}", inexact=True)


def made(g: Generator) -> None:
    x = g.pick()
    size = f"{x}.shape[{g.dim(x)}]"
    texts = ("torch.zeros_like({0})", "torch.ones_like({0})", "torch.arange({1})", "torch.full((2, {1}), 3)",
             "{0}.new_zeros({1})", "torch.ones(({1}, 2))", "{0}.contiguous()", "{0}.flip({2})", "{0}.clone()",
             "{0}.roll(1, {2})", "{0}.repeat_interleave(2, {2})", "{0}.tril()", "torch.full((), 2.5)",
             "{0} * {1}")  # fmt: skip
    g.attempt(g.choose(texts).format(x, size, g.dim(x)))


TABLE: dict[Operator, int] = {
    view: 30, binary: 14, chosen: 3, compared: 4, where: 5, unary: 4, rounded: 2, approximate: 4, whole: 4, cast: 6,
    overwritten: 14, overwritten_part: 12, region: 7, gathered: 4, scattered: 6, joined: 9, reduced: 8, scanned: 2,
    multiplied: 3, made: 6,
}  # fmt: skip
OPERATORS, WEIGHTS = list(TABLE), list(TABLE.values())
