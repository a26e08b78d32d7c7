"""Linear layers over 8- or 4-bit weights: graphex.quantize, its report, and the operator that the layers call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import torch
from torch import nn

BLOCK = 32  # groups are multiples of it


@dataclass(frozen=True)
class Scheme:
    """How weights and inputs are held: bits of a weight, and whether a row of inputs rounds to 8 bits first."""

    bits: int
    round_input: bool
    group: int | None  # weights that share a scale unless the caller says otherwise; None: a whole row


SCHEMES = {
    "w8a8": Scheme(8, True, None),
    "w8a16": Scheme(8, False, None),
    "w4a8": Scheme(4, True, 32),
    "w4a16": Scheme(4, False, 32),
}


@torch.library.custom_op("graphex::quantized_linear", mutates_args=())
def quantized_linear(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None, round_input: bool
) -> torch.Tensor:
    """x [M, K] times the transpose of weight * scale, plus bias [N]; [M, N] in x's dtype.

    weight: int8 [N, K], or uint8 [N, K / 2] with two values + 8 a byte in blocks of 32 (byte j: j low, j + 16 high).
    scale: float32 [N, G], one for each K / G weights. With round_input each row of x becomes round(x * (127 / max |x|))
    first and its products sum exactly; a row with an infinity or a NaN gives NaN. Sums of floats are in float32.
    """
    if not round_input:
        y = x.float() @ dequantized(weight, scale).t()
    else:
        integers, steps = _rounded(x)
        values, groups = unpack(weight).double(), scale.shape[1]
        if groups == 1:
            y = (integers @ values.t()).float() * (steps * scale.t())
        else:
            inputs, values = integers.view(len(x), groups, -1), values.view(len(values), groups, -1)
            y = (torch.einsum("mgk,ngk->mng", inputs, values).float() * scale).sum(-1) * steps
    return (y if bias is None else y + bias.float()).to(x.dtype)


@quantized_linear.register_fake
def _(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None, round_input: bool
) -> torch.Tensor:
    return x.new_empty(x.shape[0], scale.shape[0])


def _rounded(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows as integers in float64, and the step of each row [M, 1] in float32."""
    x = x.float()
    most = x.abs().amax(1, keepdim=True) + (x * 0).sum(1, keepdim=True)
    inverse = 127 / most
    inverse = torch.where(inverse.isfinite(), inverse, 0)
    return (x * inverse).round().double(), most / 127


def pack(values: torch.Tensor) -> torch.Tensor:
    """Integers -8 .. 7, [N, K] with K a multiple of 32, two to a byte."""
    blocks = (values + 8).to(torch.uint8).view(len(values), -1, 2, BLOCK // 2)
    return (blocks[:, :, 0] | blocks[:, :, 1] << 4).reshape(len(values), -1)


def unpack(weight: torch.Tensor) -> torch.Tensor:
    """The integers [N, K] of an operator's weight."""
    if weight.dtype == torch.int8:
        return weight
    pairs = weight.view(len(weight), -1, BLOCK // 2)
    blocks = torch.stack((pairs & 15, pairs >> 4), 2).to(torch.int8) - 8
    return blocks.view(len(weight), -1)


def dequantized(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The weight [N, K] in float32 that an operator's weight and scale [N, G] stand for."""
    groups = unpack(weight).view(*scale.shape, -1)
    return (groups.float() * scale.unsqueeze(-1)).view(len(scale), -1)


def to_integers(weight: torch.Tensor, bits: int, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers int8 [N, K] and scales float32 [N, K / group] whose product is near `weight` [N, K].

    8 bits: the largest magnitude of a group becomes 127. 4 bits: it becomes -8, which of the sixteen values has the
    largest magnitude; then the scale is the best one for the integers that came out, by least squares.
    """
    groups = weight.float().view(len(weight), -1, group)
    if bits == 8:
        scale = groups.abs().amax(-1, keepdim=True) / 127
    else:
        at = groups.abs().argmax(-1, keepdim=True)
        scale = groups.gather(-1, at) / -8
    step = torch.where(scale == 0, 1, scale)
    low, high = (-127, 127) if bits == 8 else (-8, 7)
    integers = (groups / step).round().clamp(low, high)
    if bits == 4:
        power = (integers * integers).sum(-1, keepdim=True)
        step = torch.where(power == 0, step, (groups * integers).sum(-1, keepdim=True) / power.clamp(min=1))
    return integers.to(torch.int8).view(len(weight), -1), step.squeeze(-1).contiguous()


class QuantizedLinear(nn.Module):
    """What graphex.quantize puts in the place of a torch.nn.Linear."""

    weight: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, linear: nn.Linear, scheme: Scheme, group: int):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.round_input = scheme.round_input
        integers, scale = to_integers(linear.weight.detach(), scheme.bits, group)
        self.register_buffer("weight", integers if scheme.bits == 8 else pack(integers))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, self.in_features).contiguous()
        bias = self.bias if self.bias is None else self.bias.to(x.dtype)
        y = torch.ops.graphex.quantized_linear(rows, self.weight, self.scale, bias, self.round_input)
        return y.view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        bits, groups = 8 if self.weight.dtype == torch.int8 else 4, self.scale.shape[1]
        inputs = "8-bit" if self.round_input else "float"
        return f"{self.in_features}, {self.out_features}, bits={bits}, groups={groups}, inputs={inputs}"


@dataclass
class Layer:
    """One linear layer: bytes before and after, and the weights' error relative to their norm; or why it was left."""

    name: str
    bytes_before: int
    bytes_after: int
    error: float = 0.0
    left: str = ""


@dataclass
class QuantizationReport:
    """What graphex.quantize did, layer by layer; str() is a table."""

    scheme: str
    layers: list[Layer] = field(default_factory=list)

    def __str__(self) -> str:
        width = max([len(layer.name) for layer in self.layers], default=0)
        lines = [f"{'layer':{width}}  {'before':>11}  {'after':>11}  error"]
        for layer in self.layers:
            note = f"left as it is: {layer.left}" if layer.left else f"{layer.error:.5f}"
            lines.append(f"{layer.name:{width}}  {layer.bytes_before:11,}  {layer.bytes_after:11,}  {note}")
        before, after = (sum(getattr(x, name) for x in self.layers) for name in ("bytes_before", "bytes_after"))
        lines.append(f"{'all':{width}}  {before:11,}  {after:11,}  {self.scheme}")
        return "\n".join(lines)


def quantize(
    model: nn.Module,
    scheme: str,
    group_size: int | None = None,
    skip: Iterable[str] | Callable[[str, nn.Linear], bool] = (),
) -> QuantizationReport:
    """Replaces the torch.nn.Linear layers of `model`, in place, by layers over 8- or 4-bit weights.

    scheme: "w8a8", "w8a16", "w4a8" or "w4a16": bits of the weights, and whether inputs round to 8 bits too.
    group_size: weights of a row that share a scale, a multiple of 32; by default a whole row with 8 bits, 32 with 4.
    skip: names of layers, with wildcards as in fnmatch, or a function of name and layer; they are left as they are.
    Raises ValueError for an unknown scheme or group size, or weights that aren't finite; `model` is unchanged then.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"graphex.quantize: unknown scheme {scheme!r}; expected one of {', '.join(SCHEMES)}")
    if group_size is not None and (group_size <= 0 or group_size % BLOCK):
        raise ValueError(f"graphex.quantize: group_size is {group_size}; expected a multiple of {BLOCK}")
    chosen = SCHEMES[scheme]
    group = group_size or chosen.group
    report = QuantizationReport(scheme)
    report.layers = replace_linears(model, lambda name, linear: _quantized(name, linear, chosen, group, skip))
    return report


def replace_linears(model: nn.Module, replacement: Callable[[str, nn.Linear], tuple[Layer, nn.Module]]) -> list[Layer]:
    """Puts each linear layer's replacement in its place, under every name that it has, once all of them are made."""
    made: dict[int, nn.Module] = {}
    layers = []
    modules = model.named_modules(remove_duplicate=False)
    linears = [(name, module) for name, module in modules if isinstance(module, nn.Linear)]
    for name, linear in linears:
        if id(linear) not in made:
            layer, made[id(linear)] = replacement(name, linear)
            layers.append(layer)
    for name, linear in linears:
        parent, _, last = name.rpartition(".")
        if name and made[id(linear)] is not linear:
            setattr(model.get_submodule(parent), last, made[id(linear)])
    return layers


def why_not_replaceable(name: str, linear: nn.Linear) -> str:
    """Why no other layer may stand in the place of this one; "" if one may."""
    if not name:
        return "it is the model itself, which can't be replaced in place"
    if type(linear) is not nn.Linear:
        return f"a {type(linear).__name__}"
    if linear._forward_hooks or linear._forward_pre_hooks:
        return "it has hooks"
    return ""


def _quantized(
    name: str,
    linear: nn.Linear,
    scheme: Scheme,
    group: int | None,
    skip: Iterable[str] | Callable[[str, nn.Linear], bool],
) -> tuple[Layer, nn.Module]:
    before = sum(p.numel() * p.element_size() for p in linear.parameters())
    reason = _reason_to_leave(name, linear, group, skip)
    if reason:
        return Layer(name, before, before, left=reason), linear
    if not linear.weight.isfinite().all():
        raise ValueError(f"graphex.quantize: the weight of {name} has an infinity or a NaN; skip it or mend it")
    new = QuantizedLinear(linear, scheme, group or linear.in_features)
    new.train(linear.training)
    wanted = linear.weight.detach().float()
    error = (dequantized(new.weight, new.scale) - wanted).norm() / wanted.norm().clamp(
        min=torch.finfo(torch.float32).tiny
    )
    after = sum(b.numel() * b.element_size() for b in new.buffers())
    return Layer(name, before, after, error.item()), new


def _reason_to_leave(
    name: str, linear: nn.Linear, group: int | None, skip: Iterable[str] | Callable[[str, nn.Linear], bool]
) -> str:
    if callable(skip):
        if skip(name, linear):
            return "skipped"
    elif any(fnmatchcase(name, pattern) for pattern in ([skip] if isinstance(skip, str) else skip)):
        return "skipped"
    if reason := why_not_replaceable(name, linear):
        return reason
    if linear.weight.dtype not in (torch.float32, torch.bfloat16, torch.float16) or linear.weight.device.type != "cpu":
        return f"its weight is {linear.weight.dtype} on {linear.weight.device}"
    if linear.in_features % (group or BLOCK) or not linear.in_features:
        return f"{linear.in_features} inputs are no multiple of {group or BLOCK}"
    return ""
