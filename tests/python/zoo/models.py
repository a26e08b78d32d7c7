"""Tiny seeded models of the table in architectures.toml: made from a configuration, nothing is downloaded."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

CAUSAL = ("dense", "moe", "mla", "linear")
_TABLE = Path(__file__).with_name("architectures.toml")


@dataclass(frozen=True)
class Architecture:
    """One row of the table."""

    name: str
    kind: str
    model: str
    overrides: dict[str, Any] = field(default_factory=dict)
    caches: tuple[str, ...] = ("static", "dynamic")
    bf16: bool = False
    quick: bool = False

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        return (torch.float32, torch.bfloat16) if self.bf16 else (torch.float32,)


def _read() -> tuple[dict[str, dict[str, Any]], dict[str, Architecture]]:
    with open(_TABLE, "rb") as file:
        table = tomllib.load(file)
    sizes = table.pop("sizes")
    return sizes, {name: Architecture(name, **row) for name, row in table.items()}


_SIZES, ARCHITECTURES = _read()


def make_config(architecture: Architecture) -> Any:
    """The configuration: the kind's sizes where it knows them, then the row's own, which it must know."""
    import transformers

    config_class = getattr(transformers, architecture.model).config_class
    known = config_class()
    groups = ["causal"] if architecture.kind in CAUSAL else []
    sizes: dict[str, Any] = {}
    for group in (*groups, architecture.kind):
        sizes |= _SIZES.get(group, {})
    settable = [key for key in sizes if hasattr(known, key) and not isinstance(getattr(config_class, key, 0), property)]
    sizes = {key: sizes[key] for key in settable}
    unknown = [key for key in architecture.overrides if not hasattr(known, key)]
    if unknown:
        raise ValueError(f"{architecture.name}: {config_class.__name__} doesn't know {', '.join(unknown)}")
    return config_class(**sizes | architecture.overrides)


def make_model(architecture: Architecture, dtype: torch.dtype) -> torch.nn.Module:
    """The model in evaluation mode, the same weights each time; those of `dtype` are the float32 ones rounded."""
    import transformers

    torch.manual_seed(0)
    model = getattr(transformers, architecture.model)(make_config(architecture)).eval().requires_grad_(False)
    _spread(model)
    return model.to(dtype)


def make_truth(architecture: Architecture, dtype: torch.dtype) -> torch.nn.Module:
    """make_model's weights in float64: what its results are to be measured by."""
    model = make_model(architecture, dtype).double()
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # PyTorch multiplies groups of rows in up to 32 bits only
    return model


def _spread(model: torch.nn.Module) -> None:
    """Weights that let every part count: matrices that keep a signal's size, and vectors away from 0 and 1."""
    for parameter in model.parameters():
        if parameter.dim() >= 2:
            parameter.normal_(std=parameter[0].numel() ** -0.5)
        else:
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
