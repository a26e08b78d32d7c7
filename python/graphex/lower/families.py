"""Imports every family of lowerings, which fills the registry."""

from . import (  # noqa: F401
    compositions,
    convolution,
    creation,
    elementwise,
    indexing,
    linalg,
    movement,
    normalise,
    paged,
    pooling,
    quantized,
    reductions,
    sorting,
    views,
)
