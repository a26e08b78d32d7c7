// Rounded rows of X times tiles of W, in registers: R rows by C vectors of tiles.
#pragma once

#include "graphex/kernels/blocks/expanded.h"
#include "graphex/kernels/blocks/input.h"

namespace graphex::kernels::blocks {

#if defined(__AVX512VNNI__)
inline constexpr bool kUnrollsRows = true;
#else
// With more rows than one the loops over a group stay loops: unrolled, the sums would be regrouped and spill.
inline constexpr bool kUnrollsRows = false;
#endif

template <class Format>
struct Meeting {
  using Cursor = typename Format::Cursor;
  using Unpacked = typename Format::Unpacked;

  // Two quads that share a load, and R rows of X.
  template <int kGroup, int R, int C, class Sum>
  GX_INLINE void pair(const Cursor (&block)[C], int64_t step, int64_t index, const InputGroup* x, Sum (&sums)[R][C]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t q = Format::quad_of(index, half);
      Quads w[C];
#pragma unroll
      for (int column = 0; column < C; ++column) w[column] = Format::quad(block[column], step, kGroup, index, half);
#pragma unroll
      for (int row = 0; row < R; ++row) {
        const Quads input = broadcast(x[row].values + 4 * q);
#pragma unroll
        for (int column = 0; column < C; ++column)
          sums[row][column] = add_products<Format>(sums[row][column], w[column], input);
      }
    }
  }

  template <int kGroup, int kCount, int R, int C, class Sum>
  GX_INLINE void pairs(const Cursor (&block)[C], int64_t step, int64_t first, const InputGroup* x, Sum (&sums)[R][C]) {
    if constexpr (R == 1 || kUnrollsRows) {
#pragma unroll
      for (int index = 0; index < kCount; ++index) pair<kGroup>(block, step, first + index, x, sums);
    } else {
#pragma clang loop unroll(disable)
      for (int64_t index = first; index < first + kCount; ++index) pair<kGroup>(block, step, index, x, sums);
    }
  }

  // The products of a group's pairs of quads kFirst, kFirst + 1, ..; kCount of them.
  template <int kGroup, int kFirst, int kCount, int R, int C>
  GX_INLINE void dots(const Cursor (&block)[C], int64_t step, const InputGroup* x, Dots (&sums)[R][C]) {
    if constexpr (!kSumsInParts<Format>) {
      pairs<kGroup, kCount>(block, step, kFirst, x, sums);
    } else {
      constexpr int kParts = kCount < Format::kSum ? kCount : Format::kSum;
#pragma clang loop unroll(disable)
      for (int64_t from = kFirst; from < kFirst + kCount; from += kParts) {
        Part<Format> parts[R][C] = {};
        pairs<kGroup, kParts>(block, step, from, x, parts);
#pragma unroll
        for (int row = 0; row < R; ++row)
#pragma unroll
          for (int column = 0; column < C; ++column) sums[row][column] += total(parts[row][column]);
      }
    }
  }

  // What one scale of a group covers.
  template <int kGroup, int kPart, int R, int C>
  GX_INLINE void part(const Cursor (&block)[C], const Unpacked (&unpacked)[C], int64_t step, const InputGroup* x,
                      Rows (&totals)[R][C]) {
    constexpr int kCount = kPairs / Format::kScales;
    Dots sums[R][C];
#pragma unroll
    for (int row = 0; row < R; ++row)
#pragma unroll
      for (int column = 0; column < C; ++column)
        sums[row][column] = Dots(Format::kOffset != 0 ? x[row].offsets[kPart] : 0);
    dots<kGroup, kPart * kCount, kCount>(block, step, x, sums);
#pragma unroll
    for (int column = 0; column < C; ++column) {
      const Rows scale = Format::scale(unpacked[column], block[column], step * Format::kGroups + kGroup, kPart);
#pragma unroll
      for (int row = 0; row < R; ++row)
        totals[row][column] =
            multiply_add(__builtin_convertvector(sums[row][column], Rows), scale * x[row].scale, totals[row][column]);
    }
  }

  // The groups of a step from kGroup on.
  template <int kGroup, int R, int C>
  GX_INLINE void groups(const Cursor (&block)[C], const Unpacked (&unpacked)[C], int64_t step, const InputGroup* x,
                        Rows (&totals)[R][C]) {
    part<kGroup, 0>(block, unpacked, step, x, totals);
    if constexpr (Format::kScales == 2) part<kGroup, 1>(block, unpacked, step, x, totals);
    if constexpr (Format::kMinimum)
#pragma unroll
      for (int column = 0; column < C; ++column) {
        const Rows minimum = Format::minimum(unpacked[column], block[column], step * Format::kGroups + kGroup);
#pragma unroll
        for (int row = 0; row < R; ++row)
          totals[row][column] = multiply_add(minimum, Rows(x[row].scaled_sum), totals[row][column]);
      }
    if constexpr (kGroup + 1 < Format::kGroups) groups<kGroup + 1>(block, unpacked, step, x + R, totals);
  }

  GX_INLINE void ahead(Tiles block, int64_t distance) {
#pragma unroll
    for (int tile = 0; tile < kAbreast; ++tile)
#pragma unroll
      for (int64_t at = 0; at < Format::kBytes; at += 64) __builtin_prefetch(block.at[tile] + distance + at);
  }
  GX_INLINE void ahead(Decoded, int64_t) {}

  // The whole of k. A function of its own: its registers are allocated apart from its callers'.
  template <int R, int C>
  GX_NOINLINE void tile(int64_t k, const InputGroup* x, const Cursor (&from)[C], int64_t distance, Rows (&out)[R][C]) {
    constexpr int kGroups = Format::kGroups * Format::kSteps;
    Rows totals[R][C] = {};
    Cursor block[C];
#pragma unroll
    for (int column = 0; column < C; ++column) block[column] = from[column];
#pragma clang loop unroll(disable)
    for (const InputGroup* end = x + k / kBlockGroup * R; x < end; x += kGroups * R) {
      Unpacked unpacked[C];
#pragma unroll
      for (int column = 0; column < C; ++column) {
        ahead(block[column], distance);
        unpacked[column] = Format::unpack(block[column]);
      }
#pragma clang loop unroll(disable)
      for (int64_t step = 0; step < Format::kSteps; ++step)
        groups<0>(block, unpacked, step, x + step * Format::kGroups * R, totals);
#pragma unroll
      for (int column = 0; column < C; ++column) block[column] = block[column] + Format::kBytes;
    }
#pragma unroll
    for (int row = 0; row < R; ++row)
#pragma unroll
      for (int column = 0; column < C; ++column) out[row][column] = totals[row][column];
  }
};

}  // namespace graphex::kernels::blocks
