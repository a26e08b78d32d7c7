"""Whether graphex's results lie as near to the truth (the same weights in float64) as eager PyTorch's own."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Distance:
    """How far a result lies from the truth, in units of the truth's root mean square."""

    mean: float  # root mean square
    worst: float

    @staticmethod
    def of(result: torch.Tensor, truth: torch.Tensor) -> Distance:
        truth = truth.double()
        away = (result.double() - truth) / truth.square().mean().sqrt()
        return Distance(away.square().mean().sqrt().item(), away.abs().max().item())


def complaint(name: str, got: torch.Tensor, eager: torch.Tensor, truth: torch.Tensor) -> str:
    """ "" if `got` is a rounding of the truth like `eager`, else what is wrong with it.

    Two independent sums of the same roundings differ by less than a factor of 2 in their mean, and a normal error's
    worst element lies within 8 of its deviations; a result exact in eager may be off by one rounding.
    """
    for fact in ("dtype", "shape"):
        if getattr(got, fact) != getattr(eager, fact):
            return f"{name}: {fact} is {getattr(got, fact)}, eager's is {getattr(eager, fact)}"
    mine, theirs = Distance.of(got, truth), Distance.of(eager, truth)
    mean = 2 * theirs.mean + torch.finfo(eager.dtype).eps
    if mine.mean <= mean and mine.worst <= max(8 * mean, 2 * theirs.worst):  # false for nan
        return ""
    return (
        f"{name}: {mine.mean:.3g} from the truth in the mean and {mine.worst:.3g} at worst, "
        f"eager {theirs.mean:.3g} and {theirs.worst:.3g}"
    )
