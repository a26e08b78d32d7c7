// Element types that kernels compute in, and how they are read and written one at a time.
#pragma once

#include <stdint.h>

namespace graphex::kernels {

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

template <typename T>
static inline T widen(T x) {
  return x;
}
static inline float widen(Bf16 x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16); }

// Integer steps, for levels without the instruction would call a library.
static inline float widen(F16 x) {
  const uint32_t magnitude = static_cast<uint32_t>(x.bits & 0x7fff) << 13;
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  const float scaled = __builtin_bit_cast(float, magnitude) * 0x1p112f;
  const uint32_t bits = magnitude >= 0x7c00u << 13 ? magnitude | 0x7f800000u : __builtin_bit_cast(uint32_t, scaled);
  return __builtin_bit_cast(float, bits | sign);
}

template <typename T, typename A>
static inline T narrow(A x) {
  if constexpr (__is_same(T, Bf16)) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, static_cast<float>(x));
    const uint32_t rounded = x != x ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return {static_cast<uint16_t>(rounded)};
  } else if constexpr (__is_same(T, F16)) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, static_cast<float>(x)), magnitude = bits & 0x7fffffff;
    // Below 2^-14 an addition of 0.5 rounds at f16's last place.
    const uint32_t small = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const uint32_t large = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const uint32_t finite = magnitude < 113u << 23 ? small : normal;
    return {static_cast<uint16_t>((magnitude >= 0x477ff000u ? large : finite) | (bits >> 16 & 0x8000))};
  } else {
    return static_cast<T>(x);
  }
}

template <typename T>
inline constexpr bool kIsFloat = __is_same(T, float) || __is_same(T, double) || __is_same(T, Bf16) || __is_same(T, F16);

}  // namespace graphex::kernels
