// pow: the logarithm in two doubles (about 2^-66), so that x^y stays within 1 ULP of double; floats need one double.
#pragma once

#include "graphex/kernels/scalar/math64.h"

namespace graphex::scalar {

// log(x) for positive finite x.
GX_INLINE Double2 exact_log(double x) {
  const Log64 l = split_log(x);
  const double f = l.f, d = 2 + f, d_lost = f - (d - 2);
  const double s = f / d;
  const Double2 back = exact_product(s, d);
  const double s_lost = (((f - back.hi) - back.lo) - s * d_lost) / d;
  const double z = s * s;
  // 2 s + 2/3 s^3 in two doubles, the rest in one.
  const Double2 square = exact_product(s, s);
  const Double2 cube = exact_product(s, square.hi);
  const double cube_lost = cube.lo + s * square.lo + 3 * square.hi * s_lost;
  const Double2 third = exact_product(cube.hi, 0x1.5555555555555p-1);
  const double third_lost = third.lo + cube.hi * 0x1.5555555555555p-55 + cube_lost * 0x1.5555555555555p-1;
  const double rest = z * cube.hi *
                      poly(z, 0x1.9999999999ea9p-2, 0x1.249249241e087p-2, 0x1.c71c72687c868p-3, 0x1.745cd962ef899p-3,
                           0x1.3b217d86ba353p-3, 0x1.0f4a5f9625ab3p-3, 0x1.1009bdfd6c14cp-3);
  const Double2 a = exact_sum(l.k * kLn2Hi, 2 * s);
  const Double2 b = exact_sum(a.hi, third.hi);
  const double low = a.lo + b.lo + (l.k * kLn2Lo + 2 * s_lost + (third_lost + rest));
  return exact_sum_ordered(b.hi, low);
}

// What pow returns where |x|^y (`value`) is not the whole answer. C99 F.9.4.4.
GX_INLINE double pow_domain(double x, double y, double value) {
  const double ay = absolute(y);
  const bool integer = ay >= 0x1p53 || ay == __builtin_elementwise_trunc(ay);
  const double half = ay * 0.5;
  const bool odd = integer && ay < 0x1p53 && half != __builtin_elementwise_trunc(half);
  const double ax = absolute(x);
  const bool grows = (ax > 1) == (y > 0);
  value = ay == kInf64 ? (ax == 1 ? 1 : grows ? kInf64 : 0) : value;
  value = ax == 0 ? (y < 0 ? kInf64 : 0) : value;
  value = ax == kInf64 ? (y < 0 ? 0 : kInf64) : value;
  value = x < 0 && ax < kInf64 && !integer ? kNan64 : value;
  value = odd && with_sign(1.0, x) < 0 ? -value : value;
  value = x != x || y != y ? x + y : value;
  return x == 1 || y == 0 ? 1 : value;
}
GX_INLINE double pow_of(double x, double y) {
  const Double2 log = exact_log(absolute(x));
  const Double2 product = exact_product(log.hi, y);
  const double tail = absolute(product.hi) < 760 ? product.lo + log.lo * y : 0;
  const double value = join_exp(split_exp(clamp(product.hi, -760, 710), tail));
  return pow_domain(x, y, value);
}
GX_INLINE float pow_of(float x, float y) {
  const double ax = absolute(static_cast<double>(x));
  const Log64 l = split_log(ax);
  return static_cast<float>(pow_domain(x, y, exp_of(y * join_log(l.k, l.f, 0))));
}

}  // namespace graphex::scalar
