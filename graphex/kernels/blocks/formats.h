// How a block of tiles becomes quads: four consecutive k of each of the tiles' rows, as bytes. A group is 32 of k,
// eight quads, taken in pairs; a row's weight is scale * (byte - kOffset) + minimum, scale and minimum of its group.
//
// Formats of one group a block have halves as scale and minimum. Grouped ones have those a block, and small integers
// that multiply them for each group: products of at most 19 bits, exact.
#pragma once

#include "graphex/base/block_format.h"
#include "graphex/kernels/simd.h"

namespace graphex::kernels::blocks {

// Tiles whose rows are lanes of one vector.
#if defined(__AVX512F__)
inline constexpr int kAbreast = 2;
#else
inline constexpr int kAbreast = 1;
#endif
inline constexpr int kRows = kAbreast * kTileRows;

using Quads = unsigned char __attribute__((ext_vector_type(4 * kRows)));
using Rows = Floats<kRows>;
inline constexpr int kPairs = 4;  // of quads in a group

// Where the tiles of a vector are read.
struct Tiles {
  const char* at[kAbreast];

  inline __attribute__((always_inline)) Tiles operator+(int64_t bytes) const {
    Tiles moved = *this;
#pragma unroll
    for (const char*& each : moved.at) each += bytes;
    return moved;
  }
};

// Eight elements of each tile at `from`, one tile after the other.
template <class V>
GX_INLINE auto beside(Tiles from) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(load<V>(from.at[0]), load<V>(from.at[1]), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
                                 14, 15);
#else
  return load<V>(from.at[0]);
#endif
}
// The rows of one tile.
template <int kTile>
GX_INLINE Floats<kTileRows> rows_of(Rows v) {
  constexpr int i = kTile * kTileRows;
  return __builtin_shufflevector(v, v, i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7);
}

// Shifts the 32-bit lanes; bits that cross into a neighbouring byte are masked off by the caller.
GX_INLINE Quads shift_right(Quads v, int by) {
  return __builtin_bit_cast(Quads, __builtin_bit_cast(Words<kRows>, v) >> static_cast<uint32_t>(by));
}
GX_INLINE Quads shift_left(Quads v, int by) {
  return __builtin_bit_cast(Quads, __builtin_bit_cast(Words<kRows>, v) << static_cast<uint32_t>(by));
}
GX_INLINE Quads quad_at(Tiles from, int64_t index) {
  return __builtin_bit_cast(Quads, beside<Words<kTileRows>>(from + index * 4 * kTileRows));
}
GX_INLINE Quads nibbles(Quads v, bool high) { return (high ? shift_right(v, 4) : v) & 15; }
GX_INLINE Rows halves_at(Tiles from) { return from_f16<kRows>(beside<Halves<kTileRows>>(from)); }
template <class Unit>
GX_INLINE Rows to_rows(Unit bytes) {
  return __builtin_convertvector(__builtin_convertvector(bytes, Ints<kRows>), Rows);
}
// Four units of eight bytes of each tile, unit after unit.
GX_INLINE Quads by_units(Quads v) {
#if defined(__AVX512F__)
  using Units = uint64_t __attribute__((ext_vector_type(8)));
  const Units units = __builtin_bit_cast(Units, v);
  return __builtin_bit_cast(Quads, __builtin_shufflevector(units, units, 0, 4, 1, 5, 2, 6, 3, 7));
#else
  return v;
#endif
}

// What formats share: a block is kSteps steps of kGroups groups each. kSum: pairs of quads whose products sum in 16
// bits.
template <int kElements, int kGroupsOfStep, int kTileBytes>
struct Block {
  using Cursor = Tiles;
  struct Unpacked {};  // what the groups of a block share
  static constexpr int64_t kBytes = kTileBytes;
  static constexpr int kGroups = kGroupsOfStep;
  static constexpr int kSteps = kElements / 32 / kGroupsOfStep;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = false, kSigned = false;
  static constexpr int kScales = 1;                                          // of a group
  static constexpr int kStreams = kElements == 32 && kAbreast == 1 ? 2 : 1;  // vectors side by side for one row of X
  // Panels of rows of X that meet a block as it is; more pay for decoding it once.
  static constexpr int64_t kDirectPanels = kAbreast == 1 ? 12 : kElements == 32 ? 4 : 1;
  static constexpr int64_t quad_of(int64_t pair, int half) { return 2 * pair + half; }
  GX_INLINE Unpacked unpack(Tiles) { return {}; }
  GX_INLINE Rows scale(const Unpacked&, Tiles block, int64_t, int) { return halves_at(block); }
  GX_INLINE Rows minimum(const Unpacked&, Tiles block, int64_t) { return halves_at(block + 16); }
};

// A block of 32 nibbles: four of k in the low halves, four sixteen further in the high ones.
template <int kTileBytes, int kHeader>
struct Nibbles : Block<32, 1, kTileBytes> {
  static constexpr int kSum = 4;
  static constexpr int64_t quad_of(int64_t pair, int half) { return pair + 4 * half; }
  GX_INLINE Quads quad(Tiles block, int64_t, int, int64_t pair, int half) {
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
  static constexpr int kSum = 4;
#if defined(__AVX512VNNI__)  // which multiplies unsigned by signed bytes
  static constexpr int kOffset = 128;
#else
  static constexpr bool kSigned = true;
#endif
  GX_INLINE Quads quad(Tiles block, int64_t, int, int64_t pair, int half) {
    return quad_at(block + 16, 2 * pair + half) ^ kOffset;
  }
};

// The factors of Q4_K and Q5_K: 6 bits each, in twelve bytes a row. Those of groups 0 to 3 lie in the low bits of bytes
// 0 to 3 (scale) and 4 to 7 (minimum); the high bits there and bytes 8 to 11 make those of groups 4 to 7.
template <int kTileBytes>
struct SixBits : Block<256, 2, kTileBytes> {
  static constexpr bool kMinimum = true;
  struct Unpacked {
    Quads scales[2], minima[2];  // group after group, four a vector
    Rows scale, minimum;
  };
  GX_INLINE Unpacked unpack(Tiles block) {
    const Quads scales = quad_at(block + 32, 0), minima = quad_at(block + 32, 1), low = quad_at(block + 32, 2);
    const auto top = [](Quads v) { return shift_right(v & 0xc0, 2); };
    return {{by_units(scales & 63), by_units((low & 15) | top(scales))},
            {by_units(minima & 63), by_units(nibbles(low, true) | top(minima))},
            halves_at(block),
            -halves_at(block + 16)};
  }
  GX_INLINE Rows factors_at(const Quads* from, int64_t group) {
    using Unit = unsigned char __attribute__((ext_vector_type(kRows)));
    return to_rows(load<Unit>(reinterpret_cast<const char*>(from) + kRows * group));
  }
  GX_INLINE Rows scale(const Unpacked& from, Tiles, int64_t group, int) {
    return factors_at(from.scales, group) * from.scale;
  }
  GX_INLINE Rows minimum(const Unpacked& from, Tiles, int64_t group) {
    return factors_at(from.minima, group) * from.minimum;
  }
};

struct Q4_K : SixBits<1152> {
  static constexpr int kSum = 4;
  GX_INLINE Quads quad(Tiles block, int64_t step, int group, int64_t pair, int half) {
    return nibbles(quad_at(block + 128, 8 * step + 2 * pair + half), group == 1);
  }
};

struct Q5_K : SixBits<1408> {
  static constexpr int kSum = 2;
  GX_INLINE Quads quad(Tiles block, int64_t step, int group, int64_t pair, int half) {
    const int64_t q = 2 * pair + half;
    const Quads high = shift_right(quad_at(block + 128, q), static_cast<int>(2 * step + group));
    return nibbles(quad_at(block + 384, 8 * step + q), group == 1) | shift_left(high & 1, 4);
  }
};

struct Q6_K : Block<256, 4, 1680> {
  static constexpr int kOffset = 32, kSum = 1, kScales = 2;
  struct Unpacked {
    Rows scale;
  };
  GX_INLINE Quads quad(Tiles block, int64_t step, int group, int64_t pair, int half) {
    const int64_t q = 2 * pair + half;
    const Quads low = nibbles(quad_at(block + 656, 16 * step + 8 * (group % 2) + q), group >= 2);
    const Quads high = shift_right(quad_at(block + 144, 8 * step + q), 2 * group) & 3;
    return low | shift_left(high, 4);
  }
  GX_INLINE Unpacked unpack(Tiles block) { return {halves_at(block)}; }
  GX_INLINE Rows scale(const Unpacked& from, Tiles block, int64_t group, int part) {
    using Unit = signed char __attribute__((ext_vector_type(kTileRows)));
    return to_rows(beside<Unit>(block + 16 + kTileRows * (2 * group + part))) * from.scale;
  }
};

}  // namespace graphex::kernels::blocks
