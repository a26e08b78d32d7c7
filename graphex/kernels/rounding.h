// Floats to 8-bit integers that share a scale.
#pragma once

#include "graphex/kernels/simd.h"

namespace graphex::kernels {

// What values are multiplied by to become integers, and each integer by to become a value: 127 / max and max / 127.
struct RoundingScale {
  float to_integers, from_integers;
};

// Of `count` values, a multiple of kLanes. An infinity or a NaN among them makes from_integers NaN. Sizes compare as
// integers, which order like the floats they are the bits of; NaN is above infinity.
template <class T>
GX_INLINE RoundingScale rounding_scale(const T* values, int64_t count) {
  Ints<kLanes> largest = {};
#pragma clang loop unroll(disable)
  for (int64_t at = 0; at < count; at += kLanes) {
    const Vec x = load_floats<kLanes>(values + at);
    largest = __builtin_elementwise_max(largest, __builtin_bit_cast(Ints<kLanes>, x) & 0x7fffffff);
  }
  const float size = __builtin_bit_cast(float, __builtin_reduce_max(largest));
  const float most = size + size * 0.0f;  // an infinity becomes NaN
  const float inverse = 127.0f / most;
  return {inverse <= 3.4028235e38f ? inverse : 0.0f, most / 127.0f};  // what is too small for that becomes 0
}

// The integers nearest to x * scale: adding 1.5 * 2^23 leaves them, rounded to even, in the low bits.
GX_INLINE Ints<kLanes> nearest(Vec x, float scale) {
  const Vec shifted = x * scale + 12582912.0f;
  return __builtin_bit_cast(Ints<kLanes>, shifted) - 0x4b400000;
}

}  // namespace graphex::kernels
