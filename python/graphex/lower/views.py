"""Views that need more than the common rule, lowering.view_of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .errors import Unsupported
from .registry import lowers
from .types import Value

if TYPE_CHECKING:
    from .lowering import Lowering

aten = torch.ops.aten


@lowers(aten._unsafe_view.default, aten.reshape.default, aten.lift_fresh.default, aten._reshape_alias.default)
def view_or_copy(lo: Lowering, node: fx.Node, x: Value, *_: Any) -> Value:
    """Operators that return a view though their schema doesn't say so."""
    from .lowering import view_of

    source, val = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    spec = lo.layouts.spec_of(val)
    if x.spec.is_contiguous() and spec.is_contiguous():
        return lo.view(x, spec.shape, spec.strides)
    if source.untyped_storage()._cdata == val.untyped_storage()._cdata:
        return view_of(lo, node)
    return lo.reshape(x, spec.shape)


@lowers(aten.as_strided.default)
def as_strided(lo: Lowering, node: fx.Node, x: Value, size: Any, stride: Any, storage_offset: Any = None) -> Value:
    """The offset is absolute in the storage, which is known to start at the base only if the base is ours."""
    from .lowering import view_of

    if x.base.startswith("in"):
        raise Unsupported("as_strided of an input, whose storage may start elsewhere")
    return view_of(lo, node)


@lowers(aten.view.dtype)
def view_dtype(lo: Lowering, node: fx.Node, x: Value, dtype: torch.dtype) -> Value:
    raise Unsupported("a view as another dtype")


@lowers(aten._assert_scalar.default, aten.sym_constrain_range.default, aten.sym_constrain_range_for_size.default)
def size_check(lo: Lowering, node: fx.Node, *_: Any, **__: Any) -> None:
    """Conditions on sizes that Dynamo's guards hold already."""
