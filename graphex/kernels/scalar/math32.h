// Elementary functions of float: in float arithmetic where inference spends its time (exp, log, tanh, erf, sigmoid,
// silu, gelu), through double elsewhere. Bounds in ULP, measured by tests/codegen/scalar_test.cc over all exponents:
// exp 1, log 1, tanh 2, erf 2, sigmoid 2, silu 3 (or 2^-143, where e^x is denormal); those through double 1. gelu and
// gelu_tanh are within 2^-22 |x| of the exact value (1 + erf(x) cancels for negative x, as in PyTorch).
#pragma once

#include "graphex/kernels/scalar/math64.h"

namespace graphex::scalar {

struct Exp32 {
  float n, p;
};
GX_INLINE Exp32 split_exp(float x) {
  const float n = madd(x, 0x1.715476p+0f, kWhole32) - kWhole32;
  const float r = madd(n, -0x1.7f7d1cp-20f, madd(n, -0x1.62e4p-1f, x));
  const float p =
      poly(r, 0x1.000000p-1f, 0x1.555556p-3f, 0x1.555478p-5f, 0x1.111076p-7f, 0x1.6d9e24p-10f, 0x1.a1c04ap-13f);
  return {n, madd(r * r, p, r)};
}
GX_INLINE float clamp(float x, float low, float high) {  // keeps NaN
  x = x < low ? low : x;
  return x > high ? high : x;
}
// 2^n is split where it is denormal, so that the result is rounded once.
GX_INLINE float exp_of(float x) {
  const Exp32 e = split_exp(clamp(x, -105, 89));
  const float n = e.n < -125 ? -125 : e.n;
  return madd(2.0f, e.p, 2.0f) * power_of_2(n, 126) * power_of_2(e.n - n, 127);
}
GX_INLINE float exp_of_negative(float x) {  // or 0
  const Exp32 e = split_exp(x < -105 ? -105 : x);
  const float n = e.n < -126 ? -126 : e.n;
  return (1 + e.p) * power_of_2(n, 127) * power_of_2(e.n - n, 127);
}
GX_INLINE double exp_of_negative(double x) { return exp_of(x); }
GX_INLINE float log_of(float x) {
  const bool tiny = x < 0x1p-126f;
  const uint32_t bits = bits_of(tiny ? x * 0x1p24f : x);
  constexpr uint32_t kSqrtHalf = 0x3f3504f3;
  const int32_t exponent = static_cast<int32_t>(bits - kSqrtHalf) >> 23;
  const float k = static_cast<float>(exponent - (tiny ? 24 : 0));
  const float f = float_of(bits - (static_cast<uint32_t>(exponent) << 23)) - 1;
  const float s = f / (2 + f), z = s * s, half = 0.5f * f * f;
  const float r = z * poly(z, 0x1.555554p-1f, 0x1.999a88p-2f, 0x1.24351ep-2f, 0x1.e38b26p-3f);
  float value = k * 0x1.62e4p-1f - ((half - (s * (half + r) + k * 0x1.7f7d1cp-20f)) - f);
  value = x == 0 ? -kInf32 : value;
  value = x < 0 ? kNan32 : value;
  return x < kInf32 ? value : x + 0;
}
GX_INLINE float tanh_of(float x) {
  const float a = absolute(x), z = x * x;
  const float near = madd(
      x * z, poly(z, -0x1.555554p-2f, 0x1.111064p-3f, -0x1.b9edecp-5f, 0x1.6382eap-6f, -0x1.0bc540p-7f, 0x1.181f5ap-9f),
      x);
  const Exp32 e = split_exp(2 * (a > 10 ? 10 : a));
  const float grown = (1 + e.p) * power_of_2(e.n, 127);
  const float far = 1 - 2 / (grown + 1);
  return x != x ? x : with_sign(a < 0.625f ? near : far, x);
}
GX_INLINE float erf_of(float x) {
  const float a = absolute(x), z = x * x;
  const float small = poly(z, 0x1.06eba8p-3f, -0x1.812746p-2f, 0x1.ce2f06p-4f, -0x1.b82980p-6f, 0x1.56270ap-8f,
                           -0x1.bca6e0p-11f, 0x1.d7935ep-14f, -0x1.421ed0p-17f);
  const float near = madd(x, small, x);
  const float b = a > 4 ? 4 : a;  // erfc(b) = exp(a polynomial of b)
  const float log = poly(b, 0x1.8a5748p-13f, -0x1.212c0cp+0f, -0x1.443566p-1f, -0x1.bc1516p-4f, 0x1.9d0304p-6f,
                         -0x1.138cbcp-8f, 0x1.cec5fep-12f, -0x1.6bd7e0p-16f);
  const Exp32 e = split_exp(log);
  const float far = 1 - (1 + e.p) * power_of_2(e.n, 127);
  return a < 1 ? near : x != x ? x : with_sign(far, x);
}

// e^-|x| keeps the logistic function exact to the last denormal on both sides.
template <class T>
GX_INLINE T sigmoid_of(T x) {
  const T e = exp_of_negative(-absolute(x));
  return (x < 0 ? e : 1) / (1 + e);
}
template <class T>
GX_INLINE T silu_of(T x) {
  const T e = exp_of_negative(-absolute(x));
  return (x < 0 ? x * e : x) / (1 + e);
}
template <class T>
GX_INLINE T gelu_of(T x) {
  return x * static_cast<T>(0.5) * (1 + erf_of(x * static_cast<T>(0x1.6a09e667f3bcdp-1)));
}
template <class T>
GX_INLINE T gelu_tanh_of(T x) {
  constexpr T kBeta = static_cast<T>(0x1.9884533d43651p-1), kKappa = static_cast<T>(0.044715);  // sqrt(2 / pi)
  const T inner = kBeta * (x + kKappa * (x * x * x));
  return static_cast<T>(0.5) * x * (1 + tanh_of(inner));
}

#define GX_THROUGH_DOUBLE(name) \
  GX_INLINE float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }
GX_THROUGH_DOUBLE(exp2_of)
GX_THROUGH_DOUBLE(expm1_of)
GX_THROUGH_DOUBLE(log2_of)
GX_THROUGH_DOUBLE(log10_of)
GX_THROUGH_DOUBLE(log1p_of)
GX_THROUGH_DOUBLE(sinh_of)
GX_THROUGH_DOUBLE(cosh_of)
GX_THROUGH_DOUBLE(atan_of)
GX_THROUGH_DOUBLE(asin_of)
GX_THROUGH_DOUBLE(acos_of)
#undef GX_THROUGH_DOUBLE
GX_INLINE float atan2_of(float y, float x) {
  return static_cast<float>(atan2_of(static_cast<double>(y), static_cast<double>(x)));
}

}  // namespace graphex::scalar
