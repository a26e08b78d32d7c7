// Shared pieces of the operators' type rules.
#pragma once

#include "graphex/base/error.h"
#include "graphex/ops/op_def.h"

namespace graphex::ops {

inline std::string label(const ir::Node& node) {
  return "node %" + (node.outputs.empty() ? std::string("?") : node.out()->name) + " (" + node.op + ")";
}

template <class... Parts>
void require(bool condition, const ir::Node& node, Parts&&... parts) {
  if (!condition) fail(ErrorKind::kInvalidArgument, label(node), ": ", std::forward<Parts>(parts)...);
}

inline const ir::Type& in(const ir::Node& node, int i) { return node.inputs[i]->type; }

// A dimension attribute, 0 <= value < rank.
int dim_attr(const ir::Node& node, const std::string& name, int rank);
// The dims attribute of a reduction, all dims when empty; checked and sorted.
std::vector<int> reduced_dims(const ir::Node& node);

void require_shape(const ir::Node& node, const ir::Value& value, const std::vector<ir::Expr>& expected);
void require_index(const ir::Node& node, int operand);

void check_scalar(const ir::Node& node);
void check_reduction(const ir::Node& node);
void check_arg_reduction(const ir::Node& node);
void check_same_type_rank(const ir::Node& node);
void check_cat(const ir::Node& node);
void check_matmul(const ir::Node& node);
void check_attention(const ir::Node& node);
void check_paged_attention(const ir::Node& node);
void check_paged_bounds(const ir::Node& node);
void check_block_linear(const ir::Node& node);
void check_quantized_linear(const ir::Node& node);
void check_index_select(const ir::Node& node);
void check_index(const ir::Node& node);
void check_gather(const ir::Node& node);
void check_overwrite(const ir::Node& node);
void check_sort(const ir::Node& node);
void check_topk(const ir::Node& node);

}  // namespace graphex::ops
