// Turns a mask that compares key positions with a bound per query into that bound: keys past it are never read, and no
// mask is made.
//   %m = le(%j, %p)   with %j[.., j] = j and %p of size 1 along keys and heads
//   attention(%q, %k, %v, %m or where(%m, 0, -inf))   ->   attention(%q, %k, %v, %p') {bound=true}
#include <cmath>

#include "graphex/passes/passes.h"

namespace graphex::passes {
namespace {

bool is_full_of(const ir::Value* value, double number) {
  if (!value->node || value->node->op != "full") return false;
  const ir::Attr& attr = value->node->attrs.at("value");
  if (const double* real = std::get_if<double>(&attr)) return *real == number;
  const ir::Expr* expr = std::get_if<ir::Expr>(&attr);
  return expr && expr->is_constant() && static_cast<double>(expr->constant()) == number;
}

// Whether every element of the value is its own index along `dim`.
bool counts_along(const ir::Value* value, int dim) {
  if (!value->node || dim < 0) return false;
  const ir::Node& node = *value->node;
  if (node.op == "iota") return dim == 0 && node.expr("start").is(0) && node.expr("step").is(1);
  if (node.op == "add") {
    for (const int i : {0, 1}) {
      const ir::Value* operand = node.inputs[i];
      if (is_full_of(node.inputs[1 - i], 0))
        return counts_along(operand, dim - (value->type.rank() - operand->type.rank()));
    }
    return false;
  }
  if (node.op != "view" || !node.expr("offset").is(0)) return false;
  const ir::Value* base = node.inputs[0];
  for (int d = 0; d < base->type.rank(); ++d)
    if (base->type.shape[d] == value->type.shape[dim] && base->type.strides[d] == value->type.strides[dim])
      return counts_along(base, d);
  return false;
}

// The comparison behind a boolean mask or an additive mask of 0 and -inf; null for other masks.
const ir::Node* comparison(const ir::Value* mask) {
  if (!mask->node) return nullptr;
  const ir::Node* node = mask->node;
  if (node->op == "where") {
    if (!is_full_of(node->inputs[1], 0) || !is_full_of(node->inputs[2], -INFINITY)) return nullptr;
    node = node->inputs[0]->node;
  }
  if (!node || node->outputs[0]->type.rank() != 4) return nullptr;
  return node->op == "le" ? node : nullptr;
}

// The bound as i64 [B or 1, Lq or 1]: the same elements without the dimensions of heads and keys.
ir::Value* bound_of(ir::Graph& graph, ir::Value* limit, ir::Node* before) {
  const ir::Type& type = limit->type;
  const bool is_view = limit->node && limit->node->op == "view";
  return graph
      .add_node("view", {limit},
                {ir::Type(type.dtype, {type.shape[0], type.shape[2]}, {type.strides[0], type.strides[2]})},
                {{"offset", is_view ? limit->node->expr("offset") : ir::Expr(0)}}, before)
      ->out();
}

bool is_bound(const ir::Value* limit) {
  return limit->type.rank() == 4 && limit->type.dtype == DType::kI64 && limit->type.shape[1].is(1) &&
         limit->type.shape[3].is(1);
}

}  // namespace

void bound_masks(ir::Graph& graph) {
  for (auto& node : graph.nodes) {
    if (node->op != "attention" || node->inputs.size() != 4 || node->flag("bound") || node->flag("causal")) continue;
    const ir::Node* compare = comparison(node->inputs[3]);
    if (!compare || !is_bound(compare->inputs[1]) || !counts_along(compare->inputs[0], 3)) continue;
    if (!compare->inputs[0]->type.shape[3].is_constant() &&
        !(compare->inputs[0]->type.shape[3] == node->inputs[1]->type.shape[2]))
      continue;
    node->inputs[3] = bound_of(graph, compare->inputs[1], node.get());
    node->attrs["bound"] = true;
  }
  graph.sweep();
}

}  // namespace graphex::passes
