// Operators that work along one dimension: positions of extremes, scans, sorting.
#include "graphex/compile/kernel_table.h"

namespace graphex::compile {
namespace {

using ir::Expr;
using ir::Node;
using ir::Value;
using runtime::Pointer;
using runtime::SizeId;

// [outer, length, inner] of a contiguous tensor seen from one dimension.
struct Lines {
  Expr outer = 1, length = 1, inner = 1;
  Lines(const ir::Type& type, int dim, bool flat) {
    for (int d = 0; d < type.rank(); ++d)
      (flat || d == dim ? length
       : d < dim        ? outer
                        : inner) = (flat || d == dim ? length
                             : d < dim        ? outer
                                              : inner) *
                            type.shape[d];
  }
};

// The operand's elements in contiguous order, copied if they aren't.
Pointer contiguous(Lowering& out, Value* value) {
  if (value->type.is_contiguous()) return out.pointer(value);
  Pointer copy = out.temporary(value->type.numel() * Expr(size_of(value->type.dtype)));
  out.copy(value, copy, ir::contiguous_strides(value->type.shape));
  copy.written = false;
  return copy;
}

std::vector<SizeId> line_sizes(Lowering& out, const Lines& lines, const Expr& out_outer) {
  std::vector<SizeId> sizes;
  for (const Expr& each : {lines.outer, lines.length, lines.inner, lines.length * lines.inner, lines.inner, Expr(1),
                           out_outer, lines.inner, Expr(1)})
    sizes.push_back(out.size(each));
  return sizes;
}

void lower_arg_reduce(Lowering& out, Node& node) {
  Value* operand = node.inputs[0];
  const bool flat = node.flag("flat");
  const Lines lines(operand->type, flat ? -1 : static_cast<int>(node.integer("dim")), flat);
  const Pointer source = contiguous(out, operand);
  const Pointer workspace = out.workspace();
  const std::string dtype(name_of(operand->type.dtype));
  const std::vector<std::pair<std::string, int64_t>> knobs = {{"GX_ARG_MIN", node.op == "argmin"}};
  const std::vector<Pointer> pointers = {out.pointer(node.out(), true), source, workspace};
  const std::vector<SizeId> sizes = line_sizes(out, lines, lines.inner);
  out.hand("arg_reduce", "gx_arg_reduce_partial_" + dtype, knobs, node, pointers, sizes, true);
  out.hand("arg_reduce", "gx_arg_reduce_merge_" + dtype, knobs, node, pointers, sizes);
  out.hand("arg_reduce", "gx_arg_reduce_" + dtype, knobs, node, pointers, sizes);
}

void lower_cumsum(Lowering& out, Node& node) {
  Value* operand = node.inputs[0];
  const Lines lines(operand->type, static_cast<int>(node.integer("dim")), false);
  const Pointer source = contiguous(out, operand);
  out.hand("cumsum", "gx_cumsum_" + std::string(name_of(operand->type.dtype)), {}, node,
           {out.pointer(node.out(), true), source}, line_sizes(out, lines, lines.length * lines.inner));
}

void lower_sorting(Lowering& out, Node& node) {
  Value* operand = node.inputs[0];
  const Lines lines(operand->type, static_cast<int>(node.integer("dim")), false);
  const Pointer source = contiguous(out, operand), workspace = out.workspace();
  const bool is_sort = node.op == "sort";
  std::vector<std::pair<std::string, int64_t>> knobs = {
      {"GX_ELEMENT", static_cast<int64_t>(operand->type.dtype)},
      {"GX_DESCENDING", node.flag(is_sort ? "descending" : "largest")}};
  if (!is_sort) knobs.emplace_back("GX_SORTED", node.flag("sorted"));
  std::vector<SizeId> sizes;
  for (const Expr& each : {lines.outer, lines.length, lines.inner, is_sort ? lines.length : node.expr("k"),
                           is_sort ? node.expr("stable_from") : Expr(0)})
    sizes.push_back(out.size(each));
  out.hand(node.op, "gx_" + node.op, std::move(knobs), node,
           {out.pointer(node.out(0), true), out.pointer(node.out(1), true), source, workspace}, std::move(sizes), true);
}

bool arg_fits(const Node& node) {
  return node.inputs[0]->type.dtype != DType::kBool && node.out()->type.is_contiguous();
}

bool cumsum_fits(const Node& node) {
  const DType from = node.inputs[0]->type.dtype, to = node.out()->type.dtype;
  return from != DType::kBool && to == (is_float(from) ? from : DType::kI64) && node.out()->type.is_contiguous() &&
         node.out()->type.rank() > 0;
}

bool sorting_fits(const Node& node) { return node.out(0)->type.is_contiguous() && node.out(1)->type.is_contiguous(); }

}  // namespace

KernelTable line_kernels() {
  return {
      {"argmax", {lower_arg_reduce, arg_fits}}, {"argmin", {lower_arg_reduce, arg_fits}},
      {"cumsum", {lower_cumsum, cumsum_fits}},  {"sort", {lower_sorting, sorting_fits}},
      {"topk", {lower_sorting, sorting_fits}},
  };
}

}  // namespace graphex::compile
