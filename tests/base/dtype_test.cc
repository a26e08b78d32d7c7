#include "graphex/base/dtype.h"

#include <gtest/gtest.h>

#include <set>

namespace graphex {
namespace {

TEST(DType, NamesParseBackToTheSameType) {
  std::set<std::string_view> seen;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from(name_of(dtype)), dtype);
    EXPECT_TRUE(seen.insert(name_of(dtype)).second) << name_of(dtype) << " names two types";
  }
}

TEST(DType, UnknownNamesAreRefused) {
  EXPECT_EQ(dtype_from("float32"), std::nullopt);
  EXPECT_EQ(dtype_from(""), std::nullopt);
}

TEST(DType, SizesAreThoseOfTheNames) {
  for (int i = 1; i < kDTypeCount; ++i) {
    const std::string_view name = name_of(static_cast<DType>(i));
    const int bits = std::stoi(std::string(name.substr(name.find_first_of("0123456789"))));
    EXPECT_EQ(size_of(static_cast<DType>(i)) * 8, bits) << name;
  }
  EXPECT_EQ(size_of(DType::kBool), 1);
}

TEST(DType, KindsDoNotOverlap) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(is_float(dtype) + is_int(dtype) + (dtype == DType::kBool), 1) << name_of(dtype);
    if (is_reduced_float(dtype)) EXPECT_TRUE(is_float(dtype) && size_of(dtype) == 2);
  }
}

}  // namespace
}  // namespace graphex
