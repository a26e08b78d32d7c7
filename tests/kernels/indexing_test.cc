// The kernels that move elements by index, against loops that spell out their definitions, for every level of this
// host.
#include "graphex/kernels/indexing/indexing.h"

#include <cmath>
#include <functional>

#include "tests/kernels/harness.h"

namespace graphex::kernels {
namespace {

using codegen::Isa;
using test::BF16;
using test::F16;
using test::Guarded;
using Dims = std::vector<int64_t>;

int64_t count_of(const Dims& shape) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}

Dims contiguous(const Dims& shape) {
  Dims strides(shape.size(), 1);
  for (int d = static_cast<int>(shape.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

int64_t dot(const Dims& a, const Dims& b) {
  int64_t sum = 0;
  for (size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

// Calls f(coordinates) in row-major order.
void for_each(const Dims& shape, const std::function<void(const Dims&)>& f) {
  Dims at(shape.size(), 0);
  for (int64_t n = 0; n < count_of(shape); ++n) {
    f(at);
    for (int d = static_cast<int>(shape.size()) - 1; d >= 0 && ++at[d] == shape[d]; --d) at[d] = 0;
  }
}

template <typename T>
void fill_random(Guarded<T>* to, uint32_t seed = 7) {
  std::mt19937 random(seed);
  for (T& x : *to) x = static_cast<T>(random());
}

// ---- gather_rows ----

template <typename T, typename I>
void check_gather_rows(int64_t outer, int64_t rows, int64_t inner, int64_t count) {
  Guarded<T> base(outer * rows * inner), out(outer * count * inner);
  Guarded<I> indices(count);
  fill_random(&base);
  for (int64_t n = 0; n < count; ++n) indices[n] = static_cast<I>(n * 7919 % rows);
  std::vector<int64_t> sizes = {outer, rows, inner, count, rows * inner, inner, count * inner, inner, 1, 0};
  for (Isa isa : test::host_levels()) {
    auto kernel = test::compile_kernel(
        isa, {"gather_rows", "gx_gather_rows", {{"GX_ELEMENT_BYTES", sizeof(T)}, {"GX_INDEX_BYTES", sizeof(I)}}});
    std::fill(out.begin(), out.end(), T{});
    EXPECT_EQ(test::run_kernel(kernel, {out.data(), base.data(), indices.data()}, sizes, 3).fault, GX_OK);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t n = 0; n < count; ++n)
        ASSERT_EQ(std::memcmp(&out[(o * count + n) * inner], &base[(o * rows + indices[n]) * inner], inner * sizeof(T)),
                  0);
  }
}

TEST(GatherRows, copies_rows_of_every_length) {
  for (int64_t inner : {1, 3, 64, 5000}) {
    check_gather_rows<uint8_t, int64_t>(1, 11, inner, 5);
    check_gather_rows<uint16_t, int32_t>(2, 11, inner, 50);
    check_gather_rows<uint32_t, int64_t>(3, 1, inner, 4);
    check_gather_rows<uint64_t, int64_t>(1, 300, inner, 33);
  }
  check_gather_rows<uint32_t, int64_t>(2, 3, 4, 0);
  check_gather_rows<uint32_t, int64_t>(0, 3, 4, 2);
  check_gather_rows<uint32_t, int64_t>(2, 3, 0, 2);
}

TEST(GatherRows, reports_and_skips_a_bad_index) {
  for (int64_t bad : {-1, 4, 1 << 30}) {
    Guarded<float> base(4 * 8, 1.0f), out(3 * 8, 5.0f);
    Guarded<int64_t> indices(3);
    indices[1] = bad;
    auto kernel = test::compile_kernel(
        codegen::host_isa(), {"gather_rows", "gx_gather_rows", {{"GX_ELEMENT_BYTES", 4}, {"GX_INDEX_BYTES", 8}}});
    const GxStatus status =
        test::run_kernel(kernel, {out.data(), base.data(), indices.data()}, {1, 4, 8, 3, 32, 8, 24, 8, 1, 2});
    EXPECT_EQ(status.fault, GX_INDEX_OUT_OF_RANGE);
    EXPECT_EQ(status.a, bad);
    EXPECT_EQ(status.b, 4);
    EXPECT_EQ(status.c, 2);
    EXPECT_EQ(out[7], 1.0f);
    EXPECT_EQ(out[8], 5.0f);
    EXPECT_EQ(out[16], 1.0f);
  }
}

// ---- index, index_put, index_add ----

// One indexed operation over `shape`; the indexed dimensions of the base have sizes `index_sizes`.
struct Indexed {
  Dims shape, base_strides, other_strides;
  int64_t ordered = 0;
  struct Tensor {
    int64_t size, base_stride, dim;
    Dims strides;
  };
  std::vector<Tensor> tensors;
  int64_t base_count = 0, other_count = 0;

  std::vector<int64_t> sizes(int64_t alpha = 0) const {
    std::vector<int64_t> s(kIndexSizes);
    s[kIndexRank] = shape.size(), s[kIndexCount] = tensors.size(), s[kIndexOrdered] = ordered, s[kIndexAlpha] = alpha;
    std::copy(shape.begin(), shape.end(), s.begin() + kIndexShape);
    std::copy(base_strides.begin(), base_strides.end(), s.begin() + kIndexBaseStrides);
    std::copy(other_strides.begin(), other_strides.end(), s.begin() + kIndexOtherStrides);
    for (size_t k = 0; k < tensors.size(); ++k) {
      auto to = s.begin() + kIndexTensors + k * kIndexTensorSizes;
      to[0] = tensors[k].size, to[1] = tensors[k].base_stride, to[2] = tensors[k].dim;
      std::copy(tensors[k].strides.begin(), tensors[k].strides.end(), to + 3);
    }
    return s;
  }
};

// Index tensors as large as their strides reach, with negative entries where they may be.
std::vector<std::unique_ptr<Guarded<int64_t>>> make_indices(const Indexed& op, bool wrap) {
  std::mt19937 random(3);
  std::vector<std::unique_ptr<Guarded<int64_t>>> indices;
  for (const auto& t : op.tensors) {
    Dims last = op.shape;
    for (int64_t& d : last) --d;
    indices.push_back(std::make_unique<Guarded<int64_t>>(count_of(op.shape) ? dot(last, t.strides) + 1 : 0));
    for (int64_t& i : *indices.back()) {
      i = static_cast<int64_t>(random() % t.size);
      if (wrap && random() % 2) i -= t.size;
    }
  }
  return indices;
}

// Offsets in base and other of every point, in row-major order.
void for_each_point(const Indexed& op, const std::vector<std::unique_ptr<Guarded<int64_t>>>& indices,
                    const std::function<void(int64_t, int64_t)>& f) {
  for_each(op.shape, [&](const Dims& at) {
    int64_t base = dot(at, op.base_strides);
    for (size_t k = 0; k < op.tensors.size(); ++k) {
      const int64_t i = (*indices[k])[dot(at, op.tensors[k].strides)];
      base += (i < 0 ? i + op.tensors[k].size : i) * op.tensors[k].base_stride;
    }
    f(base, dot(at, op.other_strides));
  });
}

std::vector<Indexed> indexed_cases() {
  std::vector<Indexed> cases;
  // x[7, 5, 6]; x[i] with i [4]
  cases.push_back({{4, 5, 6}, {0, 6, 1}, {30, 6, 1}, 1, {{7, 30, 0, {1, 0, 0}}}, 210, 120});
  // x[:, i] with i [9], more than a tile of rows
  cases.push_back({{7, 9, 600}, {3000, 0, 1}, {5400, 600, 1}, 2, {{5, 600, 1, {0, 1, 0}}}, 21000, 37800});
  // x[i, :, j] with i [3, 1], j [2] -> [3, 2, 5]
  cases.push_back({{3, 2, 5}, {0, 0, 6}, {10, 5, 1}, 3, {{7, 30, 0, {1, 0, 0}}, {6, 1, 2, {0, 1, 0}}}, 210, 30});
  // x[i, j, k] -> [8]
  cases.push_back({{8}, {0}, {1}, 1, {{7, 30, 0, {1}}, {5, 6, 1, {1}}, {6, 1, 2, {1}}}, 210, 8});
  // gather / scatter on dim 1 of x[4, 5, 6] with i [3, 9, 6]
  cases.push_back({{3, 9, 6}, {30, 0, 1}, {54, 6, 1}, 2, {{5, 6, 1, {54, 6, 1}}}, 120, 162});
  // gather / scatter on the last dim, from a transposed operand
  cases.push_back({{4, 3}, {1, 0}, {1, 4}, 2, {{6, 4, 1, {3, 1}}}, 24, 12});
  // a cache update: x[2, 3, 50, 16] at positions [4]
  cases.push_back({{2, 3, 4, 16}, {2400, 800, 0, 1}, {192, 64, 16, 1}, 4, {{50, 16, 2, {0, 0, 1, 0}}}, 4800, 384});
  // nothing to do, and a single point
  cases.push_back({{0, 5}, {0, 1}, {5, 1}, 1, {{7, 5, 0, {1, 0}}}, 35, 0});
  cases.push_back({{1}, {0}, {1}, 1, {{1, 1, 0, {1}}}, 1, 1});
  return cases;
}

std::vector<void*> pointers_of(void* first, void* second,
                               const std::vector<std::unique_ptr<Guarded<int64_t>>>& indices) {
  std::vector<void*> pointers = {first, second};
  for (auto& i : indices) pointers.push_back(i->data());
  return pointers;
}

template <typename T>
void check_index(const Indexed& op, bool wrap) {
  Guarded<T> base(op.base_count), out(op.other_count);
  fill_random(&base);
  auto indices = make_indices(op, wrap);
  for (Isa isa : test::host_levels()) {
    auto kernel = test::compile_kernel(
        isa, {"index", "gx_index", {{"GX_ELEMENT_BYTES", sizeof(T)}, {"GX_INDEX_BYTES", 8}, {"GX_WRAP", wrap}}});
    std::fill(out.begin(), out.end(), T{});
    EXPECT_EQ(test::run_kernel(kernel, pointers_of(out.data(), base.data(), indices), op.sizes(), 3).fault, GX_OK);
    for_each_point(op, indices, [&](int64_t b, int64_t o) { ASSERT_EQ(out[o], base[b]); });
  }
}

TEST(Index, reads_every_kind_of_case) {
  for (const Indexed& op : indexed_cases())
    for (bool wrap : {false, true}) {
      check_index<uint32_t>(op, wrap);
      check_index<uint8_t>(op, wrap);
    }
  check_index<uint16_t>(indexed_cases()[2], true);
  check_index<uint64_t>(indexed_cases()[2], true);
}

template <typename T>
void check_index_put(const Indexed& op) {
  Guarded<T> base(op.base_count), value(op.other_count), expected(op.base_count);
  fill_random(&value);
  auto indices = make_indices(op, true);
  for (Isa isa : test::host_levels()) {
    auto kernel = test::compile_kernel(
        isa, {"index_put", "gx_index_put", {{"GX_ELEMENT_BYTES", sizeof(T)}, {"GX_INDEX_BYTES", 8}, {"GX_WRAP", 1}}});
    fill_random(&base, 9);
    std::copy(base.begin(), base.end(), expected.begin());
    for_each_point(op, indices, [&](int64_t b, int64_t o) { expected[b] = value[o]; });
    EXPECT_EQ(test::run_kernel(kernel, pointers_of(base.data(), value.data(), indices), op.sizes(), 3).fault, GX_OK);
    ASSERT_TRUE(test::same_bits(base, expected));
  }
}

TEST(IndexPut, lets_the_last_of_equal_destinations_win) {
  for (const Indexed& op : indexed_cases()) {
    check_index_put<uint32_t>(op);
    check_index_put<uint64_t>(op);
  }
  check_index_put<uint8_t>(indexed_cases()[1]);
  check_index_put<uint16_t>(indexed_cases()[1]);
}

TEST(IndexPut, spreads_a_scalar) {
  Indexed op = indexed_cases()[4];
  op.other_strides = {0, 0, 0};
  op.other_count = 1;
  check_index_put<uint32_t>(op);
}

TEST(IndexPut, skips_bad_indices_and_reports_one) {
  const Indexed op = indexed_cases()[0];
  for (bool wrap : {false, true}) {
    Guarded<uint32_t> base(op.base_count, 1), value(op.other_count, 2);
    Guarded<int64_t> index(4);
    index[0] = 2, index[1] = 7, index[2] = wrap ? -8 : -1, index[3] = 0;
    auto kernel = test::compile_kernel(
        codegen::host_isa(),
        {"index_put", "gx_index_put", {{"GX_ELEMENT_BYTES", 4}, {"GX_INDEX_BYTES", 8}, {"GX_WRAP", wrap}}});
    const GxStatus status = test::run_kernel(kernel, {base.data(), value.data(), index.data()}, op.sizes());
    EXPECT_EQ(status.fault, GX_INDEX_OUT_OF_RANGE);
    EXPECT_EQ(status.a, 7);
    EXPECT_EQ(status.b, 7);
    for (int64_t r = 0; r < 7; ++r) EXPECT_EQ(base[r * 30], r == 0 || r == 2 ? 2u : 1u) << r;
  }
}

template <typename T>
void check_index_add(const std::string& type, const Indexed& op, double alpha) {
  Guarded<T> base(op.base_count), value(op.other_count), expected(op.base_count);
  std::mt19937 random(5);
  for (T& x : value) x = static_cast<T>(static_cast<double>(random() % 200) / 16);
  auto indices = make_indices(op, true);
  int64_t bits;
  std::memcpy(&bits, &alpha, 8);
  if (std::is_integral_v<T>) bits = static_cast<int64_t>(alpha);
  for (Isa isa : test::host_levels()) {
    auto kernel =
        test::compile_kernel(isa, {"index_add", "gx_index_add_" + type, {{"GX_INDEX_BYTES", 8}, {"GX_WRAP", 1}}});
    for (size_t i = 0; i < base.size(); ++i) base[i] = expected[i] = static_cast<T>(static_cast<double>(i % 5));
    for_each_point(op, indices, [&](int64_t b, int64_t o) {
      expected[b] = static_cast<T>(static_cast<double>(expected[b]) + alpha * static_cast<double>(value[o]));
    });
    test::run_kernel(kernel, pointers_of(base.data(), value.data(), indices), op.sizes(bits), 3);
    ASSERT_TRUE(test::same_bits(base, expected)) << type;
  }
}

// Values are multiples of 1/16 and alpha a power of 2, so fp32 sums are exact and only the rounding to T is tested.
TEST(IndexAdd, adds_in_order_and_rounds_each_time) {
  for (const Indexed& op : indexed_cases())
    for (double alpha : {1.0, -2.0}) {
      check_index_add<float>("f32", op, alpha);
      check_index_add<BF16>("bf16", op, alpha);
      check_index_add<int64_t>("i64", op, alpha);
    }
  for (double alpha : {1.0, 0.5}) {
    check_index_add<double>("f64", indexed_cases()[4], alpha);
    check_index_add<F16>("f16", indexed_cases()[4], alpha);
  }
  check_index_add<int32_t>("i32", indexed_cases()[4], -3);
  check_index_add<int16_t>("i16", indexed_cases()[4], 2);
  check_index_add<int8_t>("i8", indexed_cases()[4], 1);
  check_index_add<uint8_t>("u8", indexed_cases()[4], 1);
}

// ---- copy, fill ----

template <typename T>
void check_copy(const Dims& shape, const Dims& out_strides, const Dims& in_strides) {
  Dims last = shape;
  for (int64_t& d : last) --d;
  const bool empty = count_of(shape) == 0;
  Guarded<T> in(empty ? 0 : dot(last, in_strides) + 1), out(empty ? 0 : dot(last, out_strides) + 1),
      expected(out.size());
  fill_random(&in);
  for_each(shape, [&](const Dims& at) { expected[dot(at, out_strides)] = in[dot(at, in_strides)]; });
  std::vector<int64_t> sizes(kCopySizes);
  sizes[kCopyRank] = shape.size();
  std::copy(shape.begin(), shape.end(), sizes.begin() + kCopyShape);
  std::copy(out_strides.begin(), out_strides.end(), sizes.begin() + kCopyOutStrides);
  std::copy(in_strides.begin(), in_strides.end(), sizes.begin() + kCopyInStrides);
  sizes[kCopyFillValue] = 0x7b7b7b7b7b7b7b7b;
  for (Isa isa : test::host_levels()) {
    auto copy = test::compile_kernel(isa, {"copy", "gx_copy", {{"GX_ELEMENT_BYTES", sizeof(T)}}});
    auto fill = test::compile_kernel(isa, {"copy", "gx_fill", {{"GX_ELEMENT_BYTES", sizeof(T)}}});
    std::fill(out.begin(), out.end(), T{});
    test::run_kernel(copy, {out.data(), in.data()}, sizes, 3);
    ASSERT_TRUE(test::same_bits(out, expected));
    test::run_kernel(fill, {out.data()}, sizes, 3);
    for_each(shape, [&](const Dims& at) { ASSERT_EQ(out[dot(at, out_strides)], static_cast<T>(0x7b7b7b7b7b7b7b7b)); });
  }
}

template <typename T>
void check_copies() {
  for (const Dims& shape : {Dims{}, Dims{1}, Dims{70000}, Dims{3, 5}, Dims{2, 0, 3}, Dims{2, 3, 4, 5, 2, 1, 3, 2}})
    check_copy<T>(shape, contiguous(shape), contiguous(shape));
  check_copy<T>({130, 67}, {67, 1}, {1, 130});                         // a transpose
  check_copy<T>({3, 9, 130, 4}, {4680, 520, 4, 1}, {4680, 4, 36, 1});  // heads and tokens swapped
  check_copy<T>({2, 70, 65}, {4550, 65, 1}, {5000, 1, 71});            // a batch of transposes, padded
  check_copy<T>({5, 6}, {1, 5}, {6, 1});                               // into a transposed layout
  check_copy<T>({4, 100, 3}, {300, 3, 1}, {0, 0, 1});                  // expanded
  check_copy<T>({4, 1000}, {2500, 2}, {1000, 1});                      // every second element
}

TEST(Copy, moves_between_any_layouts) {
  check_copies<uint8_t>();
  check_copies<uint16_t>();
  check_copies<uint32_t>();
  check_copies<uint64_t>();
}

// ---- arg_reduce, cumsum ----

template <typename T>
void check_arg_reduce(const std::string& type, int64_t outer, int64_t length, int64_t inner, int nans, bool smallest) {
  Guarded<T> in(outer * length * inner);
  std::mt19937 random(length);
  for (T& x : in) x = static_cast<T>(static_cast<double>(random() % 120));
  for (int n = 0; n < nans && in.size() > 0; ++n) in[random() % in.size()] = static_cast<T>(std::nan(""));
  Guarded<int64_t> out(outer * inner);
  const std::vector<int64_t> sizes = {outer, length, inner, length * inner, inner, 1, inner, 0, 1};
  for (Isa isa : test::host_levels()) {
    std::fill(out.begin(), out.end(), -1);
    auto compiled = [&](const std::string& entry) {
      return test::compile_kernel(isa, {"arg_reduce", entry + type, {{"GX_ARG_MIN", smallest}}});
    };
    auto partial = compiled("gx_arg_reduce_partial_"), merge = compiled("gx_arg_reduce_merge_");
    Guarded<char> workspace(partial.workspace(sizes.data()));
    const std::vector<void*> pointers = {out.data(), in.data(), workspace.data()};
    test::run_kernel(partial, pointers, sizes, 3);
    test::run_kernel(merge, pointers, sizes, 1);
    test::run_kernel(compiled("gx_arg_reduce_"), pointers, sizes, 2);
    for (int64_t row = 0; row < outer * inner; ++row) {
      auto at = [&](int64_t i) { return in[row / inner * length * inner + i * inner + row % inner]; };
      int64_t best = 0;
      for (int64_t i = 1; i < length; ++i) {
        const bool found = at(best) == at(best), is_nan = at(i) != at(i);
        if (found && (is_nan || (smallest ? at(i) < at(best) : at(i) > at(best)))) best = i;
      }
      ASSERT_EQ(out[row], best) << type << " " << outer << " " << length << " " << inner;
    }
  }
}

TEST(ArgReduce, finds_the_first_extreme) {
  for (bool smallest : {false, true}) {
    for (int64_t length : {1, 2, 511, 1030, 16384, 49152}) {
      check_arg_reduce<float>("f32", 3, length, 1, 0, smallest);
      check_arg_reduce<float>("f32", 2, length, 5, 0, smallest);
    }
    for (int64_t length : {600, 20000}) {
      check_arg_reduce<float>("f32", 2, length, 1, 2, smallest);
      check_arg_reduce<double>("f64", 2, length, 1, 2, smallest);
      check_arg_reduce<BF16>("bf16", 2, length, 1, 2, smallest);
      check_arg_reduce<F16>("f16", 2, length, 1, 2, smallest);
      check_arg_reduce<int64_t>("i64", 2, length, 1, 0, smallest);
      check_arg_reduce<int32_t>("i32", 20, length, 1, 0, smallest);
    }
  }
  check_arg_reduce<int16_t>("i16", 2, 600, 1, 0, false);
  check_arg_reduce<int8_t>("i8", 2, 600, 1, 0, false);
  check_arg_reduce<uint8_t>("u8", 2, 600, 1, 0, false);
  check_arg_reduce<float>("f32", 0, 5, 1, 0, false);
}

template <typename T, typename Out, typename Sum>
void check_cumsum(const std::string& type, int64_t outer, int64_t length, int64_t inner) {
  Guarded<T> in(outer * length * inner);
  Guarded<Out> out(in.size());
  std::mt19937 random(11);
  for (T& x : in) x = static_cast<T>(static_cast<double>(random() % 100) / 8);
  const std::vector<int64_t> sizes = {outer, length, inner, length * inner, inner, 1, length * inner, inner, 1};
  for (Isa isa : test::host_levels()) {
    auto kernel = test::compile_kernel(isa, {"cumsum", "gx_cumsum_" + type, {}});
    test::run_kernel(kernel, {out.data(), in.data()}, sizes, 3);
    for (int64_t row = 0; row < outer * inner; ++row) {
      Sum sum = 0;
      for (int64_t i = 0; i < length; ++i) {
        const int64_t at = row / inner * length * inner + i * inner + row % inner;
        sum += static_cast<Sum>(in[at]);
        ASSERT_EQ(out[at], static_cast<Out>(sum)) << type;
      }
    }
  }
}

TEST(Cumsum, sums_along_a_dimension) {
  for (int64_t inner : {1, 3, 70}) {
    check_cumsum<float, float, double>("f32", 2, 300, inner);
    check_cumsum<double, double, double>("f64", 2, 300, inner);
    check_cumsum<BF16, BF16, float>("bf16", 2, 300, inner);
    check_cumsum<F16, F16, float>("f16", 2, 300, inner);
    check_cumsum<int64_t, int64_t, int64_t>("i64", 1, 9, inner);
    check_cumsum<int32_t, int64_t, int64_t>("i32", 1, 9, inner);
    check_cumsum<int16_t, int64_t, int64_t>("i16", 1, 9, inner);
    check_cumsum<int8_t, int64_t, int64_t>("i8", 1, 300, inner);
    check_cumsum<uint8_t, int64_t, int64_t>("u8", 1, 300, inner);
  }
  check_cumsum<float, float, double>("f32", 2, 0, 3);
  check_cumsum<float, float, double>("f32", 2, 1, 1);
}

}  // namespace
}  // namespace graphex::kernels
