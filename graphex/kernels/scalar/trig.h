// sin, cos and tan, right for every finite argument. Floats multiply by a table of 2^e * 2 / pi modulo 4 in two doubles
// (two gathers, no branch) and round once at the end: 0.51 ULP. Doubles subtract multiples of pi / 2 below 2^20 and
// multiply by 192 bits of 2 / pi above; that branch keeps their loops scalar.
#pragma once

#include "graphex/kernels/scalar/bits.h"

namespace graphex::scalar {

// 2 / pi in binary, after 64 zeros.
constexpr uint64_t kTwoOverPi[] = {
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
};
using Wide = unsigned __int128;

// 64 bits of it, from bit `offset` of the table on.
constexpr __attribute__((always_inline)) uint64_t two_over_pi(int offset) {
  const int word = offset >> 6, shift = offset & 63;
  return kTwoOverPi[word] << shift | kTwoOverPi[word + 1] >> 1 >> (63 - shift);
}

// x = quadrant * pi / 2 + r, |r| <= pi / 4 and a little; r = hi + lo.
struct Angle {
  uint64_t quadrant;
  double hi, lo;
};

GX_INLINE Angle reduce_huge(double x) {
  const uint64_t bits = bits_of(x);
  const int offset = static_cast<int>(bits >> 52 & 0x7ff) - 1023 - 52 - 2 + 64;
  const uint64_t m = (bits & 0xfffffffffffff) | uint64_t{1} << 52;
  const Wide product = (static_cast<Wide>(m * two_over_pi(offset)) << 64) +
                       static_cast<Wide>(m) * two_over_pi(offset + 64) +
                       (static_cast<Wide>(m) * two_over_pi(offset + 128) >> 64);
  const Wide rounded = product + (Wide{1} << 125);
  const Wide rest = product - (rounded >> 126 << 126);
  // The rest of the turn in two doubles of 53 bits, times pi / 2.
  const auto top = static_cast<double>(static_cast<int64_t>(static_cast<__int128>(rest) >> 75));
  const auto low = static_cast<double>(static_cast<int64_t>(rest >> 22) & 0x1fffffffffffff);
  const Double2 turn = exact_sum(top * 0x1p-51, low * 0x1p-104);
  const Double2 r = exact_product(turn.hi, 0x1.921fb54442d18p+0);
  const double r_low = r.lo + (turn.hi * 0x1.1a62633145c07p-54 + turn.lo * 0x1.921fb54442d18p+0);
  const auto quadrant = static_cast<uint64_t>(rounded >> 126);
  return bits >> 63 ? Angle{-quadrant, -r.hi, -r_low} : Angle{quadrant, r.hi, r_low};
}
GX_INLINE Angle reduce(double x) {
  if (absolute(x) >= 0x1p20 && absolute(x) < kInf64) [[unlikely]]
    return reduce_huge(x);
  const Rounded64 n = round_small(x * 0x1.45f306dc9c883p-1);
  // The parts of pi / 2 have 33 bits: their products with n are exact.
  const double first = x - n.value * 0x1.921fb544p+0;
  const double part = n.value * 0x1.0b4611a6p-34;
  const double second = first - part;
  const double lost = (first - second) - part;
  const double rest = madd(n.value, -0x1.b839a252049c1p-104, lost) - n.value * 0x1.3198a2ep-69;
  const Double2 r = exact_sum(second, rest);
  return {n.number, r.hi, r.lo};
}
GX_INLINE double sin_kernel(double r, double lo) {
  const double z = r * r;
  const double p = poly(z, -0x1.5555555555555p-3, 0x1.111111111110bp-7, -0x1.a01a01a0189d5p-13, 0x1.71de3a5323161p-19,
                        -0x1.ae64527aacc27p-26, 0x1.61207f90c1340p-33, -0x1.aa9ba6d53f370p-41);
  return r + madd(r * z, p, lo);
}
GX_INLINE double cos_kernel(double r, double lo) {
  const double z = r * r, half = 0.5 * z, base = 1 - half;
  const double p = poly(z, 0x1.5555555555555p-5, -0x1.6c16c16c16c10p-10, 0x1.a01a01a018d01p-16, -0x1.27e4fb75edb13p-22,
                        0x1.1eed8c91bfd67p-29, -0x1.939323c2fa53fp-37, 0x1.aabc5c473cff2p-45);
  return base + (((1 - base) - half) + madd(z * z, p, -r * lo));
}
// sin(x + turn * pi / 2)
GX_INLINE double turned_sin(double x, uint64_t turn) {
  const Angle a = reduce(x);
  const uint64_t q = a.quadrant + turn;
  const double value = q & 1 ? cos_kernel(a.hi, a.lo) : sin_kernel(a.hi, a.lo);
  return q & 2 ? -value : value;
}
GX_INLINE double sin_of(double x) { return absolute(x) < 0x1p-27 ? x : turned_sin(x, 0); }
GX_INLINE double cos_of(double x) { return turned_sin(x, 1); }
GX_INLINE double tan_of(double x) {
  const Angle a = reduce(x);
  const double s = sin_kernel(a.hi, a.lo), c = cos_kernel(a.hi, a.lo);
  return absolute(x) < 0x1p-27 ? x : a.quadrant & 1 ? -c / s : s / c;
}

// 2^(e - 23) * 2 / pi modulo 4, from -2 to 2: `hi` has 29 bits, so that its product with a float's digits is exact.
struct TurnTable {
  double hi[128], lo[128];
};
constexpr TurnTable make_turn_table() {
  TurnTable table{};
  for (int e = 0; e < 128; ++e) {
    const auto bits = static_cast<__int128>(static_cast<Wide>(two_over_pi(39 + e)) << 64 | two_over_pi(103 + e));
    const __int128 hi = (bits + (__int128{1} << 98)) >> 99;
    table.hi[e] = static_cast<double>(hi) * 0x1p-27;
    table.lo[e] = static_cast<double>(bits - (hi << 99)) * 0x1p-126;
  }
  return table;
}
constexpr TurnTable kTurns = make_turn_table();

struct FloatAngle {
  uint64_t quadrant;
  double r;
};
GX_INLINE FloatAngle reduce(float x) {
  const int exponent = static_cast<int>(bits_of(x) >> 23 & 0xff) - 127;
  const int row = exponent < 0 ? 0 : exponent > 127 ? 127 : exponent;
  // A whole number from 2^1 on, below which nothing is cut off by the modulus.
  const double y = static_cast<double>(x) * float_of(static_cast<uint64_t>(1023 + 23 - row) << 52);
  const double turns = y * kTurns.hi[row];
  const Rounded64 n = round_small(turns);
  return {n.number, ((turns - n.value) + y * kTurns.lo[row]) * 0x1.921fb54442d18p+0};
}
GX_INLINE double short_sin(double r, double z) {
  return madd(r * z,
              poly(z, -0x1.5555554c61a14p-3, 0x1.111108556c692p-7, -0x1.a00f68f964c14p-13, 0x1.6ccbb3e7ab594p-19), r);
}
GX_INLINE double short_cos(double z) {
  return madd(z * z,
              poly(z, 0x1.5555554f11410p-5, -0x1.6c16b8562bf82p-10, 0x1.a010f3b034905p-16, -0x1.24218f1eb46bdp-22),
              madd(z, -0.5, 1.0));
}
GX_INLINE float turned_sin(float x, uint64_t turn) {
  const FloatAngle a = reduce(x);
  const uint64_t q = a.quadrant + turn;
  const double z = a.r * a.r, value = q & 1 ? short_cos(z) : short_sin(a.r, z);
  return static_cast<float>(float_of(bits_of(value) ^ (q & 2) << 62));
}
GX_INLINE float sin_of(float x) { return x == 0 ? x : turned_sin(x, 0); }  // -0 stays
GX_INLINE float cos_of(float x) { return turned_sin(x, 1); }
GX_INLINE float tan_of(float x) {
  const FloatAngle a = reduce(x);
  const double z = a.r * a.r, s = short_sin(a.r, z), c = short_cos(z);
  const bool odd = a.quadrant & 1;
  return x == 0 ? x : static_cast<float>((odd ? -c : s) / (odd ? s : c));
}

}  // namespace graphex::scalar
