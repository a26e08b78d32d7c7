// topk and sort beside the algorithms that their contract names, for every level of this host.
#include "graphex/kernels/sorting/sorting.h"

#include <algorithm>
#include <cmath>

#include "graphex/base/dtype.h"
#include "tests/kernels/harness.h"

namespace graphex::kernels {
namespace {

using test::BF16;
using test::F16;
using test::Guarded;

template <typename T>
struct Entry {
  T value;
  int64_t index;
};

// NaN is the largest.
template <typename T>
bool less(T a, T b) {
  return b != b ? a == a : a < b;
}

template <typename T>
auto order(bool descending) {
  return [=](const Entry<T>& a, const Entry<T>& b) {
    return descending ? less(b.value, a.value) : less(a.value, b.value);
  };
}

// What one case asks for; stable_from < 0: topk.
struct Case {
  int64_t outer, length, inner, kept;
  bool descending, sorted;
  int64_t stable_from = -1;
};

template <typename T>
void expected_order(const Case& c, std::vector<Entry<T>>& row) {
  const auto before = order<T>(c.descending);
  if (c.stable_from >= 0) {
    if (c.length >= c.stable_from)
      std::sort(row.begin(), row.end(), [&](const Entry<T>& a, const Entry<T>& b) {
        return before(a, b) || (!before(b, a) && a.index < b.index);
      });
    else
      std::sort(row.begin(), row.end(), before);
  } else if (c.kept * kTopkFew <= c.length) {
    std::partial_sort(row.begin(), row.begin() + c.kept, row.end(), before);
  } else {
    std::nth_element(row.begin(), row.begin() + c.kept - 1, row.end(), before);
    if (c.sorted) std::sort(row.begin(), row.begin() + c.kept - 1, before);
  }
}

// Few different values, both zeros, infinities and NaN.
template <typename T>
void fill(Guarded<T>* to, uint32_t variety, bool special) {
  std::mt19937 random(variety);
  for (T& x : *to) {
    const auto whole = static_cast<int64_t>(random() % variety) - static_cast<int64_t>(variety / 2);
    if constexpr (std::is_integral_v<T>) {
      x = static_cast<T>(whole);
    } else {
      x = static_cast<T>(static_cast<double>(whole));
      const T odd[] = {static_cast<T>(std::nan("")), static_cast<T>(-std::nan("")), static_cast<T>(-0.0),
                       static_cast<T>(INFINITY), static_cast<T>(-INFINITY)};
      if (special && random() % 4 == 0) x = odd[random() % 5];
    }
  }
}

template <typename T>
void check(DType type, const Case& c, uint32_t variety, bool special) {
  const bool is_sort = c.stable_from >= 0;
  Guarded<T> in(c.outer * c.length * c.inner), values(c.outer * c.kept * c.inner);
  Guarded<int64_t> indices(values.size());
  fill(&in, variety, special);
  const std::vector<int64_t> sizes = {c.outer, c.length, c.inner, c.kept, c.stable_from};
  for (codegen::Isa isa : test::host_levels()) {
    codegen::HandKernel request{
        "sort", "gx_sort", {{"GX_ELEMENT", static_cast<int64_t>(type)}, {"GX_DESCENDING", c.descending}}};
    if (!is_sort) {
      request.module = "topk", request.entry = "gx_topk";
      request.knobs.emplace_back("GX_SORTED", c.sorted);
    }
    const codegen::Kernel kernel = test::compile_kernel(isa, request);
    Guarded<char> workspace(kernel.workspace(sizes.data()));
    std::fill(indices.begin(), indices.end(), -1);
    test::run_kernel(kernel, {values.data(), indices.data(), in.data(), workspace.data()}, sizes, 3);
    for (int64_t r = 0; r < c.outer * c.inner; ++r) {
      const int64_t o = r / c.inner, n = r % c.inner;
      std::vector<Entry<T>> row;
      for (int64_t i = 0; i < c.length; ++i) row.push_back({in[(o * c.length + i) * c.inner + n], i});
      if (c.kept > 0) expected_order(c, row);
      for (int64_t i = 0; i < c.kept; ++i) {
        const int64_t at = (o * c.kept + i) * c.inner + n;
        ASSERT_EQ(indices[at], row[i].index) << name_of(type) << " " << c.length << " " << c.kept << " at " << i;
        ASSERT_EQ(std::memcmp(&values[at], &in[(o * c.length + row[i].index) * c.inner + n], sizeof(T)), 0);
      }
    }
  }
}

template <typename T>
void check_lengths(DType type, const std::vector<int64_t>& lengths,
                   const std::vector<bool>& directions = {false, true}) {
  for (const int64_t n : lengths)
    for (const bool descending : directions)
      for (const uint32_t variety : {1u, 5u, 100u}) {
        for (const int64_t stable_from : {int64_t{0}, n + 1})
          check<T>(type, {2, n, n < 100 ? 3 : 1, n, descending, true, stable_from}, variety, true);
        for (const int64_t kept : {int64_t{0}, int64_t{1}, n / 64, n / 64 + 1, n / 2, n})
          if (kept <= n)
            check<T>(type, {2, n, n < 100 ? 3 : 1, kept, descending, descending || kept % 2 == 0}, variety, true);
      }
}

TEST(Sorting, floats_are_in_the_order_of_the_named_algorithms) {
  check_lengths<float>(DType::kF32, {0, 1, 2, 16, 17, 33, 128, 3000});
  check_lengths<double>(DType::kF64, {1, 40, 700}, {true});
  check_lengths<BF16>(DType::kBF16, {1, 40, 700}, {true});
  check_lengths<F16>(DType::kF16, {1, 40, 700}, {true});
}

TEST(Sorting, integers_are_in_the_order_of_the_named_algorithms) {
  check_lengths<int64_t>(DType::kI64, {1, 40, 700});
  check_lengths<int32_t>(DType::kI32, {40, 700}, {true});
  check_lengths<int16_t>(DType::kI16, {40, 700}, {true});
  check_lengths<int8_t>(DType::kI8, {40, 700}, {true});
  check_lengths<uint8_t>(DType::kU8, {40, 700}, {true});
}

TEST(Sorting, rows_that_do_not_fit_into_scratch_use_the_workspace) {
  for (const int64_t stable_from : {0, 1 << 30})
    check<float>(DType::kF32, {2, 300000, 1, 300000, true, true, stable_from}, 50000, true);
  check<int64_t>(DType::kI64, {2, 300000, 1, 290000, true, true}, 50000, false);
  check<float>(DType::kF32, {1, 300000, 1, 50, true, true}, 1000000, false);
}

}  // namespace
}  // namespace graphex::kernels
