// Text graph -> Program -> results, against the reference evaluator: the shapes of work that models have.
#include "tests/compile/harness.h"

namespace graphex::test {
namespace {

const std::vector<std::vector<int64_t>> kSizes = {{1, 1}, {3, 5}, {0, 4}, {64, 48}, {300, 257}};

TEST(Run, ElementwiseChainsAndBroadcasts) {
  expect_same(R"(graph @g {
  sym n, m
  %x: f32[n, m] = input
  %row: f32[m] = input
  %column: f32[n, 1] = input
  %a: f32[n, m] = add(%x, %row)
  %b: f32[n, m] = mul(%a, %column)
  %c: f32[n, m] = silu(%b)
  %o: f32[n, m] = add(%row, %column)
  %p: bool[n, m] = lt(%c, %o)
  %w: f32[n, m] = where(%p, %c, %row)
  return %w, %p
}
)",
              kSizes);
}

TEST(Run, EveryDtypeThroughCasts) {
  for (const char* dtype : {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"})
    expect_same("graph @g {\n  sym n\n  %x: f32[n] = input\n  %a: f32[n] = abs(%x)\n  %c: " + std::string(dtype) +
                    "[n] = cast(%a)\n  %d: f64[n] = cast(%c)\n  return %c, %d\n}\n",
                {{1}, {100}});
}

TEST(Run, SoftmaxAndRmsNorm) {
  expect_same(R"(graph @g {
  sym n, m
  %x: f32[n, m] = input
  %w: f32[m] = input
  %max: f32[n, 1] = amax(%x) {dims=[1], keepdim=true}
  %d: f32[n, m] = sub(%x, %max)
  %e: f32[n, m] = exp(%d)
  %s: f32[n, 1] = sum(%e) {dims=[1], keepdim=true}
  %softmax: f32[n, m] = div(%e, %s)
  %q: f32[n, m] = mul(%x, %x)
  %t: f32[n, 1] = sum(%q) {dims=[1], keepdim=true}
  %eps: f32[] = full() {value=1.0}
  %u: f32[n, 1] = add(%t, %eps)
  %r: f32[n, 1] = rsqrt(%u)
  %y: f32[n, m] = mul(%x, %r)
  %norm: f32[n, m] = mul(%y, %w)
  return %softmax, %norm
}
)",
              {{1, 1}, {3, 5}, {64, 48}, {300, 257}}, 1e-4);
}

TEST(Run, ReductionsOfEveryKind) {
  for (const char* op : {"sum", "prod", "amax", "amin"})
    for (const char* dims : {"[0]", "[1]", "[2]", "[0, 2]", "[]"}) {
      const bool all = std::string(dims) == "[]", two = std::string(dims) == "[0, 2]";
      const std::string shape = all              ? "[]"
                                : two            ? "[n]"
                                : dims[1] == '0' ? "[n, 4]"
                                : dims[1] == '1' ? "[3, 4]"
                                                 : "[3, n]";
      expect_same("graph @g {\n  sym n\n  %x: f32[3, n, 4] = input\n  %r: f32" + shape + " = " + op +
                      "(%x) {dims=" + dims + ", keepdim=false}\n  return %r\n}\n",
                  {{1}, {9}}, 1e-3);
    }
}

TEST(Run, MatmulWithWhatFollows) {
  expect_same(R"(graph @g {
  sym n
  %x: f32[n, 24] = input
  %w: f32[24, 16] strides [1, 24] = input
  %b: f32[16] = input
  %h: f32[n, 16] = addmm(%b, %x, %w) {alpha=1.0, beta=1.0}
  %g: f32[n, 16] = gelu(%h)
  %t: f32[16, n] strides [1, 16] = view(%g) {offset=0}
  %p: f32[n, n] = matmul(%g, %t)
  return %p, %h
}
)",
              {{1}, {5}, {70}}, 1e-4);
}

TEST(Run, AttentionWithMasks) {
  for (const char* mask : {"", "bool[1, 1, n, n]", "f32[1, 1, n, n]"}) {
    const std::string type = mask;
    expect_same(
        "graph @g {\n  sym n\n  %q: f32[1, 4, n, 8] = input\n  %k: f32[1, 2, n, 8] = input\n  %v: f32[1, 2, n, 8] = "
        "input\n" +
            (type.empty() ? "" : "  %m: " + type + " = input\n") +
            "  %o: f32[1, 4, n, 8], %l: f32[1, 4, n] = attention(%q, %k, %v" + (type.empty() ? "" : ", %m") +
            ") {scale=0.35, causal=" + (type.empty() ? "true" : "false") + ", group=2}\n  return %o, %l\n}\n",
        {{1}, {6}, {40}}, 1e-4);
  }
}

TEST(Run, OneProgramAtGrowingSizes) {
  Both both(
      "graph @g {\n  sym n\n  %x: f32[n, 33] = input\n  %e: f32[n, 33] = exp(%x)\n  %t: f32[33, n] strides [1, 33] = "
      "view(%e) {offset=0}\n"
      "  %p: f32[33, 33] = matmul(%t, %e)\n  %s: f32[33] = sum(%p) {dims=[0]}\n  return %s\n}\n");
  for (int64_t n = 1; n <= 200; n += 1 + n / 8) EXPECT_EQ(both.run({n}, 1e-3), "") << n;
  for (int64_t n = 200; n > 0; n -= 17) EXPECT_EQ(both.run({n}, 1e-3), "") << n;
  EXPECT_LE(both.function().program().plans_made(), 30);
}

TEST(Run, RoundingsBetweenFusedOperatorsOnRequest) {
  compile::Options options;
  options.emulate_precision_casts = true;
  const std::string text =
      "graph @g {\n  sym n\n  %x: bf16[n] = input\n  %y: bf16[n] = input\n  %a: bf16[n] = mul(%x, %y)\n"
      "  %b: bf16[n] = add(%a, %x)\n  %c: bf16[n] = sub(%b, %y)\n  return %c\n}\n";
  expect_same(text, {{1}, {1000}}, 0, options);
}

TEST(Run, IndexOutOfRange) {
  Both both(
      "graph @g {\n  sym n\n  %x: f32[n, 4] = input\n  %i: i64[3] = input\n  %r: f32[3, 4] = index_select(%x, %i) "
      "{dim=0}\n  return %r\n}\n");
  const auto arrays = [](int64_t last) {
    std::mt19937 random(1);
    const int64_t symbols[] = {5};
    return std::vector<Array>{random_array(ir::Type(DType::kF32, {ir::Expr(5), ir::Expr(4)}), symbols, random),
                              Array{DType::kI64, {3}, {{0, 0}, {0, 4}, {0, last}}}};
  };
  EXPECT_EQ(both.run_on(arrays(2), {5}, 0), "");
  for (const int64_t bad : {int64_t{5}, int64_t{-1}, INT64_MAX}) {
    const std::vector<Array> inputs = arrays(bad);
    const Stored x(inputs[0], {4, 1}), i(inputs[1], {1});
    try {
      both.function()({x.tensor, i.tensor});
      ADD_FAILURE() << "index " << bad << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIndex) << error.what();
    }
  }
}

}  // namespace
}  // namespace graphex::test
