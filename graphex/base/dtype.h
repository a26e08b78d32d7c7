// Element types, named and numbered once for every room.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace graphex {

enum class DType : uint8_t { kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64 };
inline constexpr int kDTypeCount = 10;

// Bytes of one element.
constexpr int64_t size_of(DType dtype) {
  constexpr int64_t kBytes[kDTypeCount] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return kBytes[static_cast<int>(dtype)];
}

constexpr bool is_float(DType dtype) { return dtype >= DType::kF16; }
constexpr bool is_reduced_float(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }
constexpr bool is_int(DType dtype) { return dtype >= DType::kU8 && dtype <= DType::kI64; }

// "bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64".
constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[kDTypeCount] = {"bool", "u8",  "i8",   "i16", "i32",
                                                    "i64",  "f16", "bf16", "f32", "f64"};
  return kNames[static_cast<int>(dtype)];
}

constexpr std::optional<DType> dtype_from(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace graphex
