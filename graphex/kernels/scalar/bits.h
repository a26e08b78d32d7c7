// Building blocks of the scalar functions: everything is inlined and free of branches and calls, so that LLVM's loop
// vectoriser can widen a loop that uses them. Multiply-adds are fused only inside our polynomials and only where the
// level has the instruction; arithmetic of the graph itself is never contracted.
#pragma once

#include <stdint.h>

#define GX_INLINE static inline __attribute__((always_inline))

namespace graphex::scalar {

// a * b + c, rounded once where that is one instruction.
template <class T>
GX_INLINE T madd(T a, T b, T c) {
#ifdef __FMA__
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// c0 + x * (c1 + x * (...)).
template <class T>
GX_INLINE T poly(T, T c) {
  return c;
}
template <class T, class... Rest>
GX_INLINE T poly(T x, T c, Rest... rest) {
  return madd(x, poly(x, static_cast<T>(rest)...), c);
}

GX_INLINE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
GX_INLINE uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }
GX_INLINE float float_of(uint32_t x) { return __builtin_bit_cast(float, x); }
GX_INLINE double float_of(uint64_t x) { return __builtin_bit_cast(double, x); }

template <class T>
GX_INLINE T absolute(T x) {
  return __builtin_elementwise_abs(x);
}
template <class T>
GX_INLINE T with_sign(T magnitude, T sign) {
  return __builtin_elementwise_copysign(magnitude, sign);
}
template <class T>
GX_INLINE T square_root(T x) {
  return __builtin_elementwise_sqrt(x);
}

constexpr double kInf64 = __builtin_inf();
constexpr float kInf32 = __builtin_inff();
constexpr double kNan64 = __builtin_nan("");
constexpr float kNan32 = __builtin_nanf("");

// Added to a number below 2^51 (2^22), leaves its whole part, rounded to nearest, in the last bits.
constexpr double kWhole64 = 0x1.8p52;
constexpr float kWhole32 = 0x1.8p23f;

// x rounded to an integer, as a number and modulo 2^64. |x| < 2^51; garbage in the integer for NaN.
struct Rounded64 {
  double value;
  uint64_t number;
};
GX_INLINE Rounded64 round_small(double x) {
  const double shifted = x + kWhole64;
  return {shifted - kWhole64, bits_of(shifted) - bits_of(kWhole64)};
}

// 2^(n + bias - 1023) and 2^(n + bias - 127) for a whole n with an exponent in range: the sum's last bits, moved up.
GX_INLINE double power_of_2(double n, int bias) { return float_of(bits_of(n + (kWhole64 + bias)) << 52); }
GX_INLINE float power_of_2(float n, int bias) {
  return float_of(bits_of(n + (kWhole32 + static_cast<float>(bias))) << 23);
}

// a + b and a * b without error, as a sum of two doubles.
struct Double2 {
  double hi, lo;
};
GX_INLINE Double2 exact_sum(double a, double b) {
  const double sum = a + b;
  const double other = sum - a;
  return {sum, (a - (sum - other)) + (b - other)};
}
GX_INLINE Double2 exact_sum_ordered(double a, double b) {  // |a| >= |b|
  const double sum = a + b;
  return {sum, b - (sum - a)};
}
GX_INLINE double upper_half(double x) { return float_of(bits_of(x) & 0xfffffffff8000000u); }
GX_INLINE Double2 exact_product(double a, double b) {
  const double product = a * b;
#ifdef __FMA__
  return {product, __builtin_elementwise_fma(a, b, -product)};
#else
  const double ah = upper_half(a), al = a - ah, bh = upper_half(b), bl = b - bh;
  return {product, ((ah * bh - product) + ah * bl + al * bh) + al * bl};
#endif
}

}  // namespace graphex::scalar
