// The matmul family against an fp64 reference, through the compiler, for every ISA level of this host: shapes with
// tails and empty sizes, all layouts and epilogues, operands that end at an unreadable page, and bits that don't depend
// on the path, the layout or the split.
#include "graphex/kernels/matmul/matmul.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "graphex/base/dtype.h"
#include "graphex/codegen/compiler.h"

namespace graphex::kernels {
namespace {

// Elements whose last byte is the last byte before an unreadable page.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t body = (bytes + page - 1) / page * page;
    mapped_ = body + page;
    base_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + body, page, PROT_NONE);
    data_ = base_ + body - bytes;
  }
  ~GuardedBuffer() { munmap(base_, mapped_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  char* data() const { return data_; }

 private:
  char* base_;
  char* data_;
  size_t mapped_;
};

uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

struct Array {
  DType dtype;
  std::unique_ptr<GuardedBuffer> buffer;

  Array(DType type, int64_t count)
      : dtype(type), buffer(new GuardedBuffer(static_cast<size_t>(count * size_of(type)))) {}
  void set(int64_t at, float value) {
    char* to = buffer->data() + at * size_of(dtype);
    const uint16_t narrow =
        dtype == DType::kBF16 ? to_bf16(value) : std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    std::memcpy(to, dtype == DType::kF32 ? static_cast<const void*>(&value) : &narrow,
                static_cast<size_t>(size_of(dtype)));
  }
  double get(int64_t at) const {
    const char* from = buffer->data() + at * size_of(dtype);
    if (dtype == DType::kF32) return *reinterpret_cast<const __attribute__((aligned(1))) float*>(from);
    uint16_t bits;
    std::memcpy(&bits, from, 2);
    if (dtype == DType::kF16) return static_cast<double>(std::bit_cast<_Float16>(bits));
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

struct Case {
  int64_t batch, m, n, k;
  int a_layout = 0, b_layout = 0, epilogue = 0;
  double alpha = 1, beta = 1;
  bool fixed_m = false;
  int64_t pad = 0;  // added to every row stride

  std::string name() const {
    std::string text;
    for (int64_t value : {batch, m, n, k, int64_t(a_layout), int64_t(b_layout), int64_t(epilogue)})
      text += std::to_string(value) + " ";
    return text;
  }
};

// Sizes and operands of one case; element strides follow the layouts.
struct Operands {
  Case c;
  int64_t sizes[kMatmulSizes];
  Array a, b, addend;

  Operands(DType dtype, const Case& in)
      : c(in), a(dtype, fill_sizes()), b(dtype, extent_b()), addend(dtype, extent_addend()) {
    std::mt19937 random(static_cast<unsigned>(c.m * 31 + c.n * 7 + c.k));
    std::uniform_real_distribution<float> values(-1.0f, 1.0f);
    for (int64_t i = 0; i < extent_a(); ++i) a.set(i, values(random));
    for (int64_t i = 0; i < extent_b(); ++i) b.set(i, values(random));
    for (int64_t i = 0; i < extent_addend(); ++i) addend.set(i, values(random));
  }

  int64_t extent(std::initializer_list<std::pair<int64_t, int>> dims) const {
    int64_t last = 0;
    for (auto [size, stride] : dims) {
      if (size == 0) return 0;
      last += (size - 1) * sizes[stride];
    }
    return last + 1;
  }
  int64_t extent_a() const {
    return extent({{c.batch, kMatmulAStrideBatch}, {c.m, kMatmulAStrideM}, {c.k, kMatmulAStrideK}});
  }
  int64_t extent_b() const {
    return extent({{c.batch, kMatmulBStrideBatch}, {c.k, kMatmulBStrideK}, {c.n, kMatmulBStrideN}});
  }
  int64_t extent_c() const { return extent({{c.batch, kMatmulCStrideBatch}, {c.m, kMatmulCStrideM}}) + c.n - 1; }
  int64_t extent_addend() const {
    if (c.epilogue == 0) return 0;
    return extent({{c.batch, kMatmulAddendStrideBatch}, {c.m, kMatmulAddendStrideM}, {c.n, kMatmulAddendStrideN}});
  }

  int64_t fill_sizes() {
    const int64_t a_row = c.a_layout == 0 ? c.k + c.pad : 1 + c.pad, a_k = c.a_layout == 0 ? 1 : c.m * (1 + c.pad);
    const int64_t b_k = c.b_layout == 0 ? 1 : c.b_layout == 1 ? c.n + c.pad : 2;
    const int64_t b_n = c.b_layout == 0 ? c.k + c.pad : c.b_layout == 1 ? 1 : 2 * c.k + 1;
    const int64_t values[kMatmulSizes] = {c.batch,
                                          c.m,
                                          c.n,
                                          c.k,
                                          c.m * (c.k + c.pad) * (1 + c.pad),
                                          a_row,
                                          a_k,
                                          (c.n + c.pad) * (2 * c.k + c.pad + 1),
                                          b_k,
                                          b_n,
                                          c.m * (c.n + c.pad),
                                          c.n + c.pad,
                                          c.epilogue == 1 ? 0 : c.m * c.n,
                                          c.epilogue == 1 ? 0 : c.n,
                                          1,
                                          std::bit_cast<int64_t>(c.alpha),
                                          std::bit_cast<int64_t>(c.beta)};
    std::copy(std::begin(values), std::end(values), sizes);
    return extent_a();
  }
};

class MatmulTest : public testing::TestWithParam<std::tuple<codegen::Isa, DType>> {
 protected:
  static codegen::KernelCompiler& compiler(codegen::Isa isa) {
    static std::map<codegen::Isa, std::unique_ptr<codegen::KernelCompiler>> compilers;
    auto& slot = compilers[isa];
    if (!slot) {
      codegen::CompilerOptions options;
      options.isa = isa;
      options.use_cache = false;
      slot = std::make_unique<codegen::KernelCompiler>(options);
    }
    return *slot;
  }
  DType dtype() const { return std::get<1>(GetParam()); }
  void SetUp() override {
    if (std::get<0>(GetParam()) > codegen::host_isa()) GTEST_SKIP() << "this host lacks the level";
  }

  codegen::Kernel kernel(const Case& c) {
    const std::string name = "matmul_" + std::string(name_of(dtype()));
    codegen::HandKernel request{name, "gx_" + name, {}};
    request.knobs = {{"GX_A_LAYOUT", c.a_layout},
                     {"GX_B_LAYOUT", c.b_layout},
                     {"GX_EPILOGUE", c.epilogue},
                     {"GX_M", c.fixed_m ? c.m : -1}};
    const codegen::KernelRequest requests[] = {request};
    return compiler(std::get<0>(GetParam())).compile(requests)[0];
  }

  // Runs the tiles in `splits` ranges, last range first, in scratch that is dirty from the start.
  Array run(const Operands& operands, int splits = 1) {
    const codegen::Kernel kernel = this->kernel(operands.c);
    Array c(dtype(), operands.extent_c());
    for (int64_t i = 0; i < operands.extent_c(); ++i) c.set(i, NAN);
    static GuardedBuffer scratch(GX_SCRATCH_BYTES);
    GxStatus status = {};
    void* pointers[] = {c.buffer->data(), operands.a.buffer->data(), operands.b.buffer->data(),
                        operands.addend.buffer->data()};
    const int64_t tiles = kernel.tiles(operands.sizes);
    std::memset(scratch.data(), 0xff, GX_SCRATCH_BYTES);
    for (int i = splits - 1; i >= 0; --i) {
      GxWorker worker = {scratch.data(), &status, i, splits, 0};
      const int64_t begin = tiles * i / splits, end = tiles * (i + 1) / splits;
      if (begin < end) kernel.run(pointers, operands.sizes, begin, end, &worker);
    }
    EXPECT_EQ(status.fault, GX_OK);
    return c;
  }

  double rounding() const { return dtype() == DType::kF32 ? 0x1p-24 : dtype() == DType::kBF16 ? 0x1p-8 : 0x1p-11; }

  // |error| <= gamma_{K+4} * (|alpha| sum |a||b| + |beta addend|), then one rounding to the result's type.
  void check(const Case& c) {
    SCOPED_TRACE(c.name());
    const Operands o(dtype(), c);
    const Array result = run(o, 3);
    const double steps = static_cast<double>(c.k + 4) * 0x1p-24, gamma = steps / (1 - steps);
    for (int64_t batch = 0; batch < c.batch; ++batch)
      for (int64_t m = 0; m < c.m; ++m)
        for (int64_t n = 0; n < c.n; ++n) {
          double sum = 0, bound = 0;
          for (int64_t k = 0; k < c.k; ++k) {
            const double a = o.a.get(batch * o.sizes[kMatmulAStrideBatch] + m * o.sizes[kMatmulAStrideM] +
                                     k * o.sizes[kMatmulAStrideK]);
            const double b = o.b.get(batch * o.sizes[kMatmulBStrideBatch] + k * o.sizes[kMatmulBStrideK] +
                                     n * o.sizes[kMatmulBStrideN]);
            sum += a * b;
            bound += std::abs(a * b);
          }
          if (c.epilogue != 0) {
            const double alpha = c.epilogue == 2 ? c.alpha : 1, beta = c.epilogue == 2 ? c.beta : 1;
            const double add =
                o.addend.get(batch * o.sizes[kMatmulAddendStrideBatch] + m * o.sizes[kMatmulAddendStrideM] + n);
            sum = alpha * sum + beta * add;
            bound = std::abs(alpha) * bound + std::abs(beta * add);
          }
          const double tolerance = gamma * bound + rounding() * (std::abs(sum) + gamma * bound) + 0x1p-25;
          const double got = result.get(batch * o.sizes[kMatmulCStrideBatch] + m * o.sizes[kMatmulCStrideM] + n);
          ASSERT_LE(std::abs(got - sum), tolerance)
              << "batch " << batch << " row " << m << " column " << n << ": got " << got << ", expected " << sum;
        }
  }
};

TEST_P(MatmulTest, ShapesWithTails) {
  const int64_t counts[] = {1, 2, 3, 4, 5, 8, 12, 13, 33};
  for (int64_t m : counts)
    for (int64_t n : {1, 3, 4, 9, 37})
      for (int64_t k : {1, 7, 8, 31, 33, 100}) check({.batch = 1, .m = m, .n = n, .k = k});
}

TEST_P(MatmulTest, SeveralBlocks) {
  check({.batch = 1, .m = 1, .n = 70, .k = 1537});
  check({.batch = 1, .m = 7, .n = 70, .k = 1290});
  check({.batch = 1, .m = 200, .n = 71, .k = 641});
  check({.batch = 2, .m = 97, .n = 33, .k = 1300, .b_layout = 1});
  check({.batch = 1, .m = 14, .n = 131, .k = 7203});
}

TEST_P(MatmulTest, LayoutsAndEpilogues) {
  const int choices[][3] = {{0, 0, 1}, {0, 0, 2}, {1, 0, 0}, {0, 1, 0}, {1, 1, 2}, {0, 2, 1}, {1, 2, 2}};
  for (const auto& [a_layout, b_layout, epilogue] : choices)
    for (int64_t m : {1, 4, 15})
      check({.batch = 2,
             .m = m,
             .n = 21,
             .k = 45,
             .a_layout = a_layout,
             .b_layout = b_layout,
             .epilogue = epilogue,
             .alpha = 0.5,
             .beta = -2,
             .pad = m == 4 ? 3 : 0});
}

TEST_P(MatmulTest, FixedM) {
  check({.batch = 1, .m = 1, .n = 21, .k = 45, .epilogue = 1, .fixed_m = true});
  check({.batch = 3, .m = 5, .n = 21, .k = 45, .fixed_m = true});
}

TEST_P(MatmulTest, EmptySizes) {
  for (int b_layout : {0, 1})
    for (int64_t m : {1, 20}) check({.batch = 1, .m = m, .n = 5, .k = 0, .b_layout = b_layout, .epilogue = 1});
  for (const Case& c : {Case{.batch = 0, .m = 2, .n = 2, .k = 2}, Case{.batch = 1, .m = 0, .n = 2, .k = 2},
                        Case{.batch = 1, .m = 2, .n = 0, .k = 2}}) {
    Operands operands(dtype(), c);
    EXPECT_EQ(kernel(c).tiles(operands.sizes), 0);
  }
}

TEST_P(MatmulTest, BetaZeroIgnoresTheAddend) {
  const Case c{.batch = 1, .m = 2, .n = 9, .k = 8, .epilogue = 2, .alpha = 2, .beta = 0};
  Operands operands(dtype(), c);
  for (int64_t i = 0; i < operands.extent_addend(); ++i) operands.addend.set(i, NAN);
  const Array result = run(operands);
  for (int64_t i = 0; i < operands.extent_c(); ++i) EXPECT_FALSE(std::isnan(result.get(i)));
}

// Rows of a large product equal those of the product of one row alone, in every layout and split.
TEST_P(MatmulTest, BitsDependOnTheRowAlone) {
  for (int64_t k : {45, 700, 7300}) {
    const int64_t n = 37, m = k == 7300 ? 14 : 100;
    const Operands all(dtype(), {.batch = 1, .m = m, .n = n, .k = k});
    const size_t row_bytes = static_cast<size_t>(n * size_of(dtype()));
    const Array expected = run(all);
    for (int splits : {2, 5, 64}) {
      const Array again = run(all, splits);
      EXPECT_EQ(std::memcmp(again.buffer->data(), expected.buffer->data(), row_bytes * m), 0) << splits << " splits";
    }
    Operands columns(dtype(), {.batch = 1, .m = m, .n = n, .k = k, .b_layout = 1});
    for (int64_t i = 0; i < m * k; ++i) columns.a.set(i, static_cast<float>(all.a.get(i)));
    for (int64_t i = 0; i < n * k; ++i) columns.b.set(i % k * n + i / k, static_cast<float>(all.b.get(i)));
    const Array transposed = run(columns, 2);
    EXPECT_EQ(std::memcmp(transposed.buffer->data(), expected.buffer->data(), row_bytes * m), 0) << "layout 1";
    columns.c.m = columns.sizes[kMatmulM] = 1;
    const Array row = run(columns, 2);
    EXPECT_EQ(std::memcmp(row.buffer->data(), expected.buffer->data(), row_bytes), 0) << "layout 1, one row";
    for (int64_t count : {1, 2, 5, 12, 13}) {
      Operands few(dtype(), {.batch = 1, .m = count, .n = n, .k = k});
      for (int64_t i = 0; i < count * k; ++i) few.a.set(i, static_cast<float>(all.a.get(i)));
      for (int64_t i = 0; i < n * k; ++i) few.b.set(i, static_cast<float>(all.b.get(i)));
      const Array part = run(few, 3);
      EXPECT_EQ(std::memcmp(part.buffer->data(), expected.buffer->data(), row_bytes * count), 0) << count << " rows";
    }
  }
}

// Values at the ends of the type's range come through widening and narrowing as they are; but instructions that
// multiply bf16 take denormals for zeros.
TEST_P(MatmulTest, SpecialValues) {
  const bool flushes = dtype() == DType::kBF16 && std::get<0>(GetParam()) == codegen::Isa::kAvx512Bf16;
  const float smallest = dtype() == DType::kF16 ? 0x1p-24f : dtype() == DType::kBF16 ? 0x1p-133f : 0x1p-149f;
  const float values[] = {INFINITY, -INFINITY, NAN, smallest, 3 * smallest, -0.0f, 1.0f, 1024.0f};
  for (int64_t m : {1, 13}) {
    Operands operands(dtype(), {.batch = 1, .m = m, .n = 8, .k = 1});
    for (int64_t i = 0; i < m; ++i) operands.a.set(i, 1.0f);
    for (int64_t i = 0; i < 8; ++i) operands.b.set(i, values[i]);
    const Array result = run(operands);
    for (int64_t i = 0; i < m * 8; ++i) {
      const bool denormal = std::abs(values[i % 8]) < 0x1p-126f && dtype() == DType::kBF16;
      const double expected = flushes && denormal ? 0 : values[i % 8];
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(result.get(i)));
      } else {
        EXPECT_EQ(result.get(i), expected) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, MatmulTest,
                         testing::Combine(testing::ValuesIn(codegen::kIsas),
                                          testing::Values(DType::kF32, DType::kBF16, DType::kF16)),
                         [](const auto& info) {
                           return std::string(codegen::name_of(std::get<0>(info.param))) + "_" +
                                  std::string(graphex::name_of(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace graphex::kernels
