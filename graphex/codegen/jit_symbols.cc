#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "graphex/codegen/jit.h"

namespace graphex::codegen {
namespace {

// `value` shifted right by `shift`, rounded to nearest, ties to even.
uint64_t shift_rounded(uint64_t value, int shift) {
  if (shift > 63) return 0;
  if (shift <= 0) return value << -shift;
  const uint64_t kept = value >> shift;
  const uint64_t rest = value & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1)));
}

// A double rounded once to a 16-bit float of `kExponent` exponent bits and `kMantissa` mantissa bits.
template <int kExponent, int kMantissa>
uint16_t narrow(double value) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint16_t kInfinity = ((1 << kExponent) - 1) << kMantissa;
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 48 & 0x8000);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  if (std::isnan(value)) return sign | kInfinity | 1 << (kMantissa - 1);
  if (exponent > kBias) return sign | kInfinity;
  const uint64_t mantissa = (bits & 0xfffffffffffff) | (exponent > -1023 ? uint64_t{1} << 52 : 0);
  const bool subnormal = exponent < 1 - kBias;
  const uint64_t kept = shift_rounded(mantissa, 52 - kMantissa + (subnormal ? 1 - kBias - exponent : 0));
  // The implicit bit carries into the exponent, also when rounding overflowed the mantissa.
  const uint64_t result = subnormal ? kept : kept + (static_cast<uint64_t>(exponent + kBias - 1) << kMantissa);
  return static_cast<uint16_t>(sign | result);
}

float widen_half(_Float16 half) {
  const auto bits = std::bit_cast<uint16_t>(half);
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude < 0x400) {  // never a denormal float on the way: the caller may flush those
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (uint32_t{112} << 23)));
}

_Float16 half_from_float(float value) { return std::bit_cast<_Float16>(narrow<5, 10>(value)); }
_Float16 half_from_double(double value) { return std::bit_cast<_Float16>(narrow<5, 10>(value)); }
// A __bf16 travels as a _Float16 does: 16 bits in xmm0.
_Float16 bfloat_from_float(float value) { return std::bit_cast<_Float16>(narrow<8, 7>(value)); }
_Float16 bfloat_from_double(double value) { return std::bit_cast<_Float16>(narrow<8, 7>(value)); }

template <class Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

std::span<const RuntimeSymbol> runtime_symbols() {
  static const RuntimeSymbol symbols[] = {
      {"memcpy", address(&::memcpy)},
      {"memmove", address(&::memmove)},
      {"memset", address(&::memset)},
      {"fma", address<double(double, double, double)>(&::fma)},
      {"fmaf", address<float(float, float, float)>(&::fmaf)},
      {"fmod", address<double(double, double)>(&::fmod)},
      {"fmodf", address<float(float, float)>(&::fmodf)},
      {"__extendhfsf2", address(&widen_half)},
      {"__truncsfhf2", address(&half_from_float)},
      {"__truncdfhf2", address(&half_from_double)},
      {"__truncsfbf2", address(&bfloat_from_float)},
      {"__truncdfbf2", address(&bfloat_from_double)},
  };
  return symbols;
}

}  // namespace graphex::codegen
