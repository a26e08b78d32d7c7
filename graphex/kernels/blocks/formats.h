// How a tile's block becomes quads: four consecutive k of each of the tile's rows, as bytes. A group is 32 of k, eight
// quads, taken in pairs; a row's weight is scale * (byte - kOffset) + minimum.
//
// Formats of one group a block have halves as scale and minimum. Grouped ones have those a block, and small integers
// that multiply them for each group.
#pragma once

#include "graphex/base/block_format.h"
#include "graphex/kernels/simd.h"

namespace graphex::kernels::blocks {

using Quads = unsigned char __attribute__((ext_vector_type(32)));
using Words32 = uint32_t __attribute__((ext_vector_type(8)));
using Rows = Floats<kTileRows>;
using Factors = Ints<kTileRows>;

inline constexpr int kPairs = 4;  // of quads in a group

// Shifts the 32-bit lanes; bits that cross into a neighbouring byte are masked off by the caller.
GX_INLINE Quads shift_right(Quads v, int by) {
  return __builtin_bit_cast(Quads, __builtin_bit_cast(Words32, v) >> static_cast<uint32_t>(by));
}
GX_INLINE Quads shift_left(Quads v, int by) {
  return __builtin_bit_cast(Quads, __builtin_bit_cast(Words32, v) << static_cast<uint32_t>(by));
}
GX_INLINE Quads quad_at(const char* from, int64_t index) { return load<Quads>(from + index * int64_t(sizeof(Quads))); }
GX_INLINE Quads nibbles(Quads v, bool high) { return (high ? shift_right(v, 4) : v) & 15; }
GX_INLINE Rows halves_at(const char* from) { return from_f16<kTileRows>(load<Halves<kTileRows>>(from)); }

// What formats share: a block is kSteps steps of kGroups groups each. kSum: pairs of quads whose products sum in 16
// bits.
template <int kElements, int kGroupsOfStep, int kTileBytes>
struct Block {
  static constexpr int64_t kBytes = kTileBytes;
  static constexpr int kGroups = kGroupsOfStep;
  static constexpr int kSteps = kElements / 32 / kGroupsOfStep;
  static constexpr int kOffset = 0;
  static constexpr bool kGrouped = kElements > 32, kMinimum = false, kSigned = false;
  static constexpr int kScales = 1;                         // of a group
  static constexpr int kStreams = kElements == 32 ? 2 : 1;  // tiles side by side for one row of X
  static constexpr int64_t quad_of(int64_t pair, int half) { return 2 * pair + half; }
  GX_INLINE Rows scale(const char* block) { return halves_at(block); }
  GX_INLINE Rows minimum(const char* block) { return halves_at(block + 16); }
};

// A block of 32 nibbles: four of k in the low halves, four sixteen further in the high ones.
template <int kTileBytes, int kHeader>
struct Nibbles : Block<32, 1, kTileBytes> {
  static constexpr int kSum = 4;
  static constexpr int64_t quad_of(int64_t pair, int half) { return pair + 4 * half; }
  GX_INLINE Quads quad(const char* block, int64_t, int, int64_t pair, int half) {
    return nibbles(quad_at(block + kHeader, pair), half == 1);
  }
};

struct Q4_0 : Nibbles<144, 16> {
  static constexpr int kOffset = 8;
};

struct Q4_1 : Nibbles<160, 32> {
  static constexpr bool kMinimum = true;
};

struct Q8_0 : Block<32, 1, 272> {
  static constexpr bool kSigned = true;
  static constexpr int kSum = 4;
  GX_INLINE Quads quad(const char* block, int64_t, int, int64_t pair, int half) {
    return quad_at(block + 16, 2 * pair + half);
  }
};

// The factors of Q4_K and Q5_K: 6 bits each, in twelve bytes a row. Those of groups 0 to 3 lie in the low bits of bytes
// 0 to 3 (scale) and 4 to 7 (minimum); the high bits there and bytes 8 to 11 make those of groups 4 to 7.
template <int kTileBytes>
struct SixBits : Block<256, 2, kTileBytes> {
  static constexpr bool kMinimum = true;
  struct Unpacked {
    Quads scales[2], minima[2];  // row after row, group after group
  };
  GX_INLINE Unpacked unpack(const char* block) {
    const Quads scales = quad_at(block + 32, 0), minima = quad_at(block + 32, 1), low = quad_at(block + 32, 2);
    const auto top = [](Quads v) { return shift_right(v & 0xc0, 2); };
    return {{scales & 63, (low & 15) | top(scales)}, {minima & 63, nibbles(low, true) | top(minima)}};
  }
  GX_INLINE Factors factors_at(const Quads* bytes, int64_t group) {
    using Bytes8 = unsigned char __attribute__((ext_vector_type(8)));
    return __builtin_convertvector(load<Bytes8>(reinterpret_cast<const char*>(bytes) + 8 * group), Factors);
  }
  GX_INLINE Factors scale_factors(const Unpacked& from, const char*, int64_t group, int) {
    return factors_at(from.scales, group);
  }
  GX_INLINE Factors minimum_factors(const Unpacked& from, int64_t group) { return factors_at(from.minima, group); }
};

struct Q4_K : SixBits<1152> {
  static constexpr int kSum = 4;
  GX_INLINE Quads quad(const char* block, int64_t step, int group, int64_t pair, int half) {
    return nibbles(quad_at(block + 128, 8 * step + 2 * pair + half), group == 1);
  }
};

struct Q5_K : SixBits<1408> {
  static constexpr int kSum = 2;
  GX_INLINE Quads quad(const char* block, int64_t step, int group, int64_t pair, int half) {
    const int64_t q = 2 * pair + half;
    const Quads high = shift_right(quad_at(block + 128, q), static_cast<int>(2 * step + group));
    return nibbles(quad_at(block + 384, 8 * step + q), group == 1) | shift_left(high & 1, 4);
  }
};

struct Q6_K : Block<256, 4, 1680> {
  static constexpr int kOffset = 32, kSum = 1, kScales = 2;
  struct Unpacked {};
  GX_INLINE Quads quad(const char* block, int64_t step, int group, int64_t pair, int half) {
    const int64_t q = 2 * pair + half;
    const Quads low = nibbles(quad_at(block + 656, 16 * step + 8 * (group % 2) + q), group >= 2);
    const Quads high = shift_right(quad_at(block + 144, 8 * step + q), 2 * group) & 3;
    return low | shift_left(high, 4);
  }
  GX_INLINE Unpacked unpack(const char*) { return {}; }
  GX_INLINE Factors scale_factors(const Unpacked&, const char* block, int64_t group, int part) {
    return __builtin_convertvector(load<Bytes<kTileRows>>(block + 16 + 8 * (2 * group + part)), Factors);
  }
};

}  // namespace graphex::kernels::blocks
