// The scalar functions that generated loops call: gx_<name>_<type>, one for each operator of base/scalar_ops.def and
// each compute type that it makes sense for (floats of 16 bits are computed in f32). They are inlined into the loop and
// widened by the vectoriser. Semantics are PyTorch's on a CPU.
#include "graphex/kernels/scalar/integer.h"
#include "graphex/kernels/scalar/math32.h"
#include "graphex/kernels/scalar/math64.h"
#include "graphex/kernels/scalar/power.h"
#include "graphex/kernels/scalar/trig.h"

#pragma clang diagnostic ignored "-Wbool-operation"

namespace {

using namespace graphex::scalar;
using f32 = float;
using f64 = double;
using i8 = int8_t;
using u8 = uint8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;

// Arithmetic that wraps around.
using u64 = uint64_t;

}  // namespace

#define GX_EXPORT extern "C" __attribute__((always_inline))
#define GX_UNARY(name, T, ...) \
  GX_EXPORT T gx_##name##_##T(T a) { return static_cast<T>(__VA_ARGS__); }
#define GX_BINARY(name, T, ...) \
  GX_EXPORT T gx_##name##_##T(T a, T b) { return static_cast<T>(__VA_ARGS__); }
#define GX_UNARY_PRED(name, T, ...) \
  GX_EXPORT bool gx_##name##_##T(T a) { return __VA_ARGS__; }
#define GX_BINARY_PRED(name, T, ...) \
  GX_EXPORT bool gx_##name##_##T(T a, T b) { return __VA_ARGS__; }

#define GX_FLOATS(X, name, ...) X(name, f32, __VA_ARGS__) X(name, f64, __VA_ARGS__)
#define GX_INTS(X, name, ...) \
  X(name, i8, __VA_ARGS__)    \
  X(name, u8, __VA_ARGS__) X(name, i16, __VA_ARGS__) X(name, i32, __VA_ARGS__) X(name, i64, __VA_ARGS__)
#define GX_INTS_AND_BOOL(X, name, ...) GX_INTS(X, name, __VA_ARGS__) X(name, bool, __VA_ARGS__)
#define GX_NUMBERS(X, name, ...) GX_FLOATS(X, name, __VA_ARGS__) GX_INTS(X, name, __VA_ARGS__)
#define GX_ALL(X, name, ...) GX_NUMBERS(X, name, __VA_ARGS__) X(name, bool, __VA_ARGS__)

// Every type.
GX_ALL(GX_BINARY_PRED, eq, a == b)
GX_ALL(GX_BINARY_PRED, ne, a != b)
GX_ALL(GX_BINARY_PRED, lt, a < b)
GX_ALL(GX_BINARY_PRED, le, a <= b)
GX_ALL(GX_BINARY_PRED, gt, a > b)
GX_ALL(GX_BINARY_PRED, ge, a >= b)
GX_ALL(GX_BINARY_PRED, logical_and, (a != 0) & (b != 0))
GX_ALL(GX_BINARY_PRED, logical_or, (a != 0) | (b != 0))
GX_ALL(GX_BINARY_PRED, logical_xor, (a != 0) != (b != 0))
GX_ALL(GX_UNARY_PRED, logical_not, a == 0)
#define GX_WHERE(name, T, ...) \
  GX_EXPORT T gx_where_##T(bool c, T a, T b) { return c ? a : b; }
GX_ALL(GX_WHERE, where, )

// Floats.
GX_FLOATS(GX_UNARY, abs, absolute(a))
GX_FLOATS(GX_UNARY, neg, -a)
GX_FLOATS(GX_UNARY, ceil, __builtin_elementwise_ceil(a))
GX_FLOATS(GX_UNARY, floor, __builtin_elementwise_floor(a))
GX_FLOATS(GX_UNARY, round, __builtin_elementwise_roundeven(a))
GX_FLOATS(GX_UNARY, trunc, __builtin_elementwise_trunc(a))
GX_FLOATS(GX_UNARY, sqrt, square_root(a))
GX_FLOATS(GX_UNARY, rsqrt, 1 / square_root(a))
GX_FLOATS(GX_UNARY, reciprocal, 1 / a)
GX_FLOATS(GX_UNARY, relu, a < 0 ? 0 : a)
GX_FLOATS(GX_UNARY, sign, (a > 0 ? 1 : 0) - (a < 0 ? 1 : 0))
GX_FLOATS(GX_UNARY_PRED, isnan, a != a)
GX_FLOATS(GX_UNARY_PRED, isinf, absolute(a) == static_cast<decltype(a)>(kInf32))
GX_FLOATS(GX_UNARY, acos, acos_of(a))
GX_FLOATS(GX_UNARY, asin, asin_of(a))
GX_FLOATS(GX_UNARY, atan, atan_of(a))
GX_FLOATS(GX_UNARY, cos, cos_of(a))
GX_FLOATS(GX_UNARY, cosh, cosh_of(a))
GX_FLOATS(GX_UNARY, erf, erf_of(a))
GX_FLOATS(GX_UNARY, exp, exp_of(a))
GX_FLOATS(GX_UNARY, exp2, exp2_of(a))
GX_FLOATS(GX_UNARY, expm1, expm1_of(a))
GX_FLOATS(GX_UNARY, gelu, gelu_of(a))
GX_FLOATS(GX_UNARY, gelu_tanh, gelu_tanh_of(a))
GX_FLOATS(GX_UNARY, log, log_of(a))
GX_FLOATS(GX_UNARY, log10, log10_of(a))
GX_FLOATS(GX_UNARY, log1p, log1p_of(a))
GX_FLOATS(GX_UNARY, log2, log2_of(a))
GX_FLOATS(GX_UNARY, sigmoid, sigmoid_of(a))
GX_FLOATS(GX_UNARY, silu, silu_of(a))
GX_FLOATS(GX_UNARY, sin, sin_of(a))
GX_FLOATS(GX_UNARY, sinh, sinh_of(a))
GX_FLOATS(GX_UNARY, tan, tan_of(a))
GX_FLOATS(GX_UNARY, tanh, tanh_of(a))
GX_FLOATS(GX_BINARY, add, a + b)
GX_FLOATS(GX_BINARY, sub, a - b)
GX_FLOATS(GX_BINARY, mul, a* b)
GX_FLOATS(GX_BINARY, div, a / b)
GX_FLOATS(GX_BINARY, trunc_divide, __builtin_elementwise_trunc(a / b))
GX_FLOATS(GX_BINARY, floor_divide, float_floor_divide(a, b))
GX_FLOATS(GX_BINARY, remainder, float_remainder(a, b))
GX_FLOATS(GX_BINARY, fmod, fmod_of(a, b))
GX_FLOATS(GX_BINARY, pow, pow_of(a, b))
GX_FLOATS(GX_BINARY, atan2, atan2_of(a, b))
GX_FLOATS(GX_BINARY, maximum, a != a ? a : a > b ? a : b)
GX_FLOATS(GX_BINARY, minimum, a != a ? a : a < b ? a : b)
GX_FLOATS(GX_BINARY, fmax, b != b ? a : a >= b ? a : b)  // of equal zeros the first, as eager
GX_FLOATS(GX_BINARY, fmin, b != b ? a : a <= b ? a : b)

// Integers. Sums, differences and products wrap around.
GX_INTS(GX_UNARY, abs, a < 0 ? 0 - static_cast<u64>(a) : static_cast<u64>(a))
GX_INTS(GX_UNARY, neg, 0 - static_cast<u64>(a))
GX_INTS(GX_UNARY, ceil, a)
GX_INTS(GX_UNARY, floor, a)
GX_INTS(GX_UNARY, round, a)
GX_INTS(GX_UNARY, trunc, a)
GX_INTS(GX_UNARY, relu, a < 0 ? 0 : a)
GX_INTS(GX_UNARY, sign, (a > 0) - (a < 0))
GX_INTS(GX_UNARY, bitwise_not, ~a)
GX_INTS(GX_UNARY_PRED, isnan, (static_cast<void>(a), false))
GX_INTS(GX_UNARY_PRED, isinf, (static_cast<void>(a), false))
GX_INTS(GX_BINARY, add, static_cast<u64>(a) + static_cast<u64>(b))
GX_INTS(GX_BINARY, sub, static_cast<u64>(a) - static_cast<u64>(b))
GX_INTS(GX_BINARY, mul, static_cast<u64>(a) * static_cast<u64>(b))
GX_INTS(GX_BINARY, div, trunc_divide_of(a, b))
GX_INTS(GX_BINARY, trunc_divide, trunc_divide_of(a, b))
GX_INTS(GX_BINARY, floor_divide, floor_divide_of(a, b))
GX_INTS(GX_BINARY, remainder, remainder_of(a, b))
GX_INTS(GX_BINARY, fmod, fmod_of(a, b))
GX_INTS(GX_BINARY, pow, pow_of(a, b))
GX_INTS(GX_BINARY, maximum, a > b ? a : b)
GX_INTS(GX_BINARY, minimum, a < b ? a : b)
GX_INTS(GX_BINARY, fmax, a > b ? a : b)
GX_INTS(GX_BINARY, fmin, a < b ? a : b)
GX_INTS(GX_BINARY, shift_left, shift_left_of(a, b))
GX_INTS(GX_BINARY, shift_right, shift_right_of(a, b))
GX_INTS_AND_BOOL(GX_BINARY, bitwise_and, a& b)
GX_INTS_AND_BOOL(GX_BINARY, bitwise_or, a | b)
GX_INTS_AND_BOOL(GX_BINARY, bitwise_xor, a ^ b)

// Truth values: a sum is "or", a product "and".
GX_UNARY(abs, bool, a)
GX_UNARY(sign, bool, a)
GX_UNARY(relu, bool, a)
GX_UNARY(bitwise_not, bool, !a)
GX_BINARY(add, bool, a | b)
GX_BINARY(mul, bool, a& b)
GX_BINARY(maximum, bool, a | b)
GX_BINARY(minimum, bool, a& b)
GX_BINARY(fmax, bool, a | b)
GX_BINARY(fmin, bool, a& b)

// Storage of 16-bit floats. Rounding is to nearest even; NaN stays a quiet NaN.
GX_EXPORT f32 gx_from_bf16(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }
GX_EXPORT uint16_t gx_to_bf16(f32 x) {
  const uint32_t bits = bits_of(x);
  const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>((x != x ? 0x7fc00000 : rounded) >> 16);
}
#ifdef __F16C__
GX_EXPORT f32 gx_from_f16(uint16_t bits) { return static_cast<f32>(__builtin_bit_cast(_Float16, bits)); }
GX_EXPORT uint16_t gx_to_f16(f32 x) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(x)); }
#else
GX_EXPORT f32 gx_from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fff;
  const uint32_t normal = (rest << 13) + (uint32_t{112} << 23);
  const uint32_t special = normal + (uint32_t{112} << 23);
  const f32 denormal = static_cast<f32>(static_cast<int32_t>(rest)) * 0x1p-24f;
  return float_of(sign | (rest < 0x400 ? bits_of(denormal) : rest >= 0x7c00 ? special : normal));
}
GX_EXPORT uint16_t gx_to_f16(f32 x) {
  const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  // Below 2^-14 the sum with 1/2 has a last place of 2^-24, the step of the denormals.
  const uint32_t denormal = bits_of(float_of(rest) + 0.5f) - bits_of(0.5f);
  const uint32_t normal = (rest - (uint32_t{112} << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
  const uint32_t finite = rest < uint32_t{113} << 23 ? denormal : normal;
  const uint32_t value = rest >= uint32_t{143} << 23 ? 0x7c00 : finite > 0x7c00 ? 0x7c00 : finite;
  return static_cast<uint16_t>(sign | (rest > 0x7f800000 ? 0x7e00 : value));
}
#endif
