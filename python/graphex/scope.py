"""Scopes: what holds for the operators inside, under the names that npugraph_ex gives them."""

from __future__ import annotations

from .streams.cores import limit_core_num

__all__ = ["limit_core_num"]
