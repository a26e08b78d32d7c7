#include "graphex/ir/expr.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "graphex/base/error.h"

namespace graphex::ir {
namespace {

const Expr n = Expr::symbol(0), m = Expr::symbol(1);
const std::vector<std::string> kNames = {"n", "m"};

TEST(Expr, EqualSizesAreEqualHoweverWritten) {
  EXPECT_EQ((n + 1) * (n - 1), n * n - 1);
  EXPECT_EQ(n * 4 + m - n * 4, m);
  EXPECT_EQ(floordiv(n * 6 + 3, 3), n * 2 + 1);
  EXPECT_EQ(mod(n, 1), Expr(0));
  EXPECT_EQ(min(n + m, m + n), n + m);
  EXPECT_FALSE(n == m);
}

TEST(Expr, EvaluatesAsPythonDivides) {
  const std::vector<int64_t> values = {-7, 2};
  EXPECT_EQ(floordiv(n, m).eval(values), -4);
  EXPECT_EQ(mod(n, m).eval(values), 1);
  EXPECT_EQ((max(n, m) * 3 + min(n, m)).eval(values), -1);
  EXPECT_EQ(floordiv(n * 3, -1).eval(values), 21);
}

TEST(Expr, PrintsItsNormalForm) {
  EXPECT_EQ((n * 4 + 1).str(kNames), "4*n + 1");
  EXPECT_EQ(Expr(-3).str(kNames), "-3");
  EXPECT_EQ(floordiv(n + 3, 4).str(kNames), "floordiv(n + 3, 4)");
}

TEST(Expr, LeavingSixtyFourBitsIsAnError) {
  const Expr most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  EXPECT_THROW(most + 1, Error);
  EXPECT_THROW(most * 2, Error);
  EXPECT_THROW((n * most) * 2, Error);
  EXPECT_THROW(n * most + n, Error);
  EXPECT_THROW(floordiv(least, -1), Error);
  EXPECT_THROW(floordiv(Expr(1), 0), Error);
  EXPECT_EQ(most + least, Expr(-1));
}

}  // namespace
}  // namespace graphex::ir
