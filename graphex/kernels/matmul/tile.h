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

// Both operands packed; `vectors` of k.
template <int R>
GX_NOINLINE void tile_packed(const float* a, const float* b, int64_t vectors, Quad out[R]) {
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
  for (int row = 0; row < R; ++row) out[row] = sum_lanes(sums[row][0], sums[row][1], sums[row][2], sums[row][3]);
}

template <class T, int R>
GX_INLINE void add_group(const float* a, const Vec (&values)[Group<T>::parts], int column, Vec (&sums)[R][4]) {
#pragma unroll
  for (int part = 0; part < Group<T>::parts; ++part)
#pragma unroll
    for (int row = 0; row < R; ++row)
      sums[row][column] = multiply_add(load<Vec>(a + (part * R + row) * kLanes), values[part], sums[row][column]);
}

// One group of k for all columns.
template <class T, int R>
GX_INLINE void add_columns(const float* a, const T* const b[4], int64_t at, Vec (&sums)[R][4]) {
  Vec values[Group<T>::parts];
#pragma unroll
  for (int column = 0; column < 4; ++column) {
    Group<T>::widen(b[column] + at, values);
    add_group<T, R>(a, values, column, sums);
  }
}

// A packed, B as four rows contiguous along k, read where they are.
template <class T, int R>
GX_NOINLINE void tile_direct(const float* a, const T* const b[4], int64_t k, Quad out[R]) {
  constexpr int kElements = Group<T>::elements, kParts = Group<T>::parts;
  Vec sums[R][4] = {};
  int64_t at = 0;
#pragma clang loop unroll(disable)
  for (; at + kElements <= k; at += kElements, a += kParts * R * kLanes) add_columns<T, R>(a, b, at, sums);
  if (at < k) {
    Vec values[kParts];
#pragma unroll
    for (int column = 0; column < 4; ++column) {
      widen_tail(b[column] + at, k - at, values);
      add_group<T, R>(a, values, column, sums);
    }
  }
#pragma unroll
  for (int row = 0; row < R; ++row) out[row] = sum_lanes(sums[row][0], sums[row][1], sums[row][2], sums[row][3]);
}

}  // namespace graphex::kernels::matmul
