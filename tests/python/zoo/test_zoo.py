"""Architectures of `transformers` give eager's results when compiled: see architectures.toml and scenarios.py."""

from __future__ import annotations

import pytest
import torch
from check import compiled

from zoo import models
from zoo.trial import Trial

pytestmark = [pytest.mark.usefixtures("backend"), pytest.mark.timeout(900)]


def _cases():
    for architecture in models.ARCHITECTURES.values():
        if architecture.quick:
            yield pytest.param(architecture, torch.float32, True, id=f"{architecture.name}-quick")
        for dtype in architecture.dtypes:
            name = f"{architecture.name}-{str(dtype).removeprefix('torch.')}"
            yield pytest.param(architecture, dtype, False, id=name, marks=pytest.mark.slow)


@pytest.mark.parametrize(("architecture", "dtype", "quick"), _cases())
def test_results_are_eagers(architecture, dtype, quick):
    trial = Trial(architecture, dtype, compiled, quick)
    assert not trial.complaints, "\n".join(trial.complaints)
