"""Effect tokens, by which AOTAutograd keeps operators with effects (checks that raise, prints) in order.

Islands run in the program's order anyway, so each such operator becomes a plain node and the tokens go through unread.
"""

from __future__ import annotations

import operator

from torch import fx
from torch._higher_order_ops.effects import with_effects


def drop_effect_tokens(gm: fx.GraphModule) -> None:
    """Replaces each with_effects(token, op, ...) by op(...); tokens stay among inputs and outputs."""
    nodes = gm.graph.find_nodes(op="call_function", target=with_effects)
    for node in nodes:
        _replace(gm.graph, node)
    if nodes:
        gm.graph.lint()
        gm.recompile()


def _replace(graph: fx.Graph, node: fx.Node) -> None:
    token, target, *arguments = node.args
    results = node.meta["val"][1:]
    with graph.inserting_before(node):
        call = graph.call_function(target, tuple(arguments), node.kwargs)  # type: ignore[arg-type]
    call.meta = {**node.meta, "val": tuple(results) if len(results) > 1 else results[0]}
    for user in list(node.users):
        assert user.target is operator.getitem, "the results of with_effects are taken one by one"
        index = user.args[1]
        if index == 0:
            user.replace_all_uses_with(token)  # type: ignore[arg-type]
        elif len(results) == 1:
            user.replace_all_uses_with(call)
        else:
            user.args = (call, index - 1)  # type: ignore[operator]
            continue
        graph.erase_node(user)
    graph.erase_node(node)
