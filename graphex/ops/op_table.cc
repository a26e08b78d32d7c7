// The table of operators. Adding one: a row here, its rule in a checks_*.cc, its meaning in README.md.
#include <map>

#include "graphex/ops/checks.h"
#include "graphex/ops/op_def.h"

namespace graphex::ops {
namespace {

void check_cast(const ir::Node& node) { require_shape(node, *node.out(), in(node, 0).shape); }

void check_full(const ir::Node& node) { require(node.has("value"), node, "attribute 'value' is missing"); }

void check_iota(const ir::Node& node) {
  require(node.out()->type.rank() == 1, node, "expected a result of rank 1");
  require(is_int(node.out()->type.dtype), node, "expected an integer result; cast it for floats");
  node.expr("start");
  node.expr("step");
}

void check_view(const ir::Node& node) {
  require(node.out()->type.dtype == in(node, 0).dtype, node, "a view has its operand's dtype");
  node.expr("offset");
}

void check_region_write(const ir::Node& node) {
  check_overwrite(node);
  require(in(node, 1).dtype == in(node, 0).dtype, node, "expected both operands to have one dtype");
  require(static_cast<int>(node.exprs("strides").size()) == in(node, 1).rank(), node,
          "expected one stride for each size of the region");
  node.expr("offset");
}

void check_island(const ir::Node& node) { node.integer("call"); }

const OpDef kTable[] = {
#define GX_SCALAR(name, arity, result) {#name, OpKind::kScalar, arity, arity, -1, check_scalar},
#include "graphex/base/scalar_ops.def"
#undef GX_SCALAR
    {"cast", OpKind::kCast, 1, 1, -1, check_cast},
    {"full", OpKind::kSource, 0, 0, -1, check_full},
    {"iota", OpKind::kSource, 0, 0, -1, check_iota},
    {"copy", OpKind::kCopy, 1, 1, -1, check_same_type_rank},
    {"view", OpKind::kView, 1, 1, -1, check_view},
    {"all", OpKind::kReduction, 1, 1, -1, check_reduction},
    {"amax", OpKind::kReduction, 1, 1, -1, check_reduction},
    {"amin", OpKind::kReduction, 1, 1, -1, check_reduction},
    {"any", OpKind::kReduction, 1, 1, -1, check_reduction},
    {"prod", OpKind::kReduction, 1, 1, -1, check_reduction},
    {"sum", OpKind::kReduction, 1, 1, -1, check_reduction},
    {"addmm", OpKind::kKernel, 3, 3, -1, check_matmul},
    {"argmax", OpKind::kKernel, 1, 1, -1, check_arg_reduction},
    {"argmin", OpKind::kKernel, 1, 1, -1, check_arg_reduction},
    {"attention", OpKind::kKernel, 3, 4, -1, check_attention, 2},
    {"block_linear", OpKind::kKernel, 2, 3, -1, check_block_linear},
    {"cat", OpKind::kKernel, 1, -1, -1, check_cat},
    {"cumsum", OpKind::kKernel, 1, 1, -1, check_same_type_rank},
    {"gather", OpKind::kKernel, 2, 2, -1, check_gather},
    {"index", OpKind::kKernel, 2, 9, -1, check_index},
    {"index_add", OpKind::kKernel, 3, 3, 0, check_overwrite},
    {"index_copy", OpKind::kKernel, 3, 3, 0, check_overwrite},
    {"index_put", OpKind::kKernel, 3, 10, 0, check_overwrite},
    {"index_select", OpKind::kKernel, 2, 2, -1, check_index_select},
    {"matmul", OpKind::kKernel, 2, 2, -1, check_matmul},
    {"paged_attention", OpKind::kKernel, 5, 5, -1, check_paged_attention},
    {"paged_bounds", OpKind::kKernel, 2, 2, -1, check_paged_bounds},
    {"quantized_linear", OpKind::kKernel, 3, 4, -1, check_quantized_linear},
    {"region_write", OpKind::kKernel, 2, 2, 0, check_region_write},
    {"scatter", OpKind::kKernel, 3, 3, 0, check_overwrite},
    {"scatter_add", OpKind::kKernel, 3, 3, 0, check_overwrite},
    {"sort", OpKind::kKernel, 1, 1, -1, check_sort, 2},
    {"topk", OpKind::kKernel, 1, 1, -1, check_topk, 2},
    {"island", OpKind::kIsland, 0, -1, -1, check_island},
};

const std::map<std::string_view, const OpDef*>& index() {
  static const auto kIndex = [] {
    std::map<std::string_view, const OpDef*> map;
    for (const OpDef& op : kTable) map.emplace(op.name, &op);
    return map;
  }();
  return kIndex;
}

}  // namespace

const OpDef* find_op(std::string_view name) {
  const auto it = index().find(name);
  return it == index().end() ? nullptr : it->second;
}

const OpDef& op_of(const ir::Node& node) {
  const OpDef* op = find_op(node.op);
  GX_ASSERT(op);
  return *op;
}

std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> ops;
  for (const auto& [name, op] : index()) ops.push_back(op);
  return ops;
}

ir::Value* base_of(ir::Value* value) {
  while (value->node && value->node->op == "view") value = value->node->inputs[0];
  return value;
}

}  // namespace graphex::ops
