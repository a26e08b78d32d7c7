#include "graphex/base/error.h"

#include <gtest/gtest.h>

namespace graphex {
namespace {

Error caught(void (*body)()) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kInternal, "nothing was thrown");
}

TEST(Error, JoinsTheParts) {
  const Error error = caught([] { fail(ErrorKind::kIo, "cannot open ", "x.gx", ": code ", 2); });
  EXPECT_STREQ(error.what(), "cannot open x.gx: code 2");
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
}

TEST(Error, CheckBlamesTheCaller) {
  const Error error = caught([] { GX_CHECK(1 + 1 == 3, "expected 3, got ", 1 + 1); });
  EXPECT_STREQ(error.what(), "expected 3, got 2");
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_NO_THROW(GX_CHECK(true, "unused"));
}

TEST(Error, AssertNamesTheConditionAndThePlace) {
  const Error error = caught([] { GX_ASSERT(1 > 2); });
  const std::string text = error.what();
  EXPECT_NE(text.find("1 > 2"), std::string::npos) << text;
  EXPECT_NE(text.find("error_test.cc"), std::string::npos) << text;
  EXPECT_EQ(error.kind(), ErrorKind::kInternal);
}

}  // namespace
}  // namespace graphex
