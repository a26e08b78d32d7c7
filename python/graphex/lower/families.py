"""Imports every family of lowerings, which fills the registry."""

from . import compositions, creation, elementwise, indexing, linalg, movement, normalise, reductions, views  # noqa: F401
