// Lets attention read each key and value head for its whole group of query heads, instead of a copy expanded to all
// heads.
//   %e: [B, G, 1, L, D] -> %x = view(%k) [B, G, n, L, D] strides [.., 0, ..]; %c = copy(%x); %K = view(%c) [B, G*n, L,
//   D] attention(%q, %K, %V) {group=1}   ->   attention(%q, %k', %v') {group=n}   with %k' = view(%k) [B, G, L, D]
#include "graphex/passes/passes.h"

namespace graphex::passes {
namespace {

// The expanded five-dimensional view behind an operand, or null.
ir::Value* expanded(const ir::Value* operand) {
  const auto made_by = [](const ir::Value* value, const char* op) { return value->node && value->node->op == op; };
  const ir::Value* value = operand;
  while (made_by(value, "view") && value->node->expr("offset").is(0) && value->type.is_contiguous())
    value = value->node->inputs[0];
  if (!made_by(value, "copy") || !value->type.is_contiguous()) return nullptr;
  ir::Value* source = value->node->inputs[0];
  if (!made_by(source, "view") || source->type.rank() != 5 || !source->type.strides[2].is(0)) return nullptr;
  const auto& shape = source->type.shape;
  if (!shape[2].is_constant() || operand->type.rank() != 4) return nullptr;
  const bool merged = operand->type.shape[0] == shape[0] && operand->type.shape[1] == shape[1] * shape[2] &&
                      operand->type.shape[2] == shape[3] && operand->type.shape[3] == shape[4];
  return merged && operand->type.is_contiguous() ? source : nullptr;
}

ir::Value* grouped(ir::Graph& graph, ir::Value* source, ir::Node* before) {
  const ir::Type& type = source->type;
  const auto without = [](std::vector<ir::Expr> list) {
    list.erase(list.begin() + 2);
    return list;
  };
  return graph
      .add_node("view", {source->node->inputs[0]}, {ir::Type(type.dtype, without(type.shape), without(type.strides))},
                {{"offset", source->node->expr("offset")}}, before)
      ->out();
}

}  // namespace

void fold_grouped_heads(ir::Graph& graph) {
  for (auto& node : graph.nodes) {
    if (node->op != "attention") continue;
    ir::Value *key = expanded(node->inputs[1]), *value = expanded(node->inputs[2]);
    if (!key || !value || !(key->type.shape[2] == value->type.shape[2])) continue;
    const ir::Expr group = ir::Expr(node->integer("group")) * key->type.shape[2];
    node->inputs[1] = grouped(graph, key, node.get());
    node->inputs[2] = grouped(graph, value, node.get());
    node->attrs["group"] = group;
  }
  graph.sweep();
}

}  // namespace graphex::passes
