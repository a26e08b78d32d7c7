// Attention against a plain fp64 reference, for every level of this host.
#include "graphex/kernels/attention/attention.h"

#include <cmath>
#include <limits>

#include "tests/kernels/harness.h"

namespace graphex::kernels {
namespace {

using codegen::Isa;
using test::BF16;
using test::F16;
using test::Guarded;

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Case {
  int64_t batch = 1, query_heads = 2, kv_heads = 1, queries = 1, keys = 1, head_dim = 8, value_dim = 8;
  int64_t mask = kMaskNone;
  bool mask_f32 = false;
  int64_t window = 0;
  bool token_major = false;  // [B, L, H, D] in memory instead of [B, H, L, D]
  bool knobs = false;        // head dimensions as knobs
};

std::string describe(const Case& c) {
  std::string text;
  for (int64_t v : {c.batch, c.query_heads, c.kv_heads, c.queries, c.keys, c.head_dim, c.value_dim, c.mask, c.window})
    text += std::to_string(v) + " ";
  return text + (c.token_major ? "token-major" : "");
}

template <typename T>
const char* type_name() {
  return sizeof(T) == 4 ? "f32" : std::is_same_v<T, F16> ? "f16" : "bf16";
}

// Operands of one call, their reference result, and the error that the element type allows.
template <typename T>
struct Problem {
  Case c;
  std::vector<int64_t> sizes;
  Guarded<T> query, key, value, out;
  Guarded<T> mask;
  Guarded<float> mask_f32;
  Guarded<char> keep;
  Guarded<int64_t> bound;
  Guarded<float> lse;
  std::vector<double> expected, tolerance, expected_lse, lse_tolerance;

  explicit Problem(const Case& c, uint32_t seed = 1)
      : c(c),
        sizes(kAttentionSizes),
        query(c.batch * c.query_heads * c.queries * c.head_dim),
        key(c.batch * c.kv_heads * c.keys * c.head_dim),
        value(c.batch * c.kv_heads * c.keys * c.value_dim),
        out(c.batch * c.query_heads * c.queries * c.value_dim, T(777.0)),
        mask(c.mask == kMaskAdditive && !c.mask_f32 ? c.batch * c.query_heads * c.queries * c.keys : 0),
        mask_f32(c.mask == kMaskAdditive && c.mask_f32 ? c.batch * c.queries * c.keys : 0),
        keep(c.mask == kMaskBoolean ? c.batch * c.queries * c.keys : 0),
        bound(c.mask == kMaskBound ? c.batch * c.queries : 0),
        lse(c.batch * c.query_heads * c.queries, 777.0f) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (T& x : query) x = T(2 * normal(random));
    for (T& x : key) x = T(normal(random));
    for (T& x : value) x = T(normal(random));
    for (T& x : mask) x = T(random() % 8 == 0 ? -kInf : normal(random));
    for (float& x : mask_f32) x = random() % 8 == 0 ? -kInf : normal(random);
    for (char& x : keep) x = random() % 4 != 0;
    for (int64_t i = 0; i < static_cast<int64_t>(bound.size()); ++i)
      bound[i] = i / c.queries * (c.keys / 3) + i % c.queries + c.keys / 5 - 1;
    if (c.mask == kMaskBoolean)
      for (int64_t j = 0; j < c.keys; ++j) keep[j] = 0;  // a row with nothing to see
    fill_sizes();
  }

  void set_strides(AttentionSize at, int64_t heads, int64_t length, int64_t width) {
    sizes[at] = heads * length * width;
    sizes[at + 1] = c.token_major ? width : length * width;
    sizes[at + 2] = c.token_major ? heads * width : width;
  }

  void fill_sizes() {
    const double scale = 1 / std::sqrt(static_cast<double>(c.head_dim ? c.head_dim : 1));
    sizes[kBatch] = c.batch, sizes[kQueryHeads] = c.query_heads, sizes[kKvHeads] = c.kv_heads;
    sizes[kQueries] = c.queries, sizes[kKeys] = c.keys, sizes[kHeadDim] = c.head_dim, sizes[kValueDim] = c.value_dim;
    std::memcpy(&sizes[kScale], &scale, 8);
    set_strides(kOutStrideB, c.query_heads, c.queries, c.value_dim);
    set_strides(kQueryStrideB, c.query_heads, c.queries, c.head_dim);
    set_strides(kKeyStrideB, c.kv_heads, c.keys, c.head_dim);
    set_strides(kValueStrideB, c.kv_heads, c.keys, c.value_dim);
    const bool per_head = c.mask == kMaskAdditive && !c.mask_f32;
    sizes[kMaskStrideB] = (per_head ? c.query_heads : 1) * c.queries * c.keys;
    sizes[kMaskStrideH] = per_head ? c.queries * c.keys : 0;
    sizes[kMaskStrideI] = c.keys, sizes[kMaskStrideJ] = 1;
    sizes[kBoundStrideB] = c.queries, sizes[kBoundStrideI] = 1;
    sizes[kLseStrideB] = c.query_heads * c.queries, sizes[kLseStrideH] = 1, sizes[kLseStrideI] = c.query_heads;
    sizes[kWindow] = c.window;
  }

  int64_t at(AttentionSize strides, int64_t b, int64_t h, int64_t l) const {
    return b * sizes[strides] + h * sizes[strides + 1] + l * sizes[strides + 2];
  }

  // What is added to the score of key j, -inf where it takes no part.
  double masked(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t in_mask = b * sizes[kMaskStrideB] + h * sizes[kMaskStrideH] + i * c.keys + j;
    if (c.mask == kMaskAdditive)
      return c.mask_f32 ? static_cast<double>(mask_f32[in_mask]) : static_cast<double>(mask[in_mask]);
    if (c.mask == kMaskBoolean) return keep[in_mask] ? 0 : -kInf;
    if (c.mask == kMaskNone) return 0;
    const int64_t last = c.mask == kMaskCausal ? i : bound[b * c.queries + i];
    return j <= last && (c.window <= 0 || j > last - c.window) ? 0 : -kInf;
  }

  void reference_row(int64_t b, int64_t h, int64_t i) {
    const int64_t g = h / (c.query_heads / c.kv_heads);
    const double scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
    std::vector<double> score(c.keys);
    double top = -kInf, sum = 0, magnitude = 0;
    for (int64_t j = 0; j < c.keys; ++j) {
      score[j] = masked(b, h, i, j);
      if (score[j] == -kInf) continue;
      double absolute = 0;
      for (int64_t d = 0; d < c.head_dim; ++d) {
        const double p =
            double(query[at(kQueryStrideB, b, h, i) + d]) * double(key[at(kKeyStrideB, b, g, j) + d]) * scale;
        score[j] += p;
        absolute += std::abs(p);
      }
      magnitude = std::max(magnitude, absolute + std::abs(score[j]));
      top = std::max(top, score[j]);
    }
    for (double& s : score) sum += s = top > -kInf ? std::exp(s - top) : 0;
    // Relative error of a weight: the scores' absolute error (a sum of head_dim products), then exp and the sums.
    const double u = 0x1p-24, weight = u * ((c.head_dim + 4) * magnitude + c.keys + 64);
    for (int64_t d = 0; d < c.value_dim; ++d) {
      double o = 0, absolute = 0;
      for (int64_t j = 0; j < c.keys; ++j) {
        if (score[j] == 0) continue;
        const double v = double(value[at(kValueStrideB, b, g, j) + d]);
        o += score[j] / sum * v;
        absolute += score[j] / sum * std::abs(v);
      }
      expected[at(kOutStrideB, b, h, i) + d] = o;
      tolerance[at(kOutStrideB, b, h, i) + d] = 2 * weight * absolute + test::unit_roundoff<T>() * std::abs(o) + 1e-7;
    }
    const int64_t at_lse = b * sizes[kLseStrideB] + h + i * c.query_heads;
    lse_tolerance[at_lse] = weight + u * std::abs(top);
    expected_lse[at_lse] = top > -kInf ? top + std::log(sum) : 0;
  }

  void compute_reference() {
    expected.assign(out.size(), 0);
    tolerance.assign(out.size(), 0);
    expected_lse.assign(lse.size(), 0);
    lse_tolerance.assign(lse.size(), 0);
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t h = 0; h < c.query_heads; ++h)
        for (int64_t i = 0; i < c.queries; ++i) reference_row(b, h, i);
  }

  void run(Isa isa, int workers) {
    const std::string name = type_name<T>();
    const std::vector<std::pair<std::string, int64_t>> knobs = {{"GX_MASK", c.mask},
                                                                {"GX_MASK_F32", c.mask_f32},
                                                                {"GX_LSE", 1},
                                                                {"GX_HEAD_DIM", c.knobs ? c.head_dim : 0},
                                                                {"GX_VALUE_DIM", c.knobs ? c.value_dim : 0},
                                                                {"GX_BLOCK_SIZE", 0}};
    const auto request = [&](const std::string& entry) {
      return codegen::HandKernel{"attention_" + name, entry + name, knobs};
    };
    const auto kernels = test::compile_kernels(
        isa, {request("gx_attention_partial_"), request("gx_attention_merge_"), request("gx_attention_")});
    const codegen::Kernel &partial = kernels[0], &merge = kernels[1], &prefill = kernels[2];
    Guarded<float> workspace(partial.workspace(sizes.data()) / 4, std::nanf(""));
    void* mask_data = c.mask == kMaskBoolean ? static_cast<void*>(keep.data())
                      : c.mask_f32           ? static_cast<void*>(mask_f32.data())
                                             : static_cast<void*>(mask.data());
    const std::vector<void*> pointers = {out.data(),   query.data(), key.data(), value.data(),    mask_data,
                                         bound.data(), lse.data(),   nullptr,    workspace.data()};
    EXPECT_EQ(partial.tiles(sizes.data()) > 0 && prefill.tiles(sizes.data()) > 0, false);
    test::run_kernel(partial, pointers, sizes, workers);
    test::run_kernel(merge, pointers, sizes, workers);
    test::run_kernel(prefill, pointers, sizes, workers);
  }

  void check() const {
    for (size_t n = 0; n < out.size(); ++n)
      ASSERT_NEAR(double(out[n]), expected[n], tolerance[n]) << type_name<T>() << " " << describe(c) << "element " << n;
    for (size_t n = 0; n < lse.size(); ++n)
      ASSERT_NEAR(lse[n], expected_lse[n], lse_tolerance[n]) << describe(c) << "lse " << n;
  }
};

template <typename T>
void check_case(const Case& c) {
  Problem<T> problem(c);
  problem.compute_reference();
  for (Isa isa : test::host_levels()) {
    problem.run(isa, 1);
    problem.check();
    const std::vector<T> once(problem.out.begin(), problem.out.end());
    problem.run(isa, 3);
    ASSERT_TRUE(test::same_bits(once, problem.out)) << "workers change bits";
  }
}

void check_f32_and_bf16(const Case& c) {
  check_case<float>(c);
  check_case<BF16>(c);
}

template <typename T>
class Attention : public testing::Test {};
using Types = testing::Types<float, BF16, F16>;
TYPED_TEST_SUITE(Attention, Types);

TYPED_TEST(Attention, decodes_one_query) {
  for (int64_t keys : {1, 5, 64, 65, 300})
    check_case<TypeParam>({.query_heads = 6, .kv_heads = 2, .keys = keys, .head_dim = 64, .value_dim = 64});
}

TYPED_TEST(Attention, decodes_against_a_bound) {
  for (int64_t queries : {1, 3})
    check_case<TypeParam>({.batch = 3,
                           .query_heads = 4,
                           .kv_heads = 2,
                           .queries = queries,
                           .keys = 400,
                           .head_dim = 16,
                           .value_dim = 32,
                           .mask = kMaskBound,
                           .token_major = true});
}

TYPED_TEST(Attention, decodes_group_sizes_of_every_row_tile) {
  for (int64_t heads : {1, 2, 3, 4, 5, 7, 8, 17, 100})
    check_case<TypeParam>({.query_heads = heads, .queries = 2, .keys = 130, .head_dim = 32, .value_dim = 40});
}

TEST(AttentionMask, prefills_causally) {
  for (int64_t queries : {9, 33, 300})
    check_f32_and_bf16(
        {.query_heads = 3, .queries = queries, .keys = queries, .head_dim = 64, .value_dim = 64, .mask = kMaskCausal});
}

TEST(AttentionMask, prefills_more_keys_than_queries_and_fewer) {
  for (int64_t keys : {7, 290})
    check_f32_and_bf16({.batch = 2,
                        .query_heads = 4,
                        .kv_heads = 2,
                        .queries = 40,
                        .keys = keys,
                        .head_dim = 24,
                        .value_dim = 16,
                        .mask = kMaskCausal,
                        .token_major = true});
}

TEST(AttentionMask, slides_a_window) {
  for (int64_t queries : {4, 310})
    check_f32_and_bf16(
        {.queries = queries, .keys = 320, .head_dim = 16, .value_dim = 16, .mask = kMaskBound, .window = 20});
  check_f32_and_bf16({.queries = 310, .keys = 310, .head_dim = 16, .value_dim = 16, .mask = kMaskCausal, .window = 33});
}

TEST(AttentionMask, adds_a_mask_of_the_element_type_or_f32) {
  for (int64_t queries : {2, 20}) {
    const Case c = {.batch = 2, .queries = queries, .keys = 77, .head_dim = 16, .value_dim = 16, .mask = kMaskAdditive};
    check_f32_and_bf16(c);
    Case wide = c;
    wide.mask_f32 = true;
    check_case<BF16>(wide);
  }
}

TEST(AttentionMask, obeys_a_boolean_mask) {
  for (int64_t queries : {2, 20})
    check_f32_and_bf16(
        {.batch = 2, .queries = queries, .keys = 77, .head_dim = 16, .value_dim = 16, .mask = kMaskBoolean});
}

TEST(AttentionKnobs, fix_the_head_dimensions) {
  for (int64_t queries : {1, 20})
    check_case<float>(
        {.query_heads = 3, .queries = queries, .keys = 100, .head_dim = 64, .value_dim = 64, .knobs = true});
}

TYPED_TEST(Attention, takes_odd_head_dimensions) {
  for (int64_t queries : {1, 11})
    for (int64_t dim : {1, 3, 17, 80})
      check_case<TypeParam>({.queries = queries, .keys = 37, .head_dim = dim, .value_dim = dim + 2});
}

TYPED_TEST(Attention, yields_zeros_without_keys) {
  for (int64_t queries : {1, 11}) check_case<TypeParam>({.queries = queries, .keys = 0});
  check_case<TypeParam>({.batch = 0, .keys = 3});
  check_case<TypeParam>({.queries = 0, .keys = 3});
}

// Bits of a sequence don't depend on what else is in the batch.
TYPED_TEST(Attention, ignores_batch_mates) {
  for (int64_t queries : {1, 40}) {
    Case c = {.batch = 3,
              .query_heads = 3,
              .queries = queries,
              .keys = 200,
              .head_dim = 64,
              .value_dim = 64,
              .mask = kMaskBound};
    Problem<TypeParam> many(c);
    many.run(codegen::host_isa(), 2);
    c.batch = 1;
    Problem<TypeParam> one(c);
    std::copy(many.key.begin(), many.key.begin() + one.key.size(), one.key.begin());
    std::copy(many.value.begin(), many.value.begin() + one.value.size(), one.value.begin());
    std::copy(many.query.begin(), many.query.begin() + one.query.size(), one.query.begin());
    std::copy(many.bound.begin(), many.bound.begin() + one.bound.size(), one.bound.begin());
    one.run(codegen::host_isa(), 1);
    ASSERT_EQ(std::memcmp(one.out.data(), many.out.data(), one.out.size() * sizeof(TypeParam)), 0);
  }
}

// A NaN in a key that takes part shows; keys beyond the bound may hold anything and are not read.
TYPED_TEST(Attention, shows_nan_but_never_reads_past_the_bound) {
  for (int64_t queries : {1, 40}) {
    Case c = {.queries = queries, .keys = 200, .head_dim = 16, .value_dim = 16, .mask = kMaskBound};
    Problem<TypeParam> problem(c);
    const int64_t last = problem.bound[queries - 1];
    for (int64_t n = (last + 1) * 16; n < 200 * 16; ++n) problem.key[n] = problem.value[n] = TypeParam(std::nan(""));
    problem.compute_reference();
    problem.run(codegen::host_isa(), 1);
    problem.check();
    problem.key[0] = TypeParam(std::nan(""));
    problem.run(codegen::host_isa(), 1);
    for (TypeParam x : problem.out) ASSERT_TRUE(std::isnan(double(x)));
  }
}

// Nor are keys that have left the window.
TYPED_TEST(Attention, never_reads_keys_before_the_window) {
  for (int64_t queries : {1, 40}) {
    Case c = {.queries = queries, .keys = 200, .head_dim = 16, .value_dim = 16, .mask = kMaskBound, .window = 7};
    Problem<TypeParam> problem(c);
    for (int64_t& last : problem.bound) last += 130;
    const int64_t first = problem.bound[0] - c.window + 1;
    for (int64_t n = 0; n < first * 16; ++n) problem.key[n] = problem.value[n] = TypeParam(std::nan(""));
    problem.compute_reference();
    problem.run(codegen::host_isa(), 1);
    problem.check();
  }
}

}  // namespace
}  // namespace graphex::kernels
