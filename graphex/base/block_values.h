// Blocks of weights (block_format.h), value by value: the definition of the formats, and the order of tiles. For
// references, tests and loading; kernels have faster ways.
#pragma once

#include <cmath>
#include <cstring>

#include "graphex/base/block_format.h"

namespace graphex {

inline double half_at(const uint8_t* from) {
  const int bits = from[0] | from[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

// The scale (which = 0) or minimum (1) of a group of Q4_K and Q5_K, 6 bits.
inline int six_bits(const uint8_t* packed, int group, int which) {
  if (group < 4) return packed[4 * which + group] & 63;
  const int low = packed[group + 4] >> 4 * which & 15;
  return low | packed[4 * which + group - 4] >> 6 << 4;
}

// Weight i of a row's block; exact.
inline double block_value(const BlockFormat& format, const uint8_t* block, int i) {
  const auto nibble = [&](const uint8_t* from, int at) { return from[at % 32 % 16] >> (at % 32 >= 16 ? 4 : 0) & 15; };
  const double d = half_at(block);
  const int group = i / 32, at = i % 32;
  const auto grouped = [&](int q) {
    return d * six_bits(block + 4, group, 0) * q - half_at(block + 2) * six_bits(block + 4, group, 1);
  };
  const auto chunk = [&](const uint8_t* values) { return values[group / 2 * 32 + at] >> group % 2 * 4 & 15; };
  switch (format.id) {
    case kQ4_0:
      return d * (nibble(block + 2, i) - 8);
    case kQ4_1:
      return d * nibble(block + 4, i) + half_at(block + 2);
    case kQ8_0:
      return d * static_cast<int8_t>(block[2 + i]);
    case kQ4_K:
      return grouped(chunk(block + 16));
    case kQ5_K:
      return grouped(chunk(block + 48) | (block[16 + at] >> group & 1) << 4);
    case kQ6_K: {
      const int half = i / 128, quarter = group % 4;
      const int low = block[64 * half + 32 * (quarter % 2) + at] >> quarter / 2 * 4 & 15;
      const int high = block[128 + 32 * half + at] >> 2 * quarter & 3;
      return half_at(block + 208) * static_cast<int8_t>(block[192 + i / 16]) * ((low | high << 4) - 32);
    }
  }
  return std::nan("");
}

// One tile of kTileRows rows from a file's rows, each of k weights; a null row is one of zeros.
inline void to_tile(const BlockFormat& format, int64_t k, const uint8_t* const rows[kTileRows], uint8_t* tile) {
  for (int64_t block = 0; block < k / format.elements; ++block)
    for (const BlockSection& section : format.sections)
      for (int at = 0; at < section.bytes; at += section.unit)
        for (int row = 0; row < kTileRows; ++row, tile += section.unit)
          if (rows[row])
            std::memcpy(tile, rows[row] + block * format.bytes + section.offset + at,
                        static_cast<size_t>(section.unit));
          else
            std::memset(tile, 0, static_cast<size_t>(section.unit));
}

// Block `index` of a tile's row, as in a file.
inline void from_tile(const BlockFormat& format, const uint8_t* tile, int64_t index, int row, uint8_t* block) {
  tile += index * format.bytes * kTileRows;
  for (const BlockSection& section : format.sections)
    for (int at = 0; at < section.bytes; at += section.unit, tile += section.unit * kTileRows)
      std::memcpy(block + section.offset + at, tile + row * section.unit, static_cast<size_t>(section.unit));
}

}  // namespace graphex
