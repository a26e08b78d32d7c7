// Operators that move elements by index: the contracts of graphex/kernels/indexing/indexing.h.
#include <algorithm>
#include <bit>

#include "graphex/base/error.h"
#include "graphex/compile/kernel_table.h"
#include "graphex/kernels/indexing/indexing.h"
#include "graphex/ops/checks.h"

namespace graphex::compile {

std::vector<ir::Expr> broadcast_strides(const ir::Type& type, int rank) {
  std::vector<ir::Expr> strides(rank, ir::Expr(0));
  for (int d = 0; d < type.rank(); ++d)
    if (!type.shape[d].is(1)) strides[rank - type.rank() + d] = type.strides[d];
  return strides;
}

namespace {

using ir::Expr;
using ir::Node;
using ir::Value;
using runtime::Pointer;
using runtime::SizeId;
namespace k = kernels;

struct IndexTensor {
  Value* value;
  Expr size, base_stride;
  int dim;
  std::vector<Expr> strides;  // along the iteration space
};

// One walk over an iteration space: how `index`, `index_put` and `index_add` are told what to do.
struct IndexWalk {
  std::vector<Expr> shape, base_strides, other_strides;
  std::vector<IndexTensor> indices;
  int64_t ordered = 0;
  int64_t alpha = 0;
};

std::vector<SizeId> sizes_of(Lowering& out, const IndexWalk& walk) {
  std::vector<SizeId> sizes = {out.size(static_cast<int64_t>(walk.shape.size())),
                               out.size(static_cast<int64_t>(walk.indices.size())), out.size(walk.ordered),
                               out.size(walk.alpha)};
  auto padded = [&](const std::vector<Expr>& list) {
    for (int d = 0; d < k::kMaxRank; ++d)
      sizes.push_back(out.size(d < static_cast<int>(list.size()) ? list[d] : Expr(0)));
  };
  padded(walk.shape);
  padded(walk.base_strides);
  padded(walk.other_strides);
  for (int i = 0; i < k::kMaxIndices; ++i) {
    const bool used = i < static_cast<int>(walk.indices.size());
    sizes.push_back(out.size(used ? walk.indices[i].size : Expr(0)));
    sizes.push_back(out.size(used ? walk.indices[i].base_stride : Expr(0)));
    sizes.push_back(out.size(used ? walk.indices[i].dim : 0));
    padded(used ? walk.indices[i].strides : std::vector<Expr>());
  }
  return sizes;
}

int64_t bytes_of(DType dtype) { return size_of(dtype); }

void emit_walk(Lowering& out, const Node& node, const std::string& module, const std::string& entry,
               const IndexWalk& walk, Pointer first, Pointer second, int64_t wrap) {
  std::vector<Pointer> pointers = {first, second};
  for (const IndexTensor& index : walk.indices) pointers.push_back(out.pointer(index.value));
  while (static_cast<int>(pointers.size()) < 2 + k::kMaxIndices) pointers.push_back(pointers[2]);
  std::vector<std::pair<std::string, int64_t>> knobs = {{"GX_INDEX_BYTES", bytes_of(walk.indices[0].value->type.dtype)},
                                                        {"GX_WRAP", wrap}};
  if (module != "index_add") knobs.emplace_back("GX_ELEMENT_BYTES", bytes_of(node.out()->type.dtype));
  out.hand(module, entry, std::move(knobs), node, std::move(pointers), sizes_of(out, walk));
  // PyTorch's own kinds of error: IndexError for these, RuntimeError for gather, scatter and index_add.
  const bool index_error =
      node.op == "index" || node.op == "index_select" || node.op == "index_put" || node.op == "index_copy";
  out.set_fault(index_error ? ErrorKind::kIndex : ErrorKind::kRuntime);
}

std::vector<Expr> without(std::vector<Expr> strides, int dim) {
  strides[dim] = 0;
  return strides;
}

// The index tensor's strides placed at dimensions [at, at + rank) of a space.
std::vector<Expr> strides_at(const ir::Type& type, int at, int rank, int space_rank) {
  std::vector<Expr> strides(space_rank, Expr(0));
  const std::vector<Expr> own = broadcast_strides(type, rank);
  std::copy(own.begin(), own.end(), strides.begin() + at);
  return strides;
}

// Indexing of dims dim, dim+1, ...: space = before + broadcast indices + after.
IndexWalk advanced(const Node& node, int first_index, const ir::Type& base) {
  const int dim = static_cast<int>(node.integer("dim"));
  const int count = static_cast<int>(node.inputs.size()) - first_index;
  Node indices;
  indices.op = node.op;
  indices.inputs.assign(node.inputs.begin() + first_index, node.inputs.end());
  const std::vector<Expr> common = ops::broadcast_shape(indices);
  const int rank = static_cast<int>(common.size());
  IndexWalk walk;
  auto add = [&](int from, int to) {
    walk.shape.insert(walk.shape.end(), base.shape.begin() + from, base.shape.begin() + to);
    walk.base_strides.insert(walk.base_strides.end(), base.strides.begin() + from, base.strides.begin() + to);
  };
  add(0, dim);
  walk.shape.insert(walk.shape.end(), common.begin(), common.end());
  walk.base_strides.insert(walk.base_strides.end(), rank, Expr(0));
  add(dim + count, base.rank());
  const int space = static_cast<int>(walk.shape.size());
  for (int i = 0; i < count; ++i)
    walk.indices.push_back({indices.inputs[i], base.shape[dim + i], base.strides[dim + i], dim + i,
                            strides_at(indices.inputs[i]->type, dim, rank, space)});
  for (int d = dim; d < dim + rank; ++d) walk.ordered |= int64_t{1} << d;
  return walk;
}

void lower_index(Lowering& out, Node& node) {
  IndexWalk walk = advanced(node, 1, node.inputs[0]->type);
  walk.other_strides = node.out()->type.strides;
  emit_walk(out, node, "index", "gx_index", walk, out.pointer(node.out(), true), out.pointer(node.inputs[0]), true);
}

// Rows of a contiguous matrix-like base, the case of embeddings.
bool is_row_gather(const Node& node) {
  const ir::Type &base = node.inputs[0]->type, &index = node.inputs[1]->type;
  if (node.integer("dim") != 0 || !index.is_contiguous() || !node.out()->type.is_contiguous()) return false;
  const std::vector<Expr> tail(base.shape.begin() + 1, base.shape.end());
  const std::vector<Expr> expected = ir::contiguous_strides(tail);
  return std::equal(expected.begin(), expected.end(), base.strides.begin() + 1);
}

void lower_row_gather(Lowering& out, Node& node) {
  const ir::Type &base = node.inputs[0]->type, &index = node.inputs[1]->type;
  Expr inner(1);
  for (int d = 1; d < base.rank(); ++d) inner = inner * base.shape[d];
  std::vector<SizeId> sizes;
  for (const Expr& each :
       {Expr(1), base.shape[0], inner, index.numel(), Expr(0), base.strides[0], Expr(0), inner, Expr(1), Expr(0)})
    sizes.push_back(out.size(each));
  out.hand("gather_rows", "gx_gather_rows",
           {{"GX_ELEMENT_BYTES", bytes_of(base.dtype)}, {"GX_INDEX_BYTES", bytes_of(index.dtype)}}, node,
           {out.pointer(node.out(), true), out.pointer(node.inputs[0]), out.pointer(node.inputs[1])}, std::move(sizes));
}

void lower_index_select(Lowering& out, Node& node) {
  if (is_row_gather(node)) return lower_row_gather(out, node);
  IndexWalk walk = advanced(node, 1, node.inputs[0]->type);
  walk.other_strides = node.out()->type.strides;
  emit_walk(out, node, "index", "gx_index", walk, out.pointer(node.out(), true), out.pointer(node.inputs[0]), false);
}

// Operators whose index has the space's own shape along `dim`.
IndexWalk along(const Node& node, const ir::Type& base, const ir::Type& space, std::vector<Expr> index_strides) {
  const int dim = static_cast<int>(node.integer("dim"));
  IndexWalk walk;
  walk.shape = space.shape;
  walk.base_strides = without(base.strides, dim);
  walk.indices = {{node.inputs[1], base.shape[dim], base.strides[dim], dim, std::move(index_strides)}};
  walk.ordered = int64_t{1} << dim;
  return walk;
}

void lower_gather(Lowering& out, Node& node) {
  IndexWalk walk = along(node, node.inputs[0]->type, node.inputs[1]->type, node.inputs[1]->type.strides);
  walk.other_strides = node.out()->type.strides;
  emit_walk(out, node, "index", "gx_index", walk, out.pointer(node.out(), true), out.pointer(node.inputs[0]), false);
}

void overwrite(Lowering& out, const Node& node, IndexWalk walk, Value* source, bool add, int64_t wrap) {
  out.start_overwrite(node);
  const double alpha = node.has("alpha") ? node.number("alpha") : 1;
  walk.alpha = is_float(node.out()->type.dtype) ? std::bit_cast<int64_t>(alpha) : static_cast<int64_t>(alpha);
  const std::string entry = add ? "gx_index_add_" + std::string(name_of(node.out()->type.dtype)) : "gx_index_put";
  emit_walk(out, node, add ? "index_add" : "index_put", entry, walk, out.pointer(node.out(), true), out.pointer(source),
            wrap);
}

void lower_index_put(Lowering& out, Node& node) {
  IndexWalk walk = advanced(node, 2, node.out()->type);
  walk.other_strides = broadcast_strides(node.inputs[1]->type, static_cast<int>(walk.shape.size()));
  overwrite(out, node, std::move(walk), node.inputs[1], node.flag("accumulate"),
            node.flag("skip") ? k::kSkipNegative : 1);
}

// index_copy and index_add: a 1-D index along dim of the source.
void lower_indexed_rows(Lowering& out, Node& node) {
  Value *index = node.inputs[1], *source = node.inputs[2];
  std::vector<Expr> strides(source->type.rank(), Expr(0));
  if (index->type.rank() == 1) strides[node.integer("dim")] = index->type.strides[0];
  IndexWalk walk = along(node, node.out()->type, source->type, std::move(strides));
  walk.other_strides = source->type.strides;
  overwrite(out, node, std::move(walk), source, node.op == "index_add", false);
}

void lower_scatter(Lowering& out, Node& node) {
  IndexWalk walk = along(node, node.out()->type, node.inputs[1]->type, node.inputs[1]->type.strides);
  walk.other_strides = broadcast_strides(node.inputs[2]->type, static_cast<int>(walk.shape.size()));
  overwrite(out, node, std::move(walk), node.inputs[2], node.op == "scatter_add", false);
}

int space_rank(const Node& node) { return node.out()->type.rank(); }

bool few_indices(const Node& node) {
  const size_t first = node.op == "index_put" ? 2 : 1;
  return node.inputs.size() - first <= k::kMaxIndices && space_rank(node) <= k::kMaxRank &&
         node.inputs[0]->type.rank() + 3 <= k::kMaxRank;
}

bool low_rank(const Node& node) { return space_rank(node) <= k::kMaxRank && node.inputs[0]->type.rank() > 0; }

bool additive(const Node& node) { return low_rank(node) && node.out()->type.dtype != DType::kBool; }

bool put_fits(const Node& node) {
  return few_indices(node) && !(node.flag("accumulate") && node.out()->type.dtype == DType::kBool);
}

}  // namespace

KernelTable indexing_kernels() {
  return {
      {"gather", {lower_gather, low_rank}},          {"index", {lower_index, few_indices}},
      {"index_add", {lower_indexed_rows, additive}}, {"index_copy", {lower_indexed_rows, low_rank}},
      {"index_put", {lower_index_put, put_fits}},    {"index_select", {lower_index_select, low_rank}},
      {"scatter", {lower_scatter, low_rank}},        {"scatter_add", {lower_scatter, additive}},
  };
}

}  // namespace graphex::compile
