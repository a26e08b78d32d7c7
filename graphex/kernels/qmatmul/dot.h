// How a block of kQuantBlock weights meets as many inputs: widened to 16-bit integers whose products are summed in
// pairs, or to floats. Both read the weights in the same order.
#pragma once

#include "graphex/kernels/qmatmul/qmatmul.h"
#include "graphex/kernels/simd.h"

extern "C" {
extern const int64_t GX_BITS;
extern const int64_t GX_INPUT;
extern const int64_t GX_GROUPED;
extern const int64_t GX_BIAS;
extern const int64_t GX_M;
}

namespace graphex::kernels::qmatmul {

// Bytes that a block of weights takes.
GX_INLINE int64_t block_bytes() { return GX_BITS == 8 ? kQuantBlock : kQuantBlock / 2; }

// Sixteen weights from the `half` of a block (0 or 1) on.
GX_INLINE Bytes<16> half_block(const char* from, int half) {
  if (GX_BITS == 8) return load<Bytes<16>>(from + 16 * half);
  const auto raw = load<unsigned char __attribute__((ext_vector_type(16)))>(from);
  return __builtin_bit_cast(Bytes<16>, half == 0 ? raw & 15 : raw >> 4) - 8;
}

#if !defined(__AVX512VNNI__)  // chunks.h takes its place there
// Each lane the sum of two neighbouring products; exact.
GX_INLINE Ints<4> multiply_pairs(Shorts<8> a, Shorts<8> b) {
  return __builtin_convertvector(a.even, Ints<4>) * __builtin_convertvector(b.even, Ints<4>) +
         __builtin_convertvector(a.odd, Ints<4>) * __builtin_convertvector(b.odd, Ints<4>);
}
#if defined(__AVX2__)
GX_INLINE Ints<8> multiply_pairs(Shorts<16> a, Shorts<16> b) {
  return __builtin_bit_cast(Ints<8>, __builtin_ia32_pmaddwd256(a, b));
}
#endif

struct IntegerDot {
  using Element = int16_t;
  using Vector = Shorts<2 * kLanes>;
  using Sum = Ints<kLanes>;
  static constexpr int kParts = static_cast<int>(kQuantBlock) / (2 * kLanes);

  GX_INLINE void widen(const char* from, Vector (&to)[kParts]) {
#if defined(__AVX2__)
    for (int half = 0; half < 2; ++half) to[half] = __builtin_convertvector(half_block(from, half), Vector);
#else
    for (int half = 0; half < 2; ++half) {
      const Bytes<16> bytes = half_block(from, half);
      to[2 * half] = __builtin_convertvector(bytes.lo, Vector);
      to[2 * half + 1] = __builtin_convertvector(bytes.hi, Vector);
    }
#endif
  }
  GX_INLINE Sum add(Sum sum, Vector x, Vector w) { return sum + multiply_pairs(x, w); }
  GX_INLINE float total(Sum sum) { return static_cast<float>(__builtin_reduce_add(sum)); }
};
#endif

struct FloatDot {
  using Element = float;
  using Vector = Vec;
  using Sum = Vec;
  static constexpr int kParts = static_cast<int>(kQuantBlock) / kLanes;

  GX_INLINE void widen(const char* from, Vector (&to)[kParts]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Bytes<16> bytes = half_block(from, half);
      const Floats<16> wide = __builtin_convertvector(__builtin_convertvector(bytes, Ints<16>), Floats<16>);
      __builtin_memcpy(&to[half * (kParts / 2)], &wide, sizeof wide);
    }
  }
  GX_INLINE Sum add(Sum sum, Vector x, Vector w) { return multiply_add(x, w, sum); }
  GX_INLINE float total(Sum sum) { return sum_lanes(sum, sum, sum, sum)[0]; }
};

}  // namespace graphex::kernels::qmatmul
