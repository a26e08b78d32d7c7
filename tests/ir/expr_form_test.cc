// Sizes: the normal form makes equal sizes equal, and never changes a value.
#include <gtest/gtest.h>

#include <random>

#include "graphex/base/error.h"
#include "graphex/ir/expr.h"

namespace graphex::ir {
namespace {

const Expr kA = Expr::symbol(0), kB = Expr::symbol(1);
const std::vector<std::string> kNames = {"a", "b"};

TEST(Expr, NormalForm) {
  EXPECT_EQ(kA + kB, kB + kA);
  EXPECT_EQ((kA + 1) * (kB + 2), kA * kB + 2 * kA + kB + 2);
  EXPECT_EQ(kA - kA, Expr(0));
  EXPECT_TRUE((kA * 0).is_constant());
  EXPECT_EQ(floordiv(4 * kA + 8, 4), kA + 2);
  EXPECT_EQ(floordiv(kA, 1), kA);
  EXPECT_EQ(mod(kA, 1), Expr(0));
  EXPECT_EQ(min(kA, kA), kA);
  EXPECT_EQ(min(Expr(3), Expr(5)), Expr(3));
  EXPECT_FALSE(floordiv(kA, 2) == floordiv(kA, 3));
  EXPECT_EQ((2 * kA * kB + 3).str(kNames), "2*a*b + 3");
  EXPECT_EQ(max(kA + 1, kB).str(kNames), "max(a + 1, b)");
}

TEST(Expr, ContiguousStridesCountEmptyDimensionsAsOne) {
  const std::vector<Expr> shape = {2, kA, 0, 3};
  const std::vector<Expr> strides = contiguous_strides(shape);
  EXPECT_EQ(strides[0], 3 * kA);
  EXPECT_EQ(strides[1], Expr(3));
  EXPECT_EQ(strides[2], Expr(3));
}

TEST(Expr, DivisionByZeroIsAnError) {
  const int64_t zero[] = {0, 0};
  EXPECT_THROW(floordiv(kA, kB).eval(zero), Error);
  EXPECT_THROW(mod(5, kB).eval(zero), Error);
}

// A receiver that evaluates.
class Calculator : public ExprBuilder {
 public:
  explicit Calculator(std::span<const int64_t> symbols) : symbols_(symbols) {}
  int constant(int64_t value) override { return add(value); }
  int symbol(int index) override { return add(symbols_[static_cast<size_t>(index)]); }
  int apply(Op op, int a, int b) override {
    const Expr x(at(a)), y(at(b));
    const Expr result = op == Op::kAdd        ? x + y
                        : op == Op::kMul      ? x * y
                        : op == Op::kFloorDiv ? floordiv(x, y)
                        : op == Op::kMod      ? mod(x, y)
                        : op == Op::kMin      ? min(x, y)
                                              : max(x, y);
    return add(result.constant());
  }
  int64_t at(int id) const { return values_[static_cast<size_t>(id)]; }

 private:
  int add(int64_t value) {
    values_.push_back(value);
    return static_cast<int>(values_.size()) - 1;
  }
  std::span<const int64_t> symbols_;
  std::vector<int64_t> values_;
};

int64_t floor_quotient(int64_t a, int64_t b) { return (a - ((a % b) + b) % b) / b; }

// A random expression beside its value, computed without Expr.
std::pair<Expr, int64_t> random_expr(std::mt19937& random, std::span<const int64_t> symbols, int depth) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  if (depth == 0 || pick(4) == 0) {
    if (pick(2)) return {Expr::symbol(pick(2)), 0};
    const int64_t value = pick(7) - 3;
    return {Expr(value), value};
  }
  auto [a, x] = random_expr(random, symbols, depth - 1);
  auto [b, y] = random_expr(random, symbols, depth - 1);
  x = a.eval(symbols), y = b.eval(symbols);
  const int64_t positive = 1 + pick(5);
  switch (pick(7)) {
    case 0:
      return {a + b, x + y};
    case 1:
      return {a - b, x - y};
    case 2:
      return {a * b, x * y};
    case 3:
      return {floordiv(a, positive), floor_quotient(x, positive)};
    case 4:
      return {mod(a, positive), x - floor_quotient(x, positive) * positive};
    case 5:
      return {min(a, b), std::min(x, y)};
    default:
      return {max(a, b), std::max(x, y)};
  }
}

TEST(Expr, RandomExpressionsKeepTheirValue) {
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    const int64_t symbols[] = {static_cast<int64_t>(random() % 9), static_cast<int64_t>(random() % 9)};
    auto [expr, value] = random_expr(random, symbols, 4);
    if (expr == Expr::symbol(0) || expr == Expr::symbol(1)) value = expr.eval(symbols);
    ASSERT_EQ(expr.eval(symbols), value) << expr.str(kNames) << " for " << symbols[0] << ", " << symbols[1];
    Calculator calculator(symbols);
    ASSERT_EQ(calculator.at(expr.build(calculator)), value) << expr.str(kNames);
    ASSERT_EQ(Expr::compare(expr, expr), 0);
  }
}

}  // namespace
}  // namespace graphex::ir
