#include <gtest/gtest.h>

#include "graphex/base/error.h"
#include "tests/codegen/loop_reference.h"

namespace graphex::codegen {
namespace {

using testing::Interpreter;
using testing::Problem;

std::vector<Isa> host_levels() {
  std::vector<Isa> levels;
  for (const Isa isa : kIsas)
    if (isa <= host_isa()) levels.push_back(isa);
  return levels;
}

Kernel compile(KernelCompiler& compiler, const LoopSpec& spec) {
  const KernelRequest request = LoopKernel{std::make_shared<LoopSpec>(spec)};
  return compiler.compile(std::span(&request, 1))[0];
}

KernelCompiler& compiler_for(Isa isa) {
  static std::map<Isa, std::unique_ptr<KernelCompiler>> compilers;
  auto& compiler = compilers[isa];
  if (!compiler) compiler = std::make_unique<KernelCompiler>(CompilerOptions{.isa = isa, .use_cache = false});
  return *compiler;
}

// The kernel of every level must give the interpreter's bits, however its tiles are split.
void check(Problem problem, int smallest = -4, int largest = 4, unsigned seed = 1) {
  std::mt19937 random(seed);
  problem.fill(random, smallest, largest);
  const auto expected = Interpreter(problem).run();
  for (const Isa isa : host_levels()) {
    const Kernel kernel = compile(compiler_for(isa), problem.spec);
    for (int repeat = 0; repeat < 3; ++repeat) {
      Problem copy = problem;
      copy.run(kernel, random);
      for (size_t o = 0; o < expected.size(); ++o)
        ASSERT_EQ(copy.tensors[o].bytes, expected[o])
            << "operand " << o << ", level " << name_of(isa) << ", " << problem.spec.key();
    }
  }
}

Problem space(std::vector<int64_t> extents, int reduced = 0) {
  Problem problem;
  problem.spec.rank = static_cast<int>(extents.size());
  problem.spec.reduced = reduced;
  problem.extents = std::move(extents);
  return problem;
}

void add_sum_of_two(Problem& p, DType dtype) {
  const int a = p.input(dtype), b = p.input(dtype);
  p.output(dtype, p.scalar("add", {a, b}));
}

TEST(LoopPoints, AddsInEveryRankAndSize) {
  const std::vector<std::vector<int64_t>> shapes = {{},     {1},         {7},          {1025},          {0},
                                                    {3, 5}, {100, 33},   {4, 0, 3},    {2, 3, 4},       {5, 1, 64},
                                                    {3000}, {2, 700, 3}, {2, 3, 2, 5}, {2, 3, 4, 2, 9}, {1, 1}};
  for (const auto& shape : shapes) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64}) {
      Problem p = space(shape);
      add_sum_of_two(p, dtype);
      check(p);
    }
  }
}

TEST(LoopPoints, CastsBetweenAllTypes) {
  for (int from = 0; from < kDTypeCount; ++from) {
    Problem p = space({77});
    const int x = p.input(static_cast<DType>(from));
    for (int to = 0; to < kDTypeCount; ++to) p.output(static_cast<DType>(to), p.cast(static_cast<DType>(to), x));
    check(p, -100, 100);
  }
}

TEST(LoopPoints, TransposedBroadcastAndPadded) {
  Problem p = space({6, 5, 40});
  const int a = p.load(p.add_operand(DType::kF32, false, {2, 0, 1}, p.none()));
  const int b = p.load(p.add_operand(DType::kF32, false, {0, 1, 2}, {true, false, true}));
  const int c = p.load(p.add_operand(DType::kF16, false, {1, 0, 2}, {false, true, false}, 3));
  const int d = p.load(p.add_operand(DType::kF32, false, {0, 1, 2}, {true, true, true}));
  const int sum = p.scalar("add", {p.scalar("mul", {a, b}), p.scalar("sub", {c, d})});
  p.store(p.add_operand(DType::kF32, true, {0, 2, 1}, p.none()), sum);
  p.store(p.add_operand(DType::kBF16, true, {0, 1, 2}, p.none(), 1), sum);
  check(p);
}

TEST(LoopPoints, ArgumentsConstantsAndIndices) {
  Problem p = space({3, 50});
  p.spec.arguments = 2;
  p.arguments = {std::bit_cast<int64_t>(2.0), 7};
  const int x = p.input(DType::kF32);
  const int scale = p.add({.op = LoopOp::kArgument, .dtype = DType::kF32, .args = {}, .index = 0});
  const int limit = p.add({.op = LoopOp::kArgument, .dtype = DType::kI64, .args = {}, .index = 1});
  const int column = p.add({.op = LoopOp::kIota, .dtype = DType::kI64, .args = {}, .index = 1});
  const int row = p.add({.op = LoopOp::kIota, .dtype = DType::kI64, .args = {}, .index = 0});
  const int inside = p.scalar("lt", {p.scalar("add", {row, column}), limit});
  p.output(DType::kF32, p.scalar("where", {inside, p.scalar("mul", {x, scale}), p.constant(DType::kF32, -1.5)}));
  p.output(DType::kBool, inside);
  check(p);
}

TEST(LoopPoints, InPlace) {
  Problem p = space({5, 300});
  add_sum_of_two(p, DType::kF32);
  std::mt19937 random(3);
  p.fill(random, -9, 9);
  const auto expected = Interpreter(p).run()[2];
  Problem copy = p;
  copy.tensors[2].memory = copy.tensors[0].bytes.data();
  copy.run(compile(compiler_for(host_isa()), p.spec), random);
  EXPECT_EQ(std::memcmp(copy.tensors[0].bytes.data(), expected.data(), 5 * 300 * 4), 0);
}

TEST(LoopPoints, LongChainsCompileFast) {
  Problem p = space({100});
  const int x = p.input(DType::kF32), y = p.input(DType::kF32);
  int sum = x;
  for (int i = 0; i < 200; ++i) sum = p.scalar("add", {sum, y});
  p.output(DType::kF32, sum);
  check(p);
}

TEST(LoopRows, SumsAndExtremes) {
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{5, 7}, {3, 5000}, {700, 3}, {2, 3, 64}, {4, 1}, {0, 9}, {9, 0}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI32}) {
      Problem p = space(shape, 1);
      const int x = p.input(dtype);
      const bool real = is_float(dtype);
      p.row_output(real ? dtype : DType::kI64, p.reduce("sum", x, real ? dtype : DType::kI64));
      if (shape.back() > 0) p.row_output(dtype, p.reduce("max", x, dtype));
      if (shape.back() > 0) p.row_output(dtype, p.reduce("min", x, dtype));
      p.row_output(DType::kBool, p.reduce("any", x, DType::kBool));
      p.row_output(DType::kBool, p.reduce("all", x, DType::kBool));
      check(p, -1, 1);
    }
  }
}

TEST(LoopRows, ProductsAreExactForPowersOfTwo) {
  Problem p = space({6, 40}, 1);
  const int x = p.input(DType::kF32);
  p.row_output(DType::kF32, p.reduce("prod", x, DType::kF32));
  const int whole = p.cast(DType::kI8, x);
  p.row_output(DType::kI64, p.reduce("prod", whole, DType::kI64));
  check(p, 1, 2);
}

TEST(LoopRows, FullReductionAndSeveralReducedDimensions) {
  for (const int reduced : {1, 2, 3}) {
    Problem p = space({3, 7, 50}, reduced);
    const int x = p.input(DType::kF32), w = p.row_input(DType::kF32);
    const int sum = p.reduce("sum", p.scalar("mul", {x, w}), DType::kF32);
    p.row_output(DType::kF32, sum);
    p.output(DType::kF32, p.scalar("sub", {x, sum}));
    check(p);
  }
}

TEST(LoopRows, PassesDependOnEachOther) {
  Problem p = space({9, 130}, 1);
  const int x = p.input(DType::kF32), bias = p.row_input(DType::kF32);
  const int y = p.scalar("add", {x, bias});
  const int largest = p.reduce("max", y, DType::kF32);
  const int below = p.scalar("sub", {y, largest});
  const int sum = p.reduce("sum", below, DType::kF32);
  const int count = p.reduce("sum", p.cast(DType::kF32, p.scalar("lt", {below, sum})), DType::kF32);
  p.row_output(DType::kF32, p.scalar("add", {sum, p.scalar("mul", {count, bias})}));
  p.output(DType::kF32, p.scalar("add", {below, p.scalar("mul", {sum, count})}));
  p.output(DType::kBF16, y);
  check(p);
}

TEST(LoopColumns, SumsOverOuterDimensions) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{300, 9}, {5, 3000}, {2, 70, 33}, {1, 4}, {600, 0}}) {
    Problem p = space(shape, 1);
    std::vector<int> order = p.natural();
    std::swap(order[order.size() - 1], order[order.size() - 2]);  // the reduced dimension is outside in memory
    const int x = p.load(p.add_operand(DType::kF32, false, order, p.none()));
    const int bias = p.row_input(DType::kF32);
    const int sum = p.reduce("sum", p.scalar("add", {x, bias}), DType::kF32);
    p.row_output(DType::kF32, p.scalar("mul", {sum, bias}));
    if (shape.back() > 0) p.row_output(DType::kF32, p.reduce("max", x, DType::kF32));
    check(p);
  }
}

std::vector<float> floats_of(const testing::Tensor& tensor, int64_t count) {
  std::vector<float> result(static_cast<size_t>(count));
  std::memcpy(result.data(), tensor.bytes.data(), result.size() * sizeof(float));
  return result;
}

TEST(LoopRows, NaNReachesEveryExtreme) {
  for (const int64_t length : {1, 9, 100}) {
    Problem p = space({length, length}, 1);
    const int x = p.input(DType::kF32);
    p.row_output(DType::kF32, p.reduce("max", x, DType::kF32));
    p.row_output(DType::kF32, p.reduce("min", x, DType::kF32));
    std::vector<float> data(static_cast<size_t>(length * length), 1.0f);
    for (int64_t i = 0; i < length; ++i) data[static_cast<size_t>(i * length + i)] = NAN;  // row i has it at i
    std::memcpy(p.tensors[0].bytes.data(), data.data(), data.size() * sizeof(float));
    for (const Isa isa : host_levels()) {
      std::mt19937 random(1);
      Problem copy = p;
      copy.run(compile(compiler_for(isa), p.spec), random);
      for (const size_t output : {1, 2})
        for (const float value : floats_of(copy.tensors[output], length)) EXPECT_TRUE(std::isnan(value)) << length;
    }
  }
}

// Softmax, in rows that fit the scratch where e^x is kept and in one that doesn't; against long sums in double.
TEST(LoopRows, SoftmaxOfShortAndVeryLongRows) {
  for (const auto& [rows, length] : std::vector<std::pair<int64_t, int64_t>>{{40, 7}, {5, 1000}, {1, 600000}}) {
    Problem p = space({rows, length}, 1);
    const int x = p.input(DType::kF32);
    const int e = p.scalar("exp", {p.scalar("sub", {x, p.reduce("max", x, DType::kF32)})});
    p.output(DType::kF32, p.scalar("div", {e, p.reduce("sum", e, DType::kF32)}));
    std::mt19937 random(1);
    std::uniform_real_distribution<float> pick(-20, 5);
    std::vector<float> data(static_cast<size_t>(rows * length));
    for (float& value : data) value = pick(random);
    std::memcpy(p.tensors[0].bytes.data(), data.data(), data.size() * sizeof(float));
    for (const Isa isa : host_levels()) {
      Problem copy = p;
      copy.run(compile(compiler_for(isa), p.spec), random);
      const auto got = floats_of(copy.tensors[1], rows * length);
      for (int64_t row = 0; row < rows; ++row) {
        const auto at = data.begin() + row * length;
        const double largest = *std::max_element(at, at + length);
        double sum = 0;
        for (int64_t i = 0; i < length; ++i) sum += std::exp(at[i] - largest);
        double worst = 0;
        // x - max is rounded to a float (up to 2^-20 for 25), exp, sum and quotient within a few 2^-24 each.
        for (int64_t i = 0; i < length; ++i) {
          const double exact = std::exp(at[i] - largest) / sum;
          worst = std::max(worst, std::fabs(got[static_cast<size_t>(row * length + i)] - exact) / exact);
        }
        EXPECT_LE(worst, 0x1p-20 + 8 * 0x1p-24) << "row of " << length << ", level " << name_of(isa);
      }
    }
  }
}

// A million random addends: the error is that of blocks of 2048, not of one long chain.
TEST(LoopRows, LongSumsStayAccurate) {
  Problem p = space({1, 1 << 20}, 1);
  p.row_output(DType::kF32, p.reduce("sum", p.input(DType::kF32), DType::kF32));
  std::mt19937 random(1);
  std::uniform_real_distribution<float> pick(0, 1);
  std::vector<float> data(1 << 20);
  double exact = 0;
  for (float& value : data) exact += value = pick(random);
  std::memcpy(p.tensors[0].bytes.data(), data.data(), data.size() * sizeof(float));
  for (const Isa isa : host_levels()) {
    Problem copy = p;
    copy.run(compile(compiler_for(isa), p.spec), random);
    // A block's lanes add at most 2048 / 4 numbers in a row: 512 roundings at worst, a random walk of them in fact.
    EXPECT_NEAR(floats_of(copy.tensors[1], 1)[0], exact, exact * 32 * 0x1p-24) << name_of(isa);
  }
}

TEST(LoopPoints, MultipliesAndAddsAreNotFused) {
  Problem p = space({64});
  const int x = p.input(DType::kF32), y = p.input(DType::kF32), z = p.input(DType::kF32);
  p.output(DType::kF32, p.scalar("add", {p.scalar("mul", {x, y}), z}));
  std::vector<float> a(64, 1 + 0x1p-12f), c(64, -1);  // a * a = 1 + 2^-11 + 2^-24 loses its last bit when rounded
  std::memcpy(p.tensors[0].bytes.data(), a.data(), 256);
  std::memcpy(p.tensors[1].bytes.data(), a.data(), 256);
  std::memcpy(p.tensors[2].bytes.data(), c.data(), 256);
  for (const Isa isa : host_levels()) {
    std::mt19937 random(1);
    Problem copy = p;
    copy.run(compile(compiler_for(isa), p.spec), random);
    for (const float value : floats_of(copy.tensors[3], 64)) EXPECT_EQ(value, 0x1p-11f) << name_of(isa);
  }
}

std::string problem_of(const LoopSpec& spec) {
  try {
    validate(spec);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    return error.what();
  }
}

TEST(LoopCheck, NamesTheMalformedInstruction) {
  Problem good = space({4, 4}, 1);
  const int x = good.input(DType::kF32);
  const int sum = good.reduce("sum", x, DType::kF32);
  good.row_output(DType::kF32, sum);
  EXPECT_EQ(problem_of(good.spec), "");
  const auto expect = [&](const char* text, const std::function<void(Problem&)>& spoil) {
    Problem bad = good;
    spoil(bad);
    EXPECT_NE(problem_of(bad.spec).find(text), std::string::npos) << problem_of(bad.spec) << " lacks: " << text;
  };
  expect("instruction 4: 'exp' is not defined for i64",
         [](Problem& p) { p.scalar("exp", {p.constant(DType::kI64, 1)}); });
  expect("instruction 3: there is no scalar function 'nonsense'", [](Problem& p) { p.scalar("nonsense", {0}); });
  expect("instruction 3: argument 7", [](Problem& p) {
    p.cast(DType::kF32, 0);
    p.spec.instrs[3].args = {7};
  });
  expect("instruction 3: expected 2 arguments, got 1", [](Problem& p) { p.scalar("add", {0}); });
  expect("instruction 3: 'add' of mixed dtypes", [](Problem& p) {
    p.scalar("add", {0, 1});
    p.spec.instrs[1].dtype = DType::kF64;
  });
  expect("instruction 3: there is no reduction 'median'", [](Problem& p) { p.reduce("median", 0, DType::kF32); });
  expect("instruction 2: a full value into a row operand", [](Problem& p) { p.spec.instrs[2].args = {0}; });
  expect("instruction 0: there is no operand 9", [](Problem& p) { p.spec.instrs[0].index = 9; });
  expect("instruction 3: operand 1 is an output", [](Problem& p) { p.load(1); });
  expect("instruction 3: there is no dimension 2",
         [](Problem& p) { p.add({.op = LoopOp::kIota, .dtype = DType::kI64, .index = 2}); });
  expect("instruction 3: there is no run-time scalar 0", [](Problem& p) { p.add({.op = LoopOp::kArgument}); });
  expect("operand 0 has 1 strides for rank 2", [](Problem& p) { p.spec.operands[0].strides.pop_back(); });
  expect("rank 1 with 2 reduced", [](Problem& p) { p.spec.rank = 1, p.spec.reduced = 2; });
}

TEST(LoopSpec, KeyTellsStructuresApart) {
  Problem a = space({4});
  add_sum_of_two(a, DType::kF32);
  Problem b = space({9});
  add_sum_of_two(b, DType::kF32);
  EXPECT_EQ(a.spec.key(), b.spec.key());
  b.spec.operands[0].strides[0] = StrideKind::kArgument;
  EXPECT_NE(a.spec.key(), b.spec.key());
  EXPECT_EQ(a.spec.key(),
            "rank 1 reduced 0 arguments 0 operands f32[1] f32[1] f32=[1]; %0:f32 = load 0; %1:f32 = load 1; "
            "%2:f32 = add %0 %1; %3:f32 = store 2 %2");
}

class Fuzz : public ::testing::TestWithParam<int> {};

// A random operand of the space: any order in memory, some dimensions broadcast.
int random_operand(Problem& p, std::mt19937& random, DType dtype, bool is_output, bool row) {
  std::vector<int> order = p.natural();
  if (random() % 2) std::shuffle(order.begin(), order.end(), random);
  std::vector<bool> broadcast = row ? p.rows() : p.none();
  if (!is_output)
    for (size_t d = 0; d < broadcast.size(); ++d)
      if (random() % 4 == 0) broadcast[d] = true;
  return p.add_operand(dtype, is_output, order, broadcast, random() % 4 == 0 ? static_cast<int64_t>(random() % 3) : 0);
}

// Values stay small enough for exact arithmetic: every step is one of these on numbers that a clamp keeps in range.
int random_step(Problem& p, std::mt19937& random, const std::vector<int>& values) {
  const auto any = [&] { return values[random() % values.size()]; };
  const auto as_float = [&](int v) { return p.cast(DType::kF32, v); };
  const int a = as_float(any()), b = as_float(any());
  const char* binary[] = {"add", "sub", "mul", "maximum", "minimum"};
  const int result =
      random() % 4 == 0 ? p.scalar("where", {p.scalar("lt", {a, b}), b, a}) : p.scalar(binary[random() % 5], {a, b});
  const int low = p.constant(DType::kF32, -8), high = p.constant(DType::kF32, 8);
  return p.scalar("minimum", {p.scalar("maximum", {result, low}), high});
}

TEST_P(Fuzz, MatchesTheInterpreter) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  std::vector<int64_t> extents;
  const int rank = static_cast<int>(random() % 6);
  for (int d = 0; d < rank; ++d)
    extents.push_back(static_cast<int64_t>(random() % (rank > 3 ? 5 : rank > 1 ? 14 : 3000)) + 1);
  Problem p = space(extents, rank == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(rank + 1)));
  const DType types[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kF64,
                         DType::kI8,  DType::kI32,  DType::kI64, DType::kBool};
  std::vector<int> values;
  for (int i = 0; i < 3; ++i)
    values.push_back(p.load(random_operand(p, random, types[random() % 8], false, random() % 3 == 0)));
  for (int i = 0; i < 6; ++i) {
    const bool reduce = p.spec.reduced > 0 && random() % 3 == 0;
    const char* functions[] = {"sum", "max", "min"};
    const int step = random_step(p, random, values);
    // + 0, since which of two zeros is the largest is left open.
    values.push_back(
        reduce ? p.scalar("add", {p.reduce(functions[random() % 3], step, DType::kF32), p.constant(DType::kF32, 0)})
               : step);
  }
  for (int i = 0; i < 2; ++i)
    p.store(random_operand(p, random, types[random() % 3], true, false), values[values.size() - 1 - i]);
  check(p, -4, 4, static_cast<unsigned>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Loops, Fuzz, ::testing::Range(0, 60));

}  // namespace
}  // namespace graphex::codegen
