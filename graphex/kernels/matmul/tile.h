// Register tiles: R rows of A times four columns of B, one vector of partial sums for each of the 4R outputs.
//
// Lanes run along k, so both operands are read the same way, a row-major weight needs no packing, and M = 1 and M =
// 1000 add in the same order. kTileRows is what the registers hold without spilling: 3 * 4 + 3 + 1 of 16, 6 * 4 + 6 + 1
// of 32.
#pragma once

#include "graphex/kernels/matmul/pack.h"

namespace graphex::kernels::matmul {

#if defined(__AVX512F__)
inline constexpr int kTileRows = 6;
#else
inline constexpr int kTileRows = 3;
#endif

inline constexpr int64_t kAheadBytes = 256;

// Both operands packed; `vectors` of k. Sets or adds to R rows of four sums, `stride` apart.
template <int R>
GX_NOINLINE void tile_packed(const float* a, const float* b, int64_t vectors, float* out, int64_t stride, bool set) {
  Vec sums[R][4] = {};
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < vectors; ++i, a += R * kLanes, b += 4 * kLanes) {
    Vec rows[R];
#pragma unroll
    for (int row = 0; row < R; ++row) rows[row] = load<Vec>(a + row * kLanes);
#pragma unroll
    for (int column = 0; column < 4; ++column) {
      const Vec value = load<Vec>(b + column * kLanes);
#pragma unroll
      for (int row = 0; row < R; ++row) sums[row][column] = multiply_add(rows[row], value, sums[row][column]);
    }
  }
#pragma unroll
  for (int row = 0; row < R; ++row, out += stride) {
    const Quad sum = sum_lanes(sums[row][0], sums[row][1], sums[row][2], sums[row][3]);
    store(out, set ? sum : load<Quad>(out) + sum);
  }
}

// One group of k for C columns.
template <class T, int R, int C>
GX_INLINE void add_group(const float* a, const T* const b[C], int64_t at, Vec (&sums)[R][C]) {
#pragma unroll
  for (int part = 0; part < Group<T>::parts; ++part, a += R * kLanes)
#pragma unroll
    for (int column = 0; column < C; ++column) {
      const Vec value = Group<T>::widen(b[column] + at, part);
#pragma unroll
      for (int row = 0; row < R; ++row)
        sums[row][column] = multiply_add(load<Vec>(a + row * kLanes), value, sums[row][column]);
    }
}

// A packed, B as C rows contiguous along k, read where they are. One row of A reads B once and fetches a little ahead
// of itself; several panels of rows leave memory idle but for the last, which fetches what comes `ahead` elements
// further.
template <class T, int R, int C>
GX_NOINLINE void tile_direct(const float* a, const T* const b[C], int64_t k, int64_t ahead, Quad out[R][C / 4]) {
  constexpr int kElements = Group<T>::elements;
  Vec sums[R][C] = {};
  const T* rows[C];
#pragma unroll
  for (int column = 0; column < C; ++column) rows[column] = b[column];
  int64_t at = 0;
#pragma clang loop unroll(disable)
  for (; at + kElements <= k; at += kElements, a += Group<T>::parts * R * kLanes) {
#pragma unroll
    for (int column = 0; column < C; ++column)
      __builtin_prefetch(rows[column] + at + (R == 1 ? kAheadBytes / int64_t(sizeof(T)) : ahead));
    add_group<T, R, C>(a, rows, at, sums);
  }
  if (at < k) {
    Tail<T> tails[C];
#pragma unroll
    for (int column = 0; column < C; ++column) {
      Tail<T>::copy(tails[column], b[column] + at, k - at);
      rows[column] = tails[column].values;
    }
    add_group<T, R, C>(a, rows, 0, sums);
  }
#pragma unroll
  for (int row = 0; row < R; ++row)
#pragma unroll
    for (int i = 0; i < C; i += 4)
      out[row][i / 4] = sum_lanes(sums[row][i], sums[row][i + 1], sums[row][i + 2], sums[row][i + 3]);
}

}  // namespace graphex::kernels::matmul
