#include "graphex/ops/checks.h"

#include <algorithm>
#include <map>
#include <set>

#include "graphex/base/block_format.h"

namespace graphex::ops {
namespace {

std::string shape_text(const std::vector<ir::Expr>& shape) {
  std::vector<std::string> names;
  std::vector<int> symbols;
  for (const ir::Expr& size : shape) size.collect_symbols(symbols);
  for (const int symbol : symbols)
    while (static_cast<int>(names.size()) <= symbol) names.push_back("s" + std::to_string(names.size()));
  std::string text;
  for (const ir::Expr& size : shape) text += (text.empty() ? "[" : ", ") + size.str(names);
  return text.empty() ? "[]" : text + "]";
}

bool is_predicate(std::string_view name) {
#define GX_SCALAR(op, arity, result) \
  if (name == #op) return std::string_view(#result) == "pred";
#include "graphex/base/scalar_ops.def"
#undef GX_SCALAR
  return false;
}

}  // namespace

int dim_attr(const ir::Node& node, const std::string& name, int rank) {
  const int64_t dim = node.integer(name);
  require(dim >= 0 && dim < rank, node, "attribute '", name, "' is ", dim, "; expected 0 to ", rank - 1);
  return static_cast<int>(dim);
}

std::vector<int> reduced_dims(const ir::Node& node) {
  const int rank = in(node, 0).rank();
  std::set<int> dims;
  for (const int64_t dim : node.integers("dims")) {
    require(dim >= 0 && dim < rank, node, "dims holds ", dim, "; expected 0 to ", rank - 1);
    dims.insert(static_cast<int>(dim));
  }
  if (dims.empty())
    for (int i = 0; i < rank; ++i) dims.insert(i);
  return {dims.begin(), dims.end()};
}

void require_shape(const ir::Node& node, const ir::Value& value, const std::vector<ir::Expr>& expected) {
  require(value.type.shape == expected, node, "%", value.name, " has shape ", shape_text(value.type.shape),
          "; expected ", shape_text(expected));
}

void require_index(const ir::Node& node, int operand) {
  const DType dtype = in(node, operand).dtype;
  require(dtype == DType::kI64 || dtype == DType::kI32, node, "indices %", node.inputs[operand]->name, " are ",
          name_of(dtype), "; expected i64 or i32");
}

std::vector<ir::Expr> broadcast_shape(const ir::Node& node) {
  std::vector<ir::Expr> shape;
  for (const ir::Value* operand : node.inputs) {
    const auto& sizes = operand->type.shape;
    if (sizes.size() > shape.size()) shape.insert(shape.begin(), sizes.size() - shape.size(), ir::Expr(1));
    for (size_t i = 0; i < sizes.size(); ++i) {
      ir::Expr& size = shape[shape.size() - sizes.size() + i];
      if (size.is(1)) size = sizes[i];
      require(sizes[i].is(1) || sizes[i] == size, node, "operand %", operand->name, " of shape ", shape_text(sizes),
              " doesn't broadcast to ", shape_text(shape));
    }
  }
  return shape;
}

void check_scalar(const ir::Node& node) {
  const bool where = node.op == "where";
  if (where) require(in(node, 0).dtype == DType::kBool, node, "the condition must be bool");
  const DType compute = compute_type(in(node, where ? 1 : 0).dtype);
  for (size_t i = where ? 1 : 0; i < node.inputs.size(); ++i)
    require(compute_type(in(node, i).dtype) == compute, node, "operands %", node.inputs[where ? 1 : 0]->name, " (",
            name_of(in(node, where ? 1 : 0).dtype), ") and %", node.inputs[i]->name, " (", name_of(in(node, i).dtype),
            ") don't share a compute type; cast one");
  const DType result = node.out()->type.dtype;
  const DType expected = is_predicate(node.op) ? DType::kBool : compute;
  require(compute_type(result) == expected, node, "the result is ", name_of(result), "; expected ", name_of(expected));
  require_shape(node, *node.out(), broadcast_shape(node));
}

void check_reduction(const ir::Node& node) {
  const std::vector<int> dims = reduced_dims(node);
  std::vector<ir::Expr> expected;
  for (int i = 0; i < in(node, 0).rank(); ++i) {
    const bool reduced = std::find(dims.begin(), dims.end(), i) != dims.end();
    if (!reduced) expected.push_back(in(node, 0).shape[i]);
    if (reduced && node.flag("keepdim")) expected.push_back(ir::Expr(1));
  }
  require_shape(node, *node.out(), expected);
}

void check_arg_reduction(const ir::Node& node) {
  require(node.out()->type.dtype == DType::kI64, node, "the result must be i64");
  if (!node.flag("flat")) dim_attr(node, "dim", in(node, 0).rank());
}

void check_same_type_rank(const ir::Node& node) {
  require_shape(node, *node.out(), in(node, 0).shape);
  if (node.op == "copy")
    require(node.out()->type.dtype == in(node, 0).dtype, node, "a copy has its operand's dtype; use cast to convert");
}

void check_cat(const ir::Node& node) {
  const int dim = dim_attr(node, "dim", in(node, 0).rank());
  std::vector<ir::Expr> expected = in(node, 0).shape;
  for (size_t k = 1; k < node.inputs.size(); ++k) {
    require(in(node, k).dtype == in(node, 0).dtype && in(node, k).rank() == in(node, 0).rank(), node,
            "operands must have one dtype and rank");
    expected[dim] = expected[dim] + in(node, k).shape[dim];
  }
  require_shape(node, *node.out(), expected);
}

void check_matmul(const ir::Node& node) {
  const int first = node.op == "addmm" ? 1 : 0;
  const ir::Type &a = in(node, first), &b = in(node, first + 1);
  require(a.rank() == b.rank() && (a.rank() == 2 || a.rank() == 3), node,
          "expected two matrices or two batches of them");
  require(a.dtype == b.dtype && is_float(a.dtype), node, "operands must share a float dtype; got ", name_of(a.dtype),
          " and ", name_of(b.dtype));
  std::vector<ir::Expr> expected = a.shape;
  expected.back() = b.shape.back();
  require(a.shape.back() == b.shape[b.rank() - 2], node, "inner sizes differ: ", shape_text(a.shape), " x ",
          shape_text(b.shape));
  require_shape(node, *node.out(), expected);
}

void check_attention(const ir::Node& node) {
  const ir::Type &q = in(node, 0), &k = in(node, 1), &v = in(node, 2);
  require(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, node, "q, k and v must be [batch, heads, length, size]");
  require(q.dtype == k.dtype && q.dtype == v.dtype, node, "q, k and v must share a dtype");
  const int64_t group = node.integer("group");
  require(k.shape[1] * ir::Expr(group) == q.shape[1], node, "q has ", shape_text(q.shape), ", k ", shape_text(k.shape),
          ": heads don't match group=", group);
  require_shape(node, *node.out(), {q.shape[0], q.shape[1], q.shape[2], v.shape[3]});
  require(node.inputs.size() < 4 || !node.flag("causal"), node, "expected a mask or causal=true, not both");
}

void check_paged_bounds(const ir::Node& node) {
  const ir::Type &lengths = in(node, 0), &tables = in(node, 1), &out = node.out()->type;
  require(lengths.dtype == DType::kI64 && tables.dtype == DType::kI64 && out.dtype == DType::kI64, node,
          "lengths, tables and result must be i64");
  require(lengths.rank() == 1 && tables.rank() == 2, node,
          "expected lengths [sequences] and tables [sequences, blocks]");
  require(node.integer("block") > 0 && node.integer("block") % 16 == 0, node, "blocks must hold a multiple of 16 keys");
  node.expr("blocks");
  node.integer("window");
  require_shape(node, *node.inputs[1], {lengths.shape[0], tables.shape[1]});
  require_shape(node, *node.out(), {lengths.shape[0]});
}

void check_paged_attention(const ir::Node& node) {
  const ir::Type &q = in(node, 0), &k = in(node, 1), &v = in(node, 2), &tables = in(node, 3), &bounds = in(node, 4);
  require(q.rank() == 3 && k.rank() == 4 && v.rank() == 4 && tables.rank() == 2 && bounds.rank() == 1, node,
          "expected q [sequences, heads, size], caches [blocks, block size, kv heads, size], tables, bounds");
  require(q.dtype == k.dtype && q.dtype == v.dtype && node.out()->type.dtype == q.dtype, node,
          "q, caches and result must share a dtype");
  require(tables.dtype == DType::kI64 && bounds.dtype == DType::kI64, node, "tables and bounds must be i64");
  require(k.shape[1].is_constant() && k.shape[1].constant() > 0 && k.shape[1].constant() % 16 == 0, node,
          "blocks must hold a multiple of 16 keys");
  require(k.shape[2] * ir::Expr(node.integer("group")) == q.shape[1], node, "q has ", shape_text(q.shape),
          ", the cache ", shape_text(k.shape), ": heads don't match group=", node.integer("group"));
  node.number("scale");
  node.integer("window");
  require_shape(node, *node.inputs[1], {v.shape[0], v.shape[1], v.shape[2], q.shape[2]});
  require_shape(node, *node.inputs[3], {q.shape[0], tables.shape[1]});
  require_shape(node, *node.inputs[4], {q.shape[0]});
  require_shape(node, *node.out(), {q.shape[0], q.shape[1], v.shape[3]});
}

void check_quantized_linear(const ir::Node& node) {
  const ir::Type &x = in(node, 0), &w = in(node, 1), &s = in(node, 2);
  require(x.rank() == 2 && w.rank() == 2 && s.rank() == 2, node, "expected three matrices");
  require(is_float(x.dtype) && s.dtype == DType::kF32, node, "x must be of a float dtype and the scales f32");
  require(w.dtype == DType::kI8 || w.dtype == DType::kU8, node, "weights are i8, or pairs of 4 bits in u8; got ",
          name_of(w.dtype));
  const ir::Expr &k = x.shape[1], &groups = s.shape[1];
  require(k.is_constant() && groups.is_constant() && k.constant() > 0 && groups.constant() > 0 &&
              k.constant() % (32 * groups.constant()) == 0,
          node, "expected groups of a multiple of 32 elements; got ", shape_text(x.shape), " and scales ",
          shape_text(s.shape));
  const int64_t bytes = w.dtype == DType::kI8 ? k.constant() : k.constant() / 2;
  require_shape(node, *node.inputs[1], {s.shape[0], ir::Expr(bytes)});
  if (node.inputs.size() > 3) {
    require_shape(node, *node.inputs[3], {s.shape[0]});
    require(in(node, 3).dtype == x.dtype, node, "the bias must have x's dtype");
  }
  require(node.out()->type.dtype == x.dtype, node, "the result must have x's dtype");
  require_shape(node, *node.out(), {x.shape[0], s.shape[0]});
  node.flag("round_input");
}

void check_block_linear(const ir::Node& node) {
  const ir::Type &x = in(node, 0), &w = in(node, 1), &y = node.out()->type;
  const BlockFormat* format = find_block_format(node.text("format"));
  require(format != nullptr, node, "unknown format '", node.text("format"), "'");
  require(x.rank() == 2 && w.rank() == 2 && y.rank() == 2, node, "expected matrices");
  require(is_float(x.dtype) && y.dtype == x.dtype && w.dtype == DType::kU8, node,
          "x and the result must be of one float dtype, the blocks u8");
  const ir::Expr &k = x.shape[1], &n = y.shape[1];
  require(k.is_constant() && n.is_constant() && k.constant() > 0 && k.constant() % format->elements == 0, node,
          "expected rows of a multiple of ", format->elements, " elements; got ", shape_text(x.shape));
  require_shape(node, *node.out(), {x.shape[0], n});
  const int64_t tiles = (n.constant() + kTileRows - 1) / kTileRows;
  require_shape(node, *node.inputs[1], {ir::Expr(tiles), ir::Expr(tile_bytes(*format, k.constant()))});
  if (node.inputs.size() < 3) return;
  require_shape(node, *node.inputs[2], {n});
  require(in(node, 2).dtype == x.dtype, node, "the bias must have x's dtype");
}

void check_index_select(const ir::Node& node) {
  require_index(node, 1);
  const int dim = dim_attr(node, "dim", in(node, 0).rank());
  std::vector<ir::Expr> expected(in(node, 0).shape.begin(), in(node, 0).shape.begin() + dim);
  expected.insert(expected.end(), in(node, 1).shape.begin(), in(node, 1).shape.end());
  expected.insert(expected.end(), in(node, 0).shape.begin() + dim + 1, in(node, 0).shape.end());
  require_shape(node, *node.out(), expected);
}

void check_index(const ir::Node& node) {
  dim_attr(node, "dim", in(node, 0).rank());
  for (size_t i = 1; i < node.inputs.size(); ++i) require_index(node, static_cast<int>(i));
}

void check_gather(const ir::Node& node) {
  require_index(node, 1);
  dim_attr(node, "dim", in(node, 0).rank());
  require_shape(node, *node.out(), in(node, 1).shape);
}

namespace {

// Values and indices along the attribute `dim`, of which `kept` are left.
void check_order(const ir::Node& node, const ir::Expr& kept) {
  std::vector<ir::Expr> expected = in(node, 0).shape;
  expected[dim_attr(node, "dim", in(node, 0).rank())] = kept;
  require(node.out()->type.dtype == in(node, 0).dtype, node, "the values must have the operand's dtype");
  require(node.out(1)->type.dtype == DType::kI64, node, "the indices must be i64");
  for (const auto& result : node.outputs) require_shape(node, *result, expected);
}

}  // namespace

void check_sort(const ir::Node& node) {
  const int dim = dim_attr(node, "dim", in(node, 0).rank());
  node.flag("descending");
  node.expr("stable_from");
  check_order(node, in(node, 0).shape[dim]);
}

void check_topk(const ir::Node& node) {
  node.flag("largest");
  node.flag("sorted");
  check_order(node, node.expr("k"));
}

void check_overwrite(const ir::Node& node) {
  require(node.out()->type.dtype == in(node, 0).dtype, node, "the result must have the first operand's dtype");
  require_shape(node, *node.out(), in(node, 0).shape);
}

}  // namespace graphex::ops
