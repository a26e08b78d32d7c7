// Linear layers over weights in blocks against the formats' scalar definition, for every level of this host: exact
// where every step fits f32, within the bound of an fp32 sum where not; operands end at an unreadable page.
#include "graphex/kernels/blocks/blocks.h"

#include <cmath>
#include <limits>

#include "graphex/base/block_values.h"
#include "tests/kernels/harness.h"

namespace graphex::kernels {
namespace {

using codegen::Isa;
using test::BF16;
using test::F16;
using test::Guarded;

struct Case {
  int64_t m, n, k;
  bool bias = false;
  int64_t pad = 0;  // added to the strides of X and Y
};

template <class T>
constexpr const char* kName = std::is_same_v<T, float>  ? "f32"
                              : std::is_same_v<T, BF16> ? "bf16"
                                                        : "f16";

int64_t rows_extent(int64_t rows, int64_t stride, int64_t length) {
  return rows == 0 ? 0 : (rows - 1) * stride + length;
}

void set_half(uint8_t* to, float value) {
  const F16 bits(value);
  std::memcpy(to, &bits, sizeof bits);
}

// Random bits, but finite scales: d in the first half of a block and for some a minimum after it (Q6_K: d at the end).
std::vector<uint8_t> random_blocks(const BlockFormat& format, int64_t count, std::mt19937& random, bool unit_scales) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count * format.bytes));
  for (uint8_t& each : bytes) each = static_cast<uint8_t>(random());
  for (int64_t block = 0; block < count; ++block) {
    uint8_t* at = bytes.data() + block * format.bytes;
    const auto scale = [&] { return unit_scales ? 1.0f : 0.01f + 0.001f * static_cast<float>(random() % 64); };
    set_half(at + format.sections[0].offset, scale());
    if (format.sections[0].bytes == 4) set_half(at + 2, unit_scales ? 0.0f : -scale());
  }
  return bytes;
}

template <class T>
struct Layer {
  const BlockFormat& format;
  Case c;
  int64_t tiles, x_stride, y_stride, row_bytes;
  std::vector<uint8_t> file;
  Guarded<T> x, bias;
  Guarded<uint8_t> w;

  Layer(const BlockFormat& of, const Case& in, bool unit_scales = false)
      : format(of),
        c(in),
        tiles((c.n + kTileRows - 1) / kTileRows),
        x_stride(c.k + c.pad),
        y_stride(c.n + c.pad),
        row_bytes(c.k / of.elements * of.bytes),
        x(rows_extent(c.m, x_stride, c.k)),
        bias(c.bias ? c.n : 0),
        w(tiles * tile_bytes(of, c.k)) {
    std::mt19937 random(static_cast<unsigned>(c.m * 131 + c.n * 17 + c.k + of.id));
    std::normal_distribution<float> values;
    for (T& each : x) each = T(values(random));
    for (T& each : bias) each = T(values(random));
    file = random_blocks(of, c.n * c.k / of.elements, random, unit_scales);
    pack();
  }

  void pack() {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const uint8_t* rows[kTileRows];
      for (int64_t i = 0; i < kTileRows; ++i)
        rows[i] = tile * kTileRows + i < c.n ? file.data() + (tile * kTileRows + i) * row_bytes : nullptr;
      to_tile(format, c.k, rows, w.data() + tile * tile_bytes(format, c.k));
    }
  }

  double weight(int64_t n, int64_t k) const {
    return block_value(format, file.data() + n * row_bytes + k / format.elements * format.bytes,
                       static_cast<int>(k % format.elements));
  }

  std::vector<T> run(Isa isa, int workers, bool fixed_m = false) {
    const std::string name = std::string("blocks_") + kName<T>;
    const codegen::Kernel kernel = test::compile_kernel(
        isa, {name, "gx_" + name, {{"GX_FORMAT", format.id}, {"GX_BIAS", c.bias}, {"GX_M", fixed_m ? 1 : -1}}});
    Guarded<T> y(rows_extent(c.m, y_stride, c.n), T(NAN));
    test::run_kernel(kernel, {y.data(), x.data(), w.data(), bias.data()},
                     {c.m, c.n, c.k, x_stride, tile_bytes(format, c.k), y_stride}, workers);
    return {y.begin(), y.end()};
  }

  // Row m of X as it is after rounding.
  std::vector<double> rounded(int64_t m) const {
    std::vector<double> row;
    for (int64_t k = 0; k < c.k; k += kBlockGroup) {
      float most = 0;
      const auto value = [&](int64_t i) { return static_cast<float>(double(x[m * x_stride + k + i])); };
      for (int64_t i = 0; i < kBlockGroup; ++i) most = std::max(most, std::abs(value(i)));
      const float inverse = std::isfinite(127.0f / most) ? 127.0f / most : 0.0f;
      for (int64_t i = 0; i < kBlockGroup; ++i)
        row.push_back(std::nearbyint(value(i) * inverse) * static_cast<double>(most / 127.0f));
    }
    return row;
  }
};

template <class T>
void check(Isa isa, const BlockFormat& format, const Case& c) {
  SCOPED_TRACE(std::string(format.name) + " " + std::to_string(c.m) + " " + std::to_string(c.n) + " " +
               std::to_string(c.k));
  Layer<T> layer(format, c);
  const std::vector<T> got = layer.run(isa, 3);
  for (int64_t m = 0; m < c.m; ++m) {
    const std::vector<double> row = layer.rounded(m);
    for (int64_t n = 0; n < c.n; ++n) {
      double sum = c.bias ? double(layer.bias[n]) : 0, size = std::abs(sum);
      for (int64_t k = 0; k < c.k; ++k) {
        sum += row[static_cast<size_t>(k)] * layer.weight(n, k);
        // What the sums meet: a value and the offset or minimum are added apart.
        size += std::abs(row[static_cast<size_t>(k)]) * (std::abs(layer.weight(n, k)) + 8);
      }
      const double bound = double(c.k / kBlockGroup + 8) * 0x1p-24 * size, value = got[m * layer.y_stride + n];
      ASSERT_LE(std::abs(value - sum), bound + test::unit_roundoff<T>() * (std::abs(sum) + bound) + 0x1p-25)
          << m << " " << n << ": got " << value << ", expected " << sum;
    }
  }
}

class BlocksTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > codegen::host_isa()) GTEST_SKIP() << "this host lacks the level";
  }
};

TEST_P(BlocksTest, IsItsDefinition) {
  for (const BlockFormat& format : kBlockFormats)
    for (const auto& [m, n, blocks] : {std::array<int64_t, 3>{1, 9, 3},
                                       {1, 40, 1},
                                       {2, 8, 2},
                                       {3, 17, 1},
                                       {4, 33, 1},
                                       {7, 11, 2},
                                       {53, 21, 1},  // decoded first
                                       {0, 4, 1},
                                       {5, 0, 1}}) {
      const int64_t k = blocks * format.elements;
      // A kernel for each format, bias and dtype takes a second to compile; what they share is tried once.
      const bool odd = format.id % 2 == 1;
      check<float>(GetParam(), format, {m, n, k, format.id == kQ4_0 ? m % 2 == 1 : odd, n % 3});
      if (blocks == 2 && odd) check<BF16>(GetParam(), format, {m, n, k, true, n % 3});
      if (blocks == 1 && !odd) check<F16>(GetParam(), format, {m, n, k, true, n % 3});
    }
}

// Scales of 1, no minima, inputs that are integers up to 127: whatever fits 24 bits comes out as it is.
TEST_P(BlocksTest, IntegersAreExact) {
  for (const BlockFormat& format : kBlockFormats) {
    Layer<float> layer(format, {4, 24, format.elements}, true);
    for (int64_t i = 0; i < layer.c.k; ++i)
      for (int64_t m = 0; m < 4; ++m)
        layer.x[m * layer.x_stride + i] = static_cast<float>(i % 32 == 0 ? 127 : (i * 37 + m * 11) % 255 - 127);
    const std::vector<float> y = layer.run(GetParam(), 2);
    for (int64_t m = 0; m < 4; ++m)
      for (int64_t n = 0; n < 24; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < layer.c.k; ++k) sum += layer.weight(n, k) * double(layer.x[m * layer.x_stride + k]);
        ASSERT_LT(std::abs(sum), 0x1p24);
        ASSERT_EQ(y[m * layer.y_stride + n], static_cast<float>(sum)) << format.name << " " << m << " " << n;
      }
  }
}

// The largest weights times the largest inputs, either sign: no sum of a few products may leave its 16 bits.
TEST_P(BlocksTest, TheLargestSumsFit) {
  for (const BlockFormat& format : kBlockFormats)
    for (const float sign : {1.0f, -1.0f})
      for (const int fill : {0xff, 0x00, 0x80, 0x7f}) {
        Layer<float> layer(format, {2, 8, format.elements}, true);
        for (int64_t block = 0; block < 8; ++block)
          for (int64_t i = 0; i < format.bytes; ++i) {
            const int64_t d = format.sections[0].offset;
            if (i < d || i >= d + format.sections[0].bytes)
              layer.file[static_cast<size_t>(block * format.bytes + i)] = static_cast<uint8_t>(fill);
          }
        layer.pack();
        std::fill(layer.x.begin(), layer.x.end(), 127 * sign);
        double sum = 0;
        for (int64_t k = 0; k < layer.c.k; ++k) sum += layer.weight(0, k) * double(127 * sign);
        EXPECT_EQ(layer.run(GetParam(), 1)[0], static_cast<float>(sum)) << format.name << " " << fill << " " << sign;
      }
}

TEST_P(BlocksTest, ARowsBitsDependOnNothingElse) {
  for (const auto& [format, rows] : {std::pair(kBlockFormats[kQ4_0], 6),
                                     {kBlockFormats[kQ4_1], 51},
                                     {kBlockFormats[kQ8_0], 51},
                                     {kBlockFormats[kQ4_K], 6},
                                     {kBlockFormats[kQ4_K], 51},
                                     {kBlockFormats[kQ5_K], 51},
                                     {kBlockFormats[kQ6_K], 51}}) {
    const int64_t k = 2 * format.elements, n = 23;
    Layer<float> all(format, {rows, n, k});
    const std::vector<float> together = all.run(GetParam(), 2);
    EXPECT_TRUE(test::same_bits(together, all.run(GetParam(), 1)));
    Layer<float> alone(format, {1, n, k});
    std::copy(all.w.begin(), all.w.end(), alone.w.begin());
    for (int64_t row = 0; row < rows; row += 5) {
      std::copy_n(all.x.begin() + row * k, k, alone.x.begin());
      const std::vector<float> expected(together.begin() + row * n, together.begin() + (row + 1) * n);
      EXPECT_TRUE(test::same_bits(alone.run(GetParam(), 1), expected)) << format.name << row;
      EXPECT_TRUE(test::same_bits(alone.run(GetParam(), 2, true), expected)) << format.name << row;
    }
  }
}

TEST_P(BlocksTest, LongRowsArePackedBlockByBlock) {
  check<float>(GetParam(), kBlockFormats[kQ4_0], {70, 3, 8192});
  check<float>(GetParam(), kBlockFormats[kQ6_K], {9, 2, 65536});
}

TEST_P(BlocksTest, GroupsOfNothingTinyOrNotFinite) {
  for (const BlockFormat& format : kBlockFormats) {
    const int64_t k = format.elements;
    Layer<float> layer(format, {5, 3, k});
    const auto fill = [&](int64_t row, float value) { std::fill_n(layer.x.begin() + row * k, k, value); };
    fill(0, 0.0f);
    fill(1, 0x1p-149f);
    layer.x[2 * k + 5] = std::numeric_limits<float>::infinity();
    layer.x[3 * k + k - 1] = NAN;
    const std::vector<float> y = layer.run(GetParam(), 1);
    for (int64_t n = 0; n < 3; ++n) {
      EXPECT_EQ(y[n], 0);
      EXPECT_EQ(y[3 + n], 0);
      EXPECT_TRUE(std::isnan(y[6 + n]) && std::isnan(y[9 + n])) << format.name << n;
      EXPECT_TRUE(std::isfinite(y[12 + n]) && y[12 + n] != 0);
    }
  }
}

TEST(BlockFormats, TilesHoldAFilesBits) {
  std::mt19937 random(7);
  for (const BlockFormat& format : kBlockFormats) {
    int bytes = 0;
    for (const BlockSection& section : format.sections) bytes += section.bytes;
    EXPECT_EQ(bytes, format.bytes) << format.name;
    Layer<float> layer(format, {1, 8, 3 * format.elements});
    std::vector<uint8_t> block(static_cast<size_t>(format.bytes));
    for (int row = 0; row < 8; ++row)
      for (int64_t index = 0; index < 3; ++index) {
        from_tile(format, layer.w.data(), index, row, block.data());
        EXPECT_TRUE(std::equal(block.begin(), block.end(), layer.file.begin() + (row * 3 + index) * format.bytes));
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, BlocksTest, testing::ValuesIn(codegen::kIsas),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace graphex::kernels
