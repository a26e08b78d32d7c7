// Division, remainders, powers and shifts with PyTorch's rules. Nothing traps: an integer divided by zero is 0.
#pragma once

#include "graphex/kernels/scalar/bits.h"

namespace graphex::scalar {

// The quotient of 8 to 32 bit numbers is exact after truncating a quotient in double, which has vector instructions.
template <class T>
GX_INLINE T trunc_divide_of(T a, T b) {
  const bool negate = static_cast<T>(-1) < 0 && b == static_cast<T>(-1);  // the smallest number has no positive twin
  const T divisor = b == 0 || negate ? T{1} : b;
  T whole;
  if constexpr (sizeof(T) < 8) {
    whole = static_cast<T>(static_cast<int32_t>(static_cast<double>(a) / static_cast<double>(divisor)));
  } else {
    whole = a / divisor;
  }
  return b == 0 ? T{0} : negate ? static_cast<T>(0 - static_cast<uint64_t>(a)) : whole;
}
template <class T>
GX_INLINE T fmod_of(T a, T b) {
  const auto back = static_cast<uint64_t>(trunc_divide_of(a, b)) * static_cast<uint64_t>(b);
  return b == 0 ? T{0} : static_cast<T>(static_cast<uint64_t>(a) - back);
}
template <class T>
GX_INLINE T remainder_of(T a, T b) {
  const T rest = fmod_of(a, b);
  const bool turn = rest != 0 && (rest < 0) != (b < 0);
  return static_cast<T>(rest + (turn ? b : T{0}));
}
template <class T>
GX_INLINE T floor_divide_of(T a, T b) {
  const T whole = trunc_divide_of(a, b), rest = fmod_of(a, b);
  return static_cast<T>(whole - (rest != 0 && (rest < 0) != (b < 0)));
}
template <class T>
GX_INLINE T pow_of(T base, T exponent) {
  if (exponent < 0) return base == 1 ? T{1} : base == static_cast<T>(-1) ? (exponent & 1 ? base : T{1}) : T{0};
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (auto left = static_cast<uint64_t>(exponent); left != 0; left >>= 1) {
    if (left & 1) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}
template <class T>
GX_INLINE T shift_left_of(T a, T b) {
  constexpr int kBits = sizeof(T) * 8;
  const bool inside = b >= 0 && b < kBits;
  return inside ? static_cast<T>(static_cast<uint64_t>(a) << (inside ? b : T{0})) : T{0};
}
template <class T>
GX_INLINE T shift_right_of(T a, T b) {  // beyond the width nothing but the sign is left
  constexpr T kMost = sizeof(T) * 8 - (static_cast<T>(-1) < 0);
  const bool inside = b >= 0 && b < kMost;
  if constexpr (static_cast<T>(-1) > 0) return inside ? static_cast<T>(a >> (inside ? b : T{0})) : T{0};
  return static_cast<T>(a >> (inside ? b : kMost));
}

// a - trunc(a / b) * b, exactly: each round removes 24 or more bits of the quotient without a rounding error.
GX_INLINE double fmod_rounds(double r, double b) {
  while (r >= b) {
    double step = b;  // nearer to r, so that the quotient stays finite
    step = step < r * 0x1p-600 ? step * 0x1p600 : step;
    step = step < r * 0x1p-600 ? step * 0x1p600 : step;
    // A whole number of 26 bits, whose products are exact. A small one may be 1 too large, a large one never is.
    const double quotient = r / step;
    const double large = float_of((bits_of(quotient) - 1) & 0xfffffffff8000000u);
    const double whole = quotient < 0x1p26 ? __builtin_elementwise_trunc(quotient) : large;
    const Double2 back = exact_product(whole, step);
    const double next = (r - back.hi) - back.lo;
    r = next < 0 ? next + step : next;
  }
  return r;
}
GX_INLINE double fmod_of(double a, double b) {
  const double x = absolute(a), y = absolute(b);
  if (!(x < kInf64) || !(y > 0)) return kNan64;
  return with_sign(fmod_rounds(x, y), a);
}
GX_INLINE float fmod_of(float a, float b) {
  return static_cast<float>(fmod_of(static_cast<double>(a), static_cast<double>(b)));
}
template <class T>
GX_INLINE T float_remainder(T a, T b) {
  const T rest = fmod_of(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
template <class T>
GX_INLINE T float_floor_divide(T a, T b) {
  const T rest = fmod_of(a, b);
  T quotient = (a - rest) / b;
  quotient = rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
  T whole = __builtin_elementwise_floor(quotient);
  whole = quotient - whole > static_cast<T>(0.5) ? whole + 1 : whole;
  whole = quotient == 0 ? with_sign(T{0}, a / b) : whole;
  return b == 0 ? a / b : whole;
}

}  // namespace graphex::scalar
