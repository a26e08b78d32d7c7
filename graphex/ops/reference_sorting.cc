// Sorting. The order of equal elements is that of libstdc++'s algorithms, as README.md says.
#include <algorithm>
#include <cmath>

#include "graphex/ops/checks.h"
#include "graphex/ops/reference.h"

namespace graphex::ops::reference {
namespace {

struct Entry {
  Number value;
  int64_t index;
};

// NaN is the largest.
bool less(DType dtype, const Number& a, const Number& b) {
  if (!is_float(dtype)) return a.i < b.i;
  return std::isnan(b.f) ? !std::isnan(a.f) : a.f < b.f;
}

// Calls f(row, order) for each row along `dim`, and writes what is then the beginning of the row.
template <typename F>
void for_each_row(const Call& call, bool largest_first, F f) {
  const Array& x = *call.in[0];
  const auto dim = static_cast<size_t>(call.node.integer("dim"));
  std::vector<int64_t> rows = x.shape;
  rows[dim] = 1;
  for (Index i(rows); i.valid(); i.next()) {
    std::vector<int64_t> at = i.at();
    std::vector<Entry> row;
    for (at[dim] = 0; at[dim] < x.shape[dim]; ++at[dim]) row.push_back({element(x, at), at[dim]});
    f(row, [&](const Entry& a, const Entry& b) {
      return largest_first ? less(x.dtype, b.value, a.value) : less(x.dtype, a.value, b.value);
    });
    for (at[dim] = 0; at[dim] < call.out[0]->shape[dim]; ++at[dim]) {
      const Entry& entry = row[static_cast<size_t>(at[dim])];
      call.out[0]->data[position(*call.out[0], at)] = entry.value;
      call.out[1]->data[position(*call.out[1], at)].i = entry.index;
    }
  }
}

void sort(const Call& call) {
  const int64_t stable_from = call.size(call.node.expr("stable_from"));
  for_each_row(call, call.node.flag("descending"), [&](std::vector<Entry>& row, auto before) {
    if (static_cast<int64_t>(row.size()) >= stable_from)
      std::sort(row.begin(), row.end(),
                [&](const Entry& a, const Entry& b) { return before(a, b) || (!before(b, a) && a.index < b.index); });
    else
      std::sort(row.begin(), row.end(), before);
  });
}

void topk(const Call& call) {
  const int64_t kept = call.size(call.node.expr("k"));
  for_each_row(call, call.node.flag("largest"), [&](std::vector<Entry>& row, auto before) {
    if (kept == 0) return;
    if (kept * 64 <= static_cast<int64_t>(row.size()))
      return std::partial_sort(row.begin(), row.begin() + kept, row.end(), before);
    std::nth_element(row.begin(), row.begin() + kept - 1, row.end(), before);
    if (call.node.flag("sorted")) std::sort(row.begin(), row.begin() + kept - 1, before);
  });
}

}  // namespace

const Evaluators& sorting_evaluators() {
  static const Evaluators kTable = {{"sort", sort}, {"topk", topk}};
  return kTable;
}

}  // namespace graphex::ops::reference
