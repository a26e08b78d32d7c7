// Which kernel serves which operator, and how its contract (graphex/kernels/*/*.h) is filled in.
#include "graphex/compile/kernel_table.h"

#include <algorithm>

#include "graphex/base/block_format.h"
#include "graphex/base/error.h"
#include "graphex/kernels/attention/attention.h"
#include "graphex/kernels/blocks/blocks.h"
#include "graphex/kernels/matmul/matmul.h"
#include "graphex/kernels/qmatmul/qmatmul.h"
#include "graphex/ops/checks.h"

namespace graphex::compile {
namespace {

using ir::Expr;
using ir::Node;
using ir::Value;
using runtime::SizeId;

bool in_f32(const Node& node) {
  const DType dtype = node.inputs[0]->type.dtype;
  return dtype == DType::kF32 || is_reduced_float(dtype);
}

// The kernel reads and writes one dtype, and rows of the result are dense.
bool matmul_fits(const Node& node) {
  const ir::Type& out = node.out()->type;
  for (const Value* operand : node.inputs)
    if (operand->type.dtype != out.dtype) return false;
  return in_f32(node) && (out.strides.back().is(1) || out.shape.back().is(1));
}

// Sizes and strides of a matrix or a batch of matrices.
struct Matrix {
  Expr batch, rows, columns, stride_batch, stride_row, stride_column;
  explicit Matrix(const ir::Type& type) {
    const int rank = type.rank();
    batch = rank == 3 ? type.shape[0] : Expr(1);
    stride_batch = rank == 3 ? type.strides[0] : Expr(0);
    rows = type.shape[rank - 2];
    columns = type.shape[rank - 1];
    stride_row = type.strides[rank - 2];
    stride_column = type.strides[rank - 1];
  }
};

void lower_matmul(Lowering& out, Node& node) {
  const bool with_addend = node.op == "addmm";
  Value *a = node.inputs[with_addend], *b = node.inputs[with_addend + 1];
  const Matrix ma(a->type), mb(b->type), mc(node.out()->type);
  const double alpha = with_addend && node.has("alpha") ? node.number("alpha") : 1;
  const double beta = with_addend && node.has("beta") ? node.number("beta") : 1;
  std::vector<Expr> addend(3, Expr(0));
  if (with_addend) addend = broadcast_strides(node.inputs[0]->type, 3);
  const bool bias = with_addend && addend[0].is(0) && addend[1].is(0) && addend[2].is(1) && alpha == 1 && beta == 1;
  const int64_t b_layout = mb.stride_row.is(1) ? 0 : mb.stride_column.is(1) ? 1 : 2;
  std::vector<SizeId> sizes;
  for (const Expr& each :
       {mc.batch, mc.rows, mc.columns, ma.columns, ma.stride_batch, ma.stride_row, ma.stride_column, mb.stride_batch,
        mb.stride_row, mb.stride_column, mc.stride_batch, mc.stride_row, addend[0], addend[1], addend[2]})
    sizes.push_back(out.size(each));
  sizes.push_back(out.bits_of(alpha));
  sizes.push_back(out.bits_of(beta));
  const std::string dtype(name_of(a->type.dtype));
  out.hand(
      "matmul_" + dtype, "gx_matmul_" + dtype,
      {{"GX_B_LAYOUT", b_layout},
       {"GX_A_LAYOUT", ma.stride_column.is(1) ? 0 : 1},
       {"GX_EPILOGUE", !with_addend ? 0
                       : bias       ? 1
                                    : 2},
       {"GX_M", mc.rows.is_constant() && mc.rows.constant() == 1 ? 1 : -1}},
      node,
      {out.pointer(node.out(), true), out.pointer(a), out.pointer(b), out.pointer(with_addend ? node.inputs[0] : a)},
      std::move(sizes));
}

constexpr int64_t kMaxQuantK = 131072;  // four rows fit in scratch, and their integer sums in 32 bits

bool has_dense_rows(const Node& node) {
  const auto dense_rows = [](const Value* value) {
    return value->type.strides.back().is(1) || value->type.shape.back().is(1);
  };
  return dense_rows(node.out()) && std::all_of(node.inputs.begin(), node.inputs.end(), dense_rows);
}

bool quantized_linear_fits(const Node& node) {
  return in_f32(node) && node.inputs[0]->type.shape[1].constant() <= kMaxQuantK && has_dense_rows(node);
}

void lower_quantized_linear(Lowering& out, Node& node) {
  const ir::Type &x = node.inputs[0]->type, &w = node.inputs[1]->type, &s = node.inputs[2]->type;
  const bool bias = node.inputs.size() > 3;
  const int64_t k = x.shape[1].constant(), groups = s.shape[1].constant();
  std::vector<SizeId> sizes;
  for (const Expr& each : {x.shape[0], s.shape[0], Expr(k), Expr(k / groups), x.strides[0], w.strides[0], s.strides[0],
                           node.out()->type.strides[0]})
    sizes.push_back(out.size(each));
  const std::string dtype(name_of(x.dtype));
  out.hand("qmatmul_" + dtype, "gx_qmatmul_" + dtype,
           {{"GX_BITS", w.dtype == DType::kI8 ? 8 : 4},
            {"GX_INPUT", node.flag("round_input")},
            {"GX_GROUPED", groups > 1},
            {"GX_BIAS", bias},
            {"GX_M", x.shape[0].is(1) ? 1 : -1}},
           node,
           {out.pointer(node.out(), true), out.pointer(node.inputs[0]), out.pointer(node.inputs[1]),
            out.pointer(node.inputs[2]), out.pointer(node.inputs[bias ? 3 : 0])},
           std::move(sizes));
}

constexpr int64_t kMaxBlocksK = 524288;  // four rows fit in scratch

bool block_linear_fits(const Node& node) {
  return in_f32(node) && node.inputs[0]->type.shape[1].constant() <= kMaxBlocksK && has_dense_rows(node);
}

void lower_block_linear(Lowering& out, Node& node) {
  const ir::Type &x = node.inputs[0]->type, &w = node.inputs[1]->type, &y = node.out()->type;
  const bool bias = node.inputs.size() > 2;
  std::vector<SizeId> sizes;
  for (const Expr& each : {x.shape[0], y.shape[1], x.shape[1], x.strides[0], w.strides[0], y.strides[0]})
    sizes.push_back(out.size(each));
  const std::string dtype(name_of(x.dtype));
  out.hand("blocks_" + dtype, "gx_blocks_" + dtype,
           {{"GX_FORMAT", find_block_format(node.text("format"))->id},
            {"GX_BIAS", bias},
            {"GX_M", x.shape[0].is(1) ? 1 : -1}},
           node,
           {out.pointer(node.out(), true), out.pointer(node.inputs[0]), out.pointer(node.inputs[1]),
            out.pointer(node.inputs[bias ? 2 : 0])},
           std::move(sizes));
}

void append(std::vector<SizeId>& sizes, Lowering& out, const std::vector<Expr>& strides, int from, int count) {
  for (int i = 0; i < count; ++i) sizes.push_back(out.size(strides[from + i]));
}

void lower_attention(Lowering& out, Node& node) {
  namespace k = kernels;
  Value *q = node.inputs[0], *key = node.inputs[1], *v = node.inputs[2];
  Value* mask = node.inputs.size() > 3 ? node.inputs[3] : nullptr;
  const bool bound = node.flag("bound");
  std::vector<SizeId> sizes;
  for (const Expr& each : {q->type.shape[0], q->type.shape[1], key->type.shape[1], q->type.shape[2], key->type.shape[2],
                           q->type.shape[3], v->type.shape[3]})
    sizes.push_back(out.size(each));
  sizes.push_back(out.bits_of(node.number("scale")));
  append(sizes, out, node.out()->type.strides, 0, 3);
  for (const Value* operand : {q, key, v}) append(sizes, out, operand->type.strides, 0, 3);
  append(sizes, out, mask && !bound ? broadcast_strides(mask->type, 4) : std::vector<Expr>(4, Expr(0)), 0, 4);
  append(sizes, out, mask && bound ? broadcast_strides(mask->type, 2) : std::vector<Expr>(2, Expr(0)), 0, 2);
  append(sizes, out, node.out(1)->type.strides, 0, 3);
  append(sizes, out, std::vector<Expr>(4, Expr(0)), 0, 4);  // not paged, no window
  const int64_t kind = bound                              ? k::kMaskBound
                       : !mask                            ? (node.flag("causal") ? k::kMaskCausal : k::kMaskNone)
                       : mask->type.dtype == DType::kBool ? k::kMaskBoolean
                                                          : k::kMaskAdditive;
  const bool mask_f32 = mask && mask->type.dtype == DType::kF32;
  const std::vector<std::pair<std::string, int64_t>> knobs = {
      {"GX_MASK", kind},
      {"GX_MASK_F32", mask_f32},
      {"GX_LSE", 1},
      {"GX_HEAD_DIM", q->type.shape[3].is_constant() ? q->type.shape[3].constant() : 0},
      {"GX_VALUE_DIM", v->type.shape[3].is_constant() ? v->type.shape[3].constant() : 0},
      {"GX_BLOCK_SIZE", 0}};
  const std::string dtype(name_of(q->type.dtype)), module = "attention_" + dtype, entry = "gx_attention_" + dtype;
  const runtime::Pointer workspace = out.workspace();
  const auto pointers = [&] {
    return std::vector<runtime::Pointer>{out.pointer(node.out(), true),
                                         out.pointer(q),
                                         out.pointer(key),
                                         out.pointer(v),
                                         out.pointer(mask ? mask : q),
                                         out.pointer(mask ? mask : q),
                                         out.pointer(node.out(1), true),
                                         out.pointer(q),
                                         workspace};
  };
  out.hand(module, "gx_attention_partial_" + dtype, knobs, node, pointers(), sizes, true);
  out.hand(module, "gx_attention_merge_" + dtype, knobs, node, pointers(), sizes);
  out.hand(module, entry, knobs, node, pointers(), sizes);
}

void lower_paged_bounds(Lowering& out, Node& node) {
  Value *lengths = node.inputs[0], *tables = node.inputs[1];
  std::vector<SizeId> sizes;
  for (const Expr& each :
       {lengths->type.shape[0], tables->type.shape[1], Expr(node.integer("block")), node.expr("blocks"),
        Expr(node.integer("window")), lengths->type.strides[0], tables->type.strides[0]})
    sizes.push_back(out.size(each));
  out.hand("paged_bounds", "gx_paged_bounds", {}, node,
           {out.pointer(node.out(), true), out.pointer(lengths), out.pointer(tables)}, std::move(sizes));
  out.set_fault(ErrorKind::kInvalidArgument);
}

bool paged_bounds_fits(const Node& node) {
  return node.inputs[1]->type.strides[1].is(1) && node.out()->type.strides[0].is(1);
}

void lower_paged_attention(Lowering& out, Node& node) {
  namespace k = kernels;
  const ir::Type &q = node.inputs[0]->type, &key = node.inputs[1]->type, &v = node.inputs[2]->type;
  const ir::Type &tables = node.inputs[3]->type, &bounds = node.inputs[4]->type, &y = node.out()->type;
  std::vector<SizeId> sizes;
  for (const Expr& each :
       {q.shape[0], q.shape[1], key.shape[2], Expr(1), tables.shape[1] * key.shape[1], q.shape[2], v.shape[3]})
    sizes.push_back(out.size(each));
  sizes.push_back(out.bits_of(node.number("scale")));
  for (const Expr& each :
       {y.strides[0], y.strides[1],      Expr(0),        q.strides[0],      q.strides[1],
        Expr(0),      Expr(0),           key.strides[2], key.strides[1],    Expr(0),
        v.strides[2], v.strides[1],      Expr(0),        Expr(0),           Expr(0),
        Expr(0),      bounds.strides[0], Expr(0),        Expr(0),           Expr(0),
        Expr(0),      key.strides[0],    v.strides[0],   tables.strides[0], Expr(node.integer("window"))})
    sizes.push_back(out.size(each));
  const std::vector<std::pair<std::string, int64_t>> knobs = {
      {"GX_MASK", k::kMaskBound},
      {"GX_MASK_F32", 0},
      {"GX_LSE", 0},
      {"GX_HEAD_DIM", q.shape[2].constant()},
      {"GX_VALUE_DIM", v.shape[3].is_constant() ? v.shape[3].constant() : 0},
      {"GX_BLOCK_SIZE", key.shape[1].constant()}};
  const std::string dtype(name_of(q.dtype)), module = "attention_" + dtype;
  const runtime::Pointer workspace = out.workspace();
  const auto pointers = [&] {
    const runtime::Pointer unused = out.pointer(node.inputs[0]);
    return std::vector<runtime::Pointer>{out.pointer(node.out(), true),
                                         out.pointer(node.inputs[0]),
                                         out.pointer(node.inputs[1]),
                                         out.pointer(node.inputs[2]),
                                         unused,
                                         out.pointer(node.inputs[4]),
                                         unused,
                                         out.pointer(node.inputs[3]),
                                         workspace};
  };
  out.hand(module, "gx_attention_partial_" + dtype, knobs, node, pointers(), sizes, true);
  out.hand(module, "gx_attention_merge_" + dtype, knobs, node, pointers(), sizes);
}

bool paged_attention_fits(const Node& node) {
  const auto unit = [](const Value* value) {
    return value->type.strides.back().is(1) || value->type.shape.back().is(1);
  };
  const Expr& size = node.inputs[0]->type.shape[2];
  return in_f32(node) && size.is_constant() && size.constant() <= kernels::kMaxHeadDim && unit(node.inputs[0]) &&
         unit(node.inputs[1]) && unit(node.inputs[2]) && unit(node.inputs[3]) && unit(node.out());
}

bool attention_fits(const Node& node) {
  const auto unit = [](const Value* value) { return value->type.strides[3].is(1) || value->type.shape[3].is(1); };
  if (!in_f32(node) || !unit(node.inputs[0]) || !unit(node.inputs[1]) || !unit(node.inputs[2])) return false;
  if (!node.inputs[0]->type.shape[3].is_constant() || node.inputs[0]->type.shape[3].constant() > kernels::kMaxHeadDim)
    return false;
  if (node.inputs.size() < 4 || node.flag("bound")) return true;
  const DType mask = node.inputs[3]->type.dtype;
  return mask == DType::kBool || mask == DType::kF32 || mask == node.inputs[0]->type.dtype;
}

void lower_cat(Lowering& out, Node& node) {
  const ir::Type& type = node.out()->type;
  const int dim = ops::dim_attr(node, "dim", type.rank());
  Expr offset(0);
  for (Value* operand : node.inputs) {
    out.copy(operand, out.pointer_at(node.out(), offset * type.strides[dim], true), type.strides);
    offset = offset + operand->type.shape[dim];
  }
}

void lower_region_write(Lowering& out, Node& node) {
  out.start_overwrite(node);
  out.copy(node.inputs[1], out.pointer_at(node.out(), node.expr("offset"), true), node.exprs("strides"));
}

bool always(const Node&) { return true; }

const KernelTable& table() {
  static const KernelTable kTable = [] {
    KernelTable rows = indexing_kernels();
    rows.merge(line_kernels());
    rows.merge(KernelTable{{"addmm", {lower_matmul, matmul_fits}},
                           {"attention", {lower_attention, attention_fits}},
                           {"block_linear", {lower_block_linear, block_linear_fits}},
                           {"cat", {lower_cat, always}},
                           {"matmul", {lower_matmul, matmul_fits}},
                           {"paged_attention", {lower_paged_attention, paged_attention_fits}},
                           {"paged_bounds", {lower_paged_bounds, paged_bounds_fits}},
                           {"quantized_linear", {lower_quantized_linear, quantized_linear_fits}},
                           {"region_write", {lower_region_write, always}}});
    return rows;
  }();
  return kTable;
}

}  // namespace

KernelLowering kernel_for(const Node& node) {
  const auto it = table().find(node.op);
  return it == table().end() || !it->second.fits(node) ? nullptr : it->second.lower;
}

}  // namespace graphex::compile
