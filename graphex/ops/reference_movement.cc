// Concatenation, regions and everything with indices.
#include <algorithm>

#include "graphex/ops/checks.h"
#include "graphex/ops/reference.h"

namespace graphex::ops::reference {
namespace {

using At = std::vector<int64_t>;

// An index checked against the size of its dimension; a negative one counts from the end where the operator says so.
int64_t checked(const Call& call, const Number& index, int64_t size, int64_t dim, bool negative) {
  const int64_t at = negative && index.i < 0 ? index.i + size : index.i;
  if (at < 0 || at >= size)
    fail(ErrorKind::kIndex, label(call.node), ": index ", index.i, " is out of bounds for dimension ", dim,
         " with size ", size);
  return at;
}

void cat(const Call& call) {
  const auto dim = static_cast<size_t>(call.node.integer("dim"));
  int64_t from = 0;
  for (const Array* operand : call.in) {
    for (Index i(operand->shape); i.valid(); i.next()) {
      At at = i.at();
      at[dim] += from;
      call.out[0]->data[position(*call.out[0], at)] = element(*operand, i.at());
    }
    from += operand->shape[dim];
  }
}

// Regions are in the layout of x, which is the result's.
void region_write(const Call& call) {
  const At strides = call.sizes(call.node.out()->type.strides), region = call.sizes(call.node.exprs("strides"));
  const int64_t offset = call.size(call.node.expr("offset"));
  std::map<int64_t, size_t> place;  // memory offset -> element
  size_t k = 0;
  for (Index i(call.out[0]->shape); i.valid(); i.next(), ++k) {
    int64_t at = 0;
    for (size_t d = 0; d < strides.size(); ++d) at += i[d] * strides[d];
    place[at] = k;
    call.out[0]->data[k] = call.in[0]->data[k];
  }
  k = 0;
  for (Index i(call.in[1]->shape); i.valid(); i.next(), ++k) {
    int64_t at = offset;
    for (size_t d = 0; d < region.size(); ++d) at += i[d] * region[d];
    const auto it = place.find(at);
    require(it != place.end(), call.node, "the region reaches element ", at, ", outside of its operand");
    call.out[0]->data[it->second] = call.in[1]->data[k];
  }
}

void index_select(const Call& call) {
  const Array &x = *call.in[0], &indices = *call.in[1];
  const int64_t dim = call.node.integer("dim");
  const auto rank = static_cast<int64_t>(indices.shape.size());
  size_t k = 0;
  for (Index i(call.out[0]->shape); i.valid(); i.next(), ++k) {
    At at(i.at().begin(), i.at().begin() + dim);
    const At which(i.at().begin() + dim, i.at().begin() + dim + rank);
    at.push_back(
        checked(call, element(indices, which), x.shape[static_cast<size_t>(dim)], dim, call.node.flag("negative")));
    at.insert(at.end(), i.at().begin() + dim + rank, i.at().end());
    call.out[0]->data[k] = element(x, at);
  }
}

// The element of x that the indices from operand `first` on choose for position `at` of the indexed result.
At indexed(const Call& call, size_t first, size_t index_rank, const At& at) {
  const int64_t dim = call.node.integer("dim");
  const At which(at.begin() + dim, at.begin() + dim + static_cast<int64_t>(index_rank));
  At result(at.begin(), at.begin() + dim);
  for (size_t n = first; n < call.in.size(); ++n) {
    const auto along = static_cast<int64_t>(result.size());
    result.push_back(
        checked(call, element(*call.in[n], which), call.in[0]->shape[static_cast<size_t>(along)], along, true));
  }
  result.insert(result.end(), at.begin() + dim + static_cast<int64_t>(index_rank), at.end());
  return result;
}

At broadcast_of(const Call& call, size_t first) {
  At shape;
  for (size_t n = first; n < call.in.size(); ++n) {
    const At& each = call.in[n]->shape;
    if (each.size() > shape.size()) shape.insert(shape.begin(), each.size() - shape.size(), 1);
    for (size_t d = 0; d < each.size(); ++d)
      if (each[d] != 1) shape[shape.size() - each.size() + d] = each[d];
  }
  return shape;
}

bool has_negative(const Call& call, const At& at) {
  const int64_t dim = call.node.integer("dim");
  const At which(at.begin() + dim, at.begin() + dim + static_cast<int64_t>(broadcast_of(call, 2).size()));
  return std::any_of(call.in.begin() + 2, call.in.end(),
                     [&](const Array* index) { return element(*index, which).i < 0; });
}

void index(const Call& call) {
  const size_t index_rank = broadcast_of(call, 1).size();
  size_t k = 0;
  for (Index i(call.out[0]->shape); i.valid(); i.next(), ++k)
    call.out[0]->data[k] = element(*call.in[0], indexed(call, 1, index_rank, i.at()));
}

void index_put(const Call& call) {
  const Array& x = *call.in[0];
  call.out[0]->data = x.data;
  const At indices = broadcast_of(call, 2);
  const int64_t dim = call.node.integer("dim");
  At shape(x.shape.begin(), x.shape.begin() + dim);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), x.shape.begin() + dim + static_cast<int64_t>(call.in.size()) - 2, x.shape.end());
  for (Index i(shape); i.valid(); i.next()) {
    if (call.node.flag("skip") && has_negative(call, i.at())) continue;
    Number& to = call.out[0]->data[position(x, indexed(call, 2, indices.size(), i.at()))];
    const Number& value = element(*call.in[1], i.at());
    const Number both[] = {to, value};
    to = call.node.flag("accumulate") ? scalar("add", compute_type(x.dtype), both) : value;
  }
}

void gather(const Call& call) {
  const int64_t dim = call.node.integer("dim");
  size_t k = 0;
  for (Index i(call.in[1]->shape); i.valid(); i.next(), ++k) {
    At at = i.at();
    at[static_cast<size_t>(dim)] =
        checked(call, call.in[1]->data[k], call.in[0]->shape[static_cast<size_t>(dim)], dim, false);
    call.out[0]->data[k] = element(*call.in[0], at);
  }
}

void scatter(const Call& call) {
  const int64_t dim = call.node.integer("dim");
  call.out[0]->data = call.in[0]->data;
  for (Index i(call.in[1]->shape); i.valid(); i.next()) {
    At at = i.at();
    at[static_cast<size_t>(dim)] =
        checked(call, element(*call.in[1], i.at()), call.in[0]->shape[static_cast<size_t>(dim)], dim, false);
    Number& to = call.out[0]->data[position(*call.out[0], at)];
    const Number both[] = {to, element(*call.in[2], i.at())};
    to = call.node.op == "scatter_add" ? scalar("add", compute_type(call.out[0]->dtype), both) : both[1];
  }
}

void index_copy(const Call& call) {
  const Array& src = *call.in[2];
  const int64_t dim = call.node.integer("dim");
  const bool adds = call.node.op == "index_add";
  const double alpha = adds && call.node.has("alpha") ? call.node.number("alpha") : 1;
  call.out[0]->data = call.in[0]->data;
  for (Index i(src.shape); i.valid(); i.next()) {
    At at = i.at();
    const Number& index = call.in[1]->data[static_cast<size_t>(i[static_cast<size_t>(dim)])];
    at[static_cast<size_t>(dim)] = checked(call, index, call.in[0]->shape[static_cast<size_t>(dim)], dim, false);
    Number& to = call.out[0]->data[position(*call.out[0], at)];
    const Number n = element(src, i.at());
    if (!adds)
      to = n;
    else
      to = {to.f + alpha * n.f, to.i + static_cast<int64_t>(alpha) * n.i};
  }
}

}  // namespace

const Evaluators& movement_evaluators() {
  static const Evaluators kTable = {
      {"cat", cat},
      {"gather", gather},
      {"index", index},
      {"index_add", index_copy},
      {"index_copy", index_copy},
      {"index_put", index_put},
      {"index_select", index_select},
      {"region_write", region_write},
      {"scatter", scatter},
      {"scatter_add", scatter},
  };
  return kTable;
}

}  // namespace graphex::ops::reference
