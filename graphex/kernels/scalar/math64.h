// Elementary functions of double. Coefficients are minimax fits of our own (Remez exchange in 50 digits). Errors are
// the largest seen by tests/codegen/scalar_test.cc, which fails above the bound in its table: exp, log, atan, sin and
// cos stay within 1 to 2 ULP, tan, sinh, tanh, log1p within 3 to 4. Denormals, infinities and NaN behave as in C's
// <math.h>.
#pragma once

#include "graphex/kernels/scalar/bits.h"

namespace graphex::scalar {

constexpr double kLn2Hi = 0x1.62e42feep-1, kLn2Lo = 0x1.a39ef35793c76p-33;  // kLn2Hi has 32 bits
constexpr double kLog2E = 0x1.71547652b82fep+0;

// e^x = 2^n * (1 + p)
struct Exp64 {
  double n, p;
};
GX_INLINE Exp64 split_exp(double x, double tail) {
  const double n = (x * kLog2E + kWhole64) - kWhole64;
  const double r = madd(n, -kLn2Lo, madd(n, -kLn2Hi, x)) + tail;
  const double p = poly(r, 0.5, 0x1.555555555555cp-3, 0x1.555555555555ep-5, 0x1.111111110e8a3p-7, 0x1.6c16c16c1311ep-10,
                        0x1.a01a01b4ecd9bp-13, 0x1.a01a01b58ceffp-16, 0x1.71ddec930bb53p-19, 0x1.27e4bccca66eap-22,
                        0x1.af720febb1390p-26, 0x1.1fa165511e51ap-29);
  return {n, madd(r * r, p, r)};
}
GX_INLINE double clamp(double x, double low, double high) {  // keeps NaN
  x = x < low ? low : x;
  return x > high ? high : x;
}

// 2^n * (1 + p), rounded once, from 0 to infinity: -2000 < n < 1025.
GX_INLINE double join_exp(Exp64 e) {
  const double n = e.n < -1021 ? -1021 : e.n;
  return madd(2.0, e.p, 2.0) * power_of_2(n, 1022) * power_of_2(e.n - n, 1023);
}
GX_INLINE double exp_of(double x) { return join_exp(split_exp(clamp(x, -750, 710), 0)); }
// A quarter of e^x - 1, which doesn't overflow before half of it, sinh, does.
GX_INLINE double quarter_expm1(double x) {
  const Exp64 e = split_exp(clamp(x, -50, 710.5), 0);
  const double power = power_of_2(e.n, 1021);
  const double result = madd(power, e.p, power - 0.25);
  return absolute(x) < 0x1p-54 ? 0.25 * x : result;
}
GX_INLINE double expm1_of(double x) {
  const double result = 4 * quarter_expm1(x);
  return absolute(x) < 0x1p-54 ? x : result;
}
GX_INLINE double exp2_of(double x) {
  x = clamp(x, -1080, 1024.25);
  const double n = (x + kWhole64) - kWhole64;
  constexpr double kHi = 0x1.62e42fefa39efp-1, kLo = 0x1.abc9e3b39803fp-56;
  const double f = x - n;
  const Double2 r = exact_product(f, kHi);
  const Exp64 e = split_exp(r.hi, madd(f, kLo, r.lo));
  return join_exp({n + e.n, e.p});
}

// x = 2^k * (1 + f) with 1 + f from sqrt(1/2) to sqrt(2), for positive finite x.
struct Log64 {
  double k, f;
};
GX_INLINE Log64 split_log(double x) {
  const bool tiny = x < 0x1p-1022;
  const uint64_t bits = bits_of(tiny ? x * 0x1p54 : x);
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  const uint64_t biased = (bits - kSqrtHalf + (uint64_t{1} << 63)) >> 52;
  const double k = float_of(biased | 0x4330000000000000u) - (0x1p52 + 2048) - (tiny ? 54 : 0);
  return {k, float_of(bits - ((biased - 2048) << 52)) - 1};
}
// k * log(2) + log(1 + f) + tail
GX_INLINE double join_log(double k, double f, double tail) {
  const double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  const double r = z * poly(z, 0x1.5555555555555p-1, 0x1.9999999999ea9p-2, 0x1.249249241e087p-2, 0x1.c71c72687c868p-3,
                            0x1.745cd962ef899p-3, 0x1.3b217d86ba353p-3, 0x1.0f4a5f9625ab3p-3, 0x1.1009bdfd6c14cp-3);
  return k * kLn2Hi - ((half - (s * (half + r) + (k * kLn2Lo + tail))) - f);
}
// The values of a logarithm outside the positive finite numbers.
GX_INLINE double log_domain(double x, double value) {
  value = x == 0 ? -kInf64 : value;
  value = x < 0 ? kNan64 : value;
  return x < kInf64 ? value : x + 0;  // infinity and NaN
}
GX_INLINE double log_of(double x) {
  const Log64 l = split_log(x);
  return log_domain(x, join_log(l.k, l.f, 0));
}
GX_INLINE double log2_of(double x) {
  const Log64 l = split_log(x);
  const double m = join_log(0, l.f, 0);
  const Double2 product = exact_product(m, kLog2E);
  return log_domain(x, l.k + (product.hi + madd(m, 0x1.777d0ffda0d24p-56, product.lo)));
}
GX_INLINE double log10_of(double x) {
  constexpr double kHi = 0x1.34413509f7800p-2, kLo = 0x1.fef311f12b358p-46;  // log10(2)
  constexpr double kLog10E = 0x1.bcb7b1526e50ep-2;
  const Log64 l = split_log(x);
  return log_domain(x, l.k * kHi + madd(join_log(0, l.f, 0), kLog10E, l.k * kLo));
}
GX_INLINE double log1p_of(double x) {
  const double u = 1 + x;
  const Log64 l = split_log(u);
  const double lost = absolute(x) < 1 ? x - (u - 1) : 1 - (u - x);
  const bool near = l.k == 0;  // then x itself is the argument, without a loss
  const double result = join_log(l.k, near ? x : l.f, near ? 0 : lost / u);
  return absolute(x) < 0x1p-54 ? x : log_domain(u, result);
}

GX_INLINE double tanh_of(double x) {
  const double a = absolute(x);
  const double h = 2 * quarter_expm1(2 * (a > 22 ? 22 : a));
  const double result = x != x ? x : a < 0x1p-54 ? a : h / (h + 1);
  return with_sign(result, x);
}
GX_INLINE double sinh_of(double x) {
  const double h = 2 * quarter_expm1(absolute(x));
  const double result = h + h / (2 * h + 1);
  return with_sign(absolute(x) < 0x1p-28 ? absolute(x) : h == kInf64 ? h : result, x);
}
GX_INLINE double cosh_of(double x) {
  const Exp64 e = split_exp(clamp(absolute(x), 0, 710.5), 0);
  const double half = 2 * ((1 + e.p) * power_of_2(e.n, 1021));
  return half + 0.25 / half;
}

// atan(a / b) for a, b >= 0, not both zero or infinite.
GX_INLINE double atan_ratio(double a, double b) {
  const bool swapped = a > b;
  const double low = swapped ? b : a, high = swapped ? a : b;
  const bool upper = low > 0x1.a827999fcef32p-2 * high;  // tan(pi / 8)
  // Halves, since low + high may overflow.
  const double t = (upper ? 0.5 * low - 0.5 * high : low) / (upper ? 0.5 * low + 0.5 * high : high);
  const double z = t * t;
  const double p = poly(z, -0x1.5555555555554p-2, 0x1.99999999995a4p-3, -0x1.2492492470482p-3, 0x1.c71c71b4c7d74p-4,
                        -0x1.745d145f3637ep-4, 0x1.3b136632eccf6p-4, -0x1.110bfd4d007c4p-4, 0x1.e1690abe1a6ebp-5,
                        -0x1.ab44101df49d2p-5, 0x1.7004b7dc82587p-5, -0x1.101cbf234c152p-5, 0x1.e9653e8624181p-7);
  // base +- (t + t z p), the parts of pi apart so that only the last addition rounds visibly
  const double lo = madd(t * z, p, upper ? 0x1.1a62633145c07p-55 : 0);
  const double hi = upper ? 0x1.921fb54442d18p-1 : 0;
  const double direct = hi + (t + lo);
  const double turned = (0x1.921fb54442d18p+0 - hi) - (t + (lo - 0x1.1a62633145c07p-54));
  return swapped ? turned : direct;
}
GX_INLINE double atan_of(double x) {
  const double a = absolute(x);
  const double result = atan_ratio(a, 1);
  return with_sign(a < 0x1p-27 ? a : a == kInf64 ? 0x1.921fb54442d18p+0 : result, x);
}
GX_INLINE double atan2_of(double y, double x) {
  double a = absolute(y), b = absolute(x);
  const bool both_infinite = a == kInf64 && b == kInf64;
  a = both_infinite ? 1 : a;
  b = both_infinite || (a == 0 && b == 0) ? 1 : b;
  const bool small = a < 0x1p-900 && b < 0x1p-900;  // halves would lose bits
  double r = atan_ratio(small ? a * 0x1p200 : a, small ? b * 0x1p200 : b);
  const double other = 0x1.921fb54442d18p+1 - (r - 0x1.1a62633145c07p-53);
  r = with_sign(1.0, x) < 0 ? other : r;
  return a != a || b != b ? a + b : with_sign(r, y);
}

// asin(x) for 0 <= x <= 0.5, less x; z = x * x.
GX_INLINE double asin_tail(double x, double z) {
  return x * z *
         poly(z, 0x1.5555555555578p-3, 0x1.333333332de4ep-4, 0x1.6db6db7234fbep-5, 0x1.f1c71a87e5475p-6,
              0x1.6e8be052bd842p-6, 0x1.1c49d62e96441p-6, 0x1.ca22055ba9731p-7, 0x1.757136077ff44p-7,
              0x1.61af30fa58ff2p-7, 0x1.df26aefd7f2bap-9, 0x1.65b1c9ae45269p-6, -0x1.5af4f0d7d2702p-6,
              0x1.0c35b34871b15p-5);
}
GX_INLINE double asin_of(double x) {
  const double a = absolute(x);
  const bool outer = a > 0.5;
  const double z = outer ? 0.5 * (1 - a) : a * a;
  const double s = outer ? square_root(z) : a;
  const double tail = asin_tail(s, z);
  const double turned = 0x1.921fb54442d18p+0 - (2 * s + (2 * tail - 0x1.1a62633145c07p-54));
  return with_sign(outer ? turned : s + tail, x);
}
GX_INLINE double acos_of(double x) {
  const double a = absolute(x);
  const bool outer = a > 0.5;
  const double z = outer ? 0.5 * (1 - a) : a * a;
  const double s = outer ? square_root(z) : x;
  // The root's own rounding error, which 2 s would show.
  const Double2 square = exact_product(s, s);
  const double fix = outer && s > 0 ? ((z - square.hi) - square.lo) / (2 * s) : 0;
  const double tail = asin_tail(s, z) + fix;
  const double inner = 0x1.921fb54442d18p+0 - (s + (tail - 0x1.1a62633145c07p-54));
  const double left = 0x1.921fb54442d18p+1 - (2 * s + (2 * tail - 0x1.1a62633145c07p-53));
  return outer ? (x > 0 ? 2 * s + 2 * tail : left) : inner;
}

GX_INLINE double erf_of(double x) {
  const double a = absolute(x), z = x * x;
  const double near =
      x * poly(z, 0x1.20dd750429b6dp+0, -0x1.812746b0379e7p-2, 0x1.ce2f21a042bddp-4, -0x1.b82ce3128896ap-6,
               0x1.565bcd0e6419ep-8, -0x1.c02db3feb8befp-11, 0x1.f9a326bb25eb3p-14, -0x1.f4d25572700bbp-17,
               0x1.b9e645da358a9p-20, -0x1.5f6d19c53cca1p-23, 0x1.fc3c36508d5a0p-27, -0x1.4e3dbe2ffa785p-30,
               0x1.7e41fcc29dfa6p-34, -0x1.27cb4dccf2638p-38);
  const double b = a > 6 ? 6 : a, t = (b - 3) / (b + 3);  // e^(b b) erfc(b) is smooth in t
  const double scaled = poly(
      t, 0x1.6e9827d229d2dp-3, -0x1.4e102b9cf8513p-2, 0x1.f6ff204105975p-3, -0x1.336ffbef08b48p-3, 0x1.258b13b01791fp-4,
      -0x1.8fa58eb5da08bp-6, 0x1.17c838eede97dp-8, 0x1.73101e7d5f2c8p-11, -0x1.39084cad09bb3p-11, 0x1.7ba0f987e6511p-15,
      0x1.0cac5fb8e91e9p-14, -0x1.af83c0229b1bfp-17, -0x1.0bbf8128352d7p-17, 0x1.1c03eecf9cad6p-19,
      0x1.519d7f38c6809p-20, -0x1.23bf5c5547be7p-22, -0x1.f4b969906172dp-23, -0x1.7a23ade3ac424p-26);
  return a < 1 ? near : x != x ? x : with_sign(1 - exp_of(-b * b) * scaled, x);
}

}  // namespace graphex::scalar
