#include <algorithm>

#include "graphex/compile/unit.h"
#include "graphex/ops/checks.h"

namespace graphex::compile {

bool Space::has_reduction() const { return std::find(reduced.begin(), reduced.end(), true) != reduced.end(); }

std::optional<DimMap> map_through_view(const ir::Value& base, const ir::Value& view, const DimMap& map) {
  if (base.type == view.type && view.node->expr("offset").is(0)) return map;
  if (!view.node->expr("offset").is(0)) return std::nullopt;
  DimMap base_map(base.type.rank(), -1);
  std::vector<bool> used(base.type.rank(), false);
  for (int d = 0; d < view.type.rank(); ++d) {
    if (view.type.shape[d].is(1) || view.type.strides[d].is(0)) continue;
    bool found = false;
    for (int b = 0; b < base.type.rank() && !found; ++b) {
      if (used[b] || base.type.strides[b] != view.type.strides[d] || base.type.shape[b] != view.type.shape[d]) continue;
      used[b] = found = true;
      base_map[b] = map[d];
    }
    if (!found) return std::nullopt;
  }
  for (int b = 0; b < base.type.rank(); ++b)
    if (!used[b] && !base.type.shape[b].is(1)) return std::nullopt;
  return base_map;
}

DimMap map_of_operand(const ir::Value& operand, const DimMap& result_map) {
  DimMap map(operand.type.rank(), -1);
  const int shift = static_cast<int>(result_map.size()) - operand.type.rank();
  for (int d = 0; d < operand.type.rank(); ++d)
    if (!operand.type.shape[d].is(1)) map[d] = result_map[d + shift];
  return map;
}

DimMap map_of_reduced(const ir::Node& reduction, const DimMap& result_map, const DimMap& operand_hint) {
  DimMap map = operand_hint;
  const std::vector<int> dims = ops::reduced_dims(reduction);
  const bool keepdim = reduction.flag("keepdim");
  int result_dim = 0;
  for (int d = 0; d < static_cast<int>(map.size()); ++d) {
    const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (!reduced) map[d] = result_map[result_dim];
    if (!reduced || keepdim) ++result_dim;
  }
  return map;
}

bool is_inline(const ir::Value* value) {
  if (!value->node) return false;
  const ops::OpDef& op = ops::op_of(*value->node);
  if (op.kind == ops::OpKind::kSource) return true;
  if (op.kind == ops::OpKind::kView) {
    const ir::Value* base = value->node->inputs[0];
    return is_inline(base) && map_through_view(*base, *value, DimMap(value->type.rank(), -1)).has_value();
  }
  if (op.kind != ops::OpKind::kScalar && op.kind != ops::OpKind::kCast && op.kind != ops::OpKind::kCopy) return false;
  return std::all_of(value->node->inputs.begin(), value->node->inputs.end(), is_inline);
}

bool same_scope(const ir::Node& a, const ir::Node& b) {
  for (const char* mark : {"lane", "segment", "cores"})
    if (a.has(mark) != b.has(mark) || (a.has(mark) && a.integer(mark) != b.integer(mark))) return false;
  return true;
}

}  // namespace graphex::compile
