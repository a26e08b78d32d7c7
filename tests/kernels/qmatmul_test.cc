// The quantised matmul family against its definition, for every level of this host: exact where the products are
// integers, within the bound of an fp32 sum where they are floats; operands end at an unreadable page.
#include "graphex/kernels/qmatmul/qmatmul.h"

#include <cmath>
#include <limits>

#include "graphex/base/dtype.h"
#include "tests/kernels/harness.h"

namespace graphex::kernels {
namespace {

using codegen::Isa;
using test::BF16;
using test::F16;
using test::Guarded;

struct Case {
  int64_t m, n, k, groups = 1;
  int bits = 8;
  bool round_input = true, bias = false;
  int64_t pad = 0;  // added to every row stride
};

std::string text_of(const Case& c) {
  std::string text;
  for (const int64_t value : {c.m, c.n, c.k, c.groups, int64_t(c.bits), int64_t(c.round_input), int64_t(c.bias), c.pad})
    text += std::to_string(value) + " ";
  return text;
}

int64_t rows_extent(int64_t rows, int64_t stride, int64_t length) {
  return rows == 0 ? 0 : (rows - 1) * stride + length;
}

template <class T>
constexpr const char* kName = std::is_same_v<T, float>  ? "f32"
                              : std::is_same_v<T, BF16> ? "bf16"
                                                        : "f16";

template <class T>
struct Layer {
  Case c;
  int64_t row_bytes, x_stride, w_stride, s_stride, y_stride;
  Guarded<T> x, bias;
  Guarded<uint8_t> w;
  Guarded<float> s;

  explicit Layer(const Case& in)
      : c(in),
        row_bytes(c.k * c.bits / 8),
        x_stride(c.k + c.pad),
        w_stride(row_bytes + c.pad),
        s_stride(c.groups + c.pad),
        y_stride(c.n + c.pad),
        x(rows_extent(c.m, x_stride, c.k)),
        bias(c.bias ? c.n : 0),
        w(rows_extent(c.n, w_stride, row_bytes)),
        s(rows_extent(c.n, s_stride, c.groups)) {
    std::mt19937 random(static_cast<unsigned>(c.m * 131 + c.n * 17 + c.k));
    std::normal_distribution<float> values;
    for (T& each : x) each = T(values(random));
    for (T& each : bias) each = T(values(random));
    for (uint8_t& each : w) each = static_cast<uint8_t>(random());
    for (float& each : s) each = 0.01f + 0.001f * static_cast<float>(random() % 64);
  }

  int64_t weight(int64_t n, int64_t k) const {
    if (c.bits == 8) return static_cast<int8_t>(w[n * w_stride + k]);
    const uint8_t pair = w[n * w_stride + k / 32 * 16 + k % 16];
    return (k % 32 < 16 ? pair & 15 : pair >> 4) - 8;
  }

  std::vector<T> run(Isa isa, int workers, bool fixed_m = false) {
    const std::string name = std::string("qmatmul_") + kName<T>;
    const codegen::Kernel kernel = test::compile_kernel(isa, {name,
                                                              "gx_" + name,
                                                              {{"GX_BITS", c.bits},
                                                               {"GX_INPUT", c.round_input},
                                                               {"GX_GROUPED", c.groups > 1},
                                                               {"GX_BIAS", c.bias},
                                                               {"GX_M", fixed_m ? 1 : -1}}});
    Guarded<T> y(rows_extent(c.m, y_stride, c.n), T(NAN));
    test::run_kernel(kernel, {y.data(), x.data(), w.data(), s.data(), bias.data()},
                     {c.m, c.n, c.k, c.k / c.groups, x_stride, w_stride, s_stride, y_stride}, workers);
    return {y.begin(), y.end()};
  }
};

float step_of(const std::vector<double>& row, double& inverse) {
  float most = 0, spoilt = 0;
  for (const double each : row) {
    most = std::max(most, std::abs(static_cast<float>(each)));
    spoilt += static_cast<float>(each) * 0.0f;
  }
  most += spoilt;
  inverse = std::isfinite(127.0f / most) ? 127.0f / most : 0.0f;
  return most / 127.0f;
}

template <class T>
void check(Isa isa, const Case& c) {
  SCOPED_TRACE(text_of(c));
  Layer<T> layer(c);
  const std::vector<T> got = layer.run(isa, 3);
  for (int64_t m = 0; m < c.m; ++m) {
    std::vector<double> row;
    for (int64_t k = 0; k < c.k; ++k) row.push_back(layer.x[m * layer.x_stride + k]);
    double inverse = 1;
    const float step = c.round_input ? step_of(row, inverse) : 1;
    for (double& each : row)
      if (c.round_input) each = std::nearbyint(static_cast<float>(each) * static_cast<float>(inverse));
    for (int64_t n = 0; n < c.n; ++n) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < c.k; ++k) {
        const double term = row[k] * static_cast<double>(layer.weight(n, k)) *
                            (c.groups > 1 ? layer.s[n * layer.s_stride + k * c.groups / c.k] : 1);
        sum += term;
        size += std::abs(term);
      }
      const double bias = c.bias ? double(layer.bias[n]) : 0;
      const double value = got[m * layer.y_stride + n];
      if (c.round_input && c.groups == 1) {
        float expected = static_cast<float>(sum) * (step * layer.s[n * layer.s_stride]);
        if (c.bias) expected += static_cast<float>(bias);
        ASSERT_EQ(value, double(T(expected))) << m << " " << n;
        continue;
      }
      const double factor = step * (c.groups == 1 ? layer.s[n * layer.s_stride] : 1);
      const double expected = sum * factor + bias, steps = double(c.k + 8) * 0x1p-24;
      const double bound = steps * (size * std::abs(factor) + std::abs(bias));
      ASSERT_LE(std::abs(value - expected), bound + test::unit_roundoff<T>() * (std::abs(expected) + bound) + 0x1p-25)
          << m << " " << n << ": got " << value << ", expected " << expected;
    }
  }
}

class QuantMatmulTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > codegen::host_isa()) GTEST_SKIP() << "this host lacks the level";
  }
};

TEST_P(QuantMatmulTest, IsItsDefinition) {
  for (const int bits : {8, 4})
    for (const bool round_input : {false, true})
      for (const auto& [m, n, k, groups] : {std::array<int64_t, 4>{1, 9, 96, 1},
                                            {1, 40, 128, 2},
                                            {2, 8, 32, 1},
                                            {3, 17, 64, 2},
                                            {4, 5, 192, 3},
                                            {7, 11, 64, 1},
                                            {2, 5, 0, 1},
                                            {13, 70, 160, 1},
                                            {6, 6, 224, 7},
                                            {1, 7, 192, 2},
                                            {5, 4, 384, 3},
                                            {2, 3, 480, 3},
                                            {0, 4, 32, 1},
                                            {5, 0, 32, 1}}) {
        check<float>(GetParam(), {m, n, k, groups, bits, round_input, m % 2 == 1, n % 3});
        if (k == 64) check<BF16>(GetParam(), {m, n, k, groups, bits, round_input, m % 2 == 0, 0});
        if (k == 32) check<F16>(GetParam(), {m, n, k, groups, bits, round_input, false, 1});
      }
}

TEST_P(QuantMatmulTest, PacksLongRowsBlockByBlock) {
  check<float>(GetParam(), {70, 3, 4096, 1, 8, true});
  check<float>(GetParam(), {9, 2, 20480, 5, 4, false, true});
}

TEST_P(QuantMatmulTest, ARowsBitsDependOnNothingElse) {
  for (const auto& [bits, groups] : {std::array<int64_t, 2>{8, 1}, {8, 4}, {4, 1}, {4, 8}, {4, 2}})
    for (const bool round_input : {false, true}) {
      const int width = static_cast<int>(bits);
      Layer<float> all({6, 23, 256, groups, width, round_input});
      const std::vector<float> together = all.run(GetParam(), 2);
      EXPECT_TRUE(test::same_bits(together, all.run(GetParam(), 1)));
      Layer<float> alone({1, 23, 256, groups, width, round_input});
      std::copy(all.w.begin(), all.w.end(), alone.w.begin());
      std::copy(all.s.begin(), all.s.end(), alone.s.begin());
      for (int64_t row = 0; row < 6; ++row) {
        std::copy_n(all.x.begin() + row * 256, 256, alone.x.begin());
        const std::vector<float> expected(together.begin() + row * 23, together.begin() + (row + 1) * 23);
        EXPECT_TRUE(test::same_bits(alone.run(GetParam(), 1), expected)) << row;
        EXPECT_TRUE(test::same_bits(alone.run(GetParam(), 2, true), expected)) << row;
      }
    }
}

TEST_P(QuantMatmulTest, RowsOfNothingTinyOrNotFinite) {
  Layer<float> layer({5, 3, 64});
  const auto fill = [&](int64_t row, float value) { std::fill_n(layer.x.begin() + row * 64, 64, value); };
  fill(0, 0.0f);
  fill(1, 0x1p-149f);
  layer.x[2 * 64 + 5] = std::numeric_limits<float>::infinity();
  layer.x[3 * 64 + 63] = NAN;
  const std::vector<float> y = layer.run(GetParam(), 1);
  for (int64_t n = 0; n < 3; ++n) {
    EXPECT_EQ(y[n], 0);
    EXPECT_EQ(y[3 + n], 0);
    EXPECT_TRUE(std::isnan(y[6 + n]) && std::isnan(y[9 + n])) << n;
    EXPECT_TRUE(std::isfinite(y[12 + n]) && y[12 + n] != 0);
  }
}

TEST_P(QuantMatmulTest, TheLargestSumsFitInIntegers) {
  Layer<float> layer({1, 1, 131072});
  std::fill(layer.x.begin(), layer.x.end(), -1.0f);
  std::fill(layer.w.begin(), layer.w.end(), uint8_t{0x80});
  layer.s[0] = 1;
  EXPECT_EQ(layer.run(GetParam(), 1)[0], static_cast<float>(int64_t{131072} * 127 * 128) * (1.0f / 127.0f));
}

INSTANTIATE_TEST_SUITE_P(Levels, QuantMatmulTest, testing::ValuesIn(codegen::kIsas),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace graphex::kernels
