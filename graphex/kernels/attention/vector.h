// What attention needs beyond simd.h: whole vectors by element type, parts of vectors, and exp.
#pragma once

#include "graphex/kernels/simd.h"

namespace graphex::kernels {

// Loops that are short or cold: unrolling and vectorising them costs compile time only.
#define GX_PLAIN_LOOP _Pragma("clang loop unroll(disable) vectorize(disable)")

using IntVec = int32_t __attribute__((ext_vector_type(kLanes)));
using WordVec = Words<kLanes>;

template <typename T>
GX_INLINE Vec load(const T* from) {
  return load_floats<kLanes>(from);
}

template <typename T>
GX_INLINE void store_as(T* to, Vec value) {
  store_floats<kLanes>(to, value);
}

GX_INLINE Vec max_of(Vec a, Vec b) { return a > b ? a : b; }

// The first `count` elements, the rest 0; nothing else is touched.
template <typename T>
GX_INLINE Vec load_part(const T* from, int64_t count) {
  T lanes[kLanes] = {};
  GX_PLAIN_LOOP
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return load(lanes);
}

template <typename T>
GX_INLINE void store_part(T* to, Vec value, int64_t count) {
  T lanes[kLanes];
  store_as(lanes, value);
  GX_PLAIN_LOOP
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

GX_INLINE IntVec lane_indices() {
  IntVec v;
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}

GX_INLINE float sum_of_lanes(Vec v) { return sum_lanes(v, v, v, v)[0]; }

// NaN lanes may be lost.
GX_INLINE float max_of_lanes(Vec v) {
  float lanes[kLanes];
  store_as(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
  return lanes[0];
}

GX_INLINE Vec zip_low(Vec a, Vec b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}

GX_INLINE Vec zip_high(Vec a, Vec b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}

// What zip_low and zip_high joined.
GX_INLINE Vec unzip_even(Vec low, Vec high) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#elif defined(__AVX2__)
  return __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
#else
  return __builtin_shufflevector(low, high, 0, 2, 4, 6);
#endif
}

GX_INLINE Vec unzip_odd(Vec low, Vec high) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif defined(__AVX2__)
  return __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
#else
  return __builtin_shufflevector(low, high, 1, 3, 5, 7);
#endif
}

// exp for x <= 0 within 1 ULP; below -87.3 the result is 0 (no subnormals), NaN stays NaN.
// x = n ln2 + r with |r| <= ln2 / 2; exp(r) = 1 + r + r^2 q(r), q minimax with relative error 4e-9.
GX_INLINE Vec exp_nonpositive(Vec x) {
  const Vec shift = 0x1.8p23f;  // adding it rounds to an integer, which then lies in the low bits
  const Vec shifted = multiply_add<Vec>(x, 0x1.715476p0f, shift);
  const Vec n = shifted - shift;
  Vec r = multiply_add<Vec>(n, -0x1.62e4p-1f, x);  // 15 bits: n times it is exact
  r = multiply_add<Vec>(n, -0x1.7f7d1cp-20f, r);
  Vec q = multiply_add<Vec>(r, 0.0013814540579915047f, 0.00836874544620514f);
  q = multiply_add<Vec>(q, r, 0.04166838899254799f);
  q = multiply_add<Vec>(q, r, 0.1666652113199234f);
  q = multiply_add<Vec>(q, r, 0.4999999403953552f);
  const Vec p = multiply_add<Vec>(q * r, r, r) + 1.0f;
  const WordVec scaled = __builtin_bit_cast(WordVec, p) + (__builtin_bit_cast(WordVec, shifted) << 23);
  return x < -87.3f ? Vec(0.0f) : __builtin_bit_cast(Vec, scaled);
}

}  // namespace graphex::kernels
