// Register tiles: R rows of A times four columns of B, one vector of partial sums for each of the 4R outputs.
//
// Lanes run along k, so both operands are read the same way, a row-major weight needs no packing, and M = 1 and M =
// 1000 add in the same order. kTileRows is what the registers hold without spilling: 3 * 4 + 3 + 1 of 16, 6 * 4 + 6 + 1
// of 32. kAheadBytes are under way to a worker, over all its streams, where few rows of A meet B.
#pragma once

#include "graphex/kernels/matmul/pack.h"

namespace graphex::kernels::matmul {

#if defined(__AVX512F__)
inline constexpr int kTileRows = 6;
inline constexpr int64_t kAheadBytes = 6144;
#else
inline constexpr int kTileRows = 3;
inline constexpr int64_t kAheadBytes = 3072;
#endif

// The same for each of the eight streams of one row of A.
inline constexpr int64_t kSingleAheadBytes = 256;

// Rows of A that meet B at once where B isn't packed, for as many columns as leave registers for their sums.
inline constexpr int kDirectPanel = 6;

// Each row's four sums of lanes.
template <int R>
GX_INLINE void sum_rows(const Vec (&sums)[R][4], Quad (&out)[R]) {
  int row = 0;
#if defined(__AVX512F__)
#pragma unroll
  for (; row + 2 <= R; row += 2) sum_lanes(sums[row], sums[row + 1], out[row], out[row + 1]);
#endif
#pragma unroll
  for (; row < R; ++row) out[row] = sum_lanes(sums[row][0], sums[row][1], sums[row][2], sums[row][3]);
}

// Both operands packed; `vectors` of k. Sets or adds to R rows of four sums, `stride` apart.
template <class T, int R>
GX_NOINLINE void tile_packed(const float* a, const float* b, int64_t vectors, float* out, int64_t stride, bool set) {
  using Vector = typename Group<T>::Vector;
  Vec sums[R][4] = {};
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < vectors; ++i, a += R * kLanes, b += 4 * kLanes) {
    Vector rows[R];
#pragma unroll
    for (int row = 0; row < R; ++row) rows[row] = load<Vector>(a + row * kLanes);
#pragma unroll
    for (int column = 0; column < 4; ++column) {
      const Vector value = load<Vector>(b + column * kLanes);
#pragma unroll
      for (int row = 0; row < R; ++row) sums[row][column] = Group<T>::add(sums[row][column], rows[row], value);
    }
  }
  Quad totals[R];
  sum_rows<R>(sums, totals);
#pragma unroll
  for (int row = 0; row < R; ++row, out += stride) store(out, set ? totals[row] : load<Quad>(out) + totals[row]);
}

// One group of k for C columns. Vectors of the shorter side stay in registers while the other side passes.
template <class T, int R, int C>
GX_INLINE void add_group(const float* a, const T* const b[C], int64_t at, Vec (&sums)[R][C]) {
  using Vector = typename Group<T>::Vector;
#pragma unroll
  for (int part = 0; part < Group<T>::parts; ++part, a += R * kLanes) {
    if constexpr (C < R) {
      Vector values[C];
#pragma unroll
      for (int column = 0; column < C; ++column) values[column] = Group<T>::vector(b[column] + at, part);
#pragma unroll
      for (int row = 0; row < R; ++row)
#pragma unroll
        for (int column = 0; column < C; ++column)
          sums[row][column] = Group<T>::add(sums[row][column], load<Vector>(a + row * kLanes), values[column]);
    } else {
#pragma unroll
      for (int column = 0; column < C; ++column) {
        const Vector value = Group<T>::vector(b[column] + at, part);
#pragma unroll
        for (int row = 0; row < R; ++row)
          sums[row][column] = Group<T>::add(sums[row][column], load<Vector>(a + row * kLanes), value);
      }
    }
  }
}

// What a tile fetches into the cache while it computes: elements from `ahead` on, `1 << slower` times slower than it
// reads.
struct Fetch {
  int64_t ahead;
  int slower;
};

// A packed, B as C rows contiguous along k, read where they are.
template <class T, int R, int C>
GX_NOINLINE void tile_direct(const float* a, const T* const b[C], int64_t k, Fetch fetch, Quad out[R][(C + 3) / 4]) {
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
      __builtin_prefetch(rows[column] +
                         (R == 1 ? at + kSingleAheadBytes / int64_t(sizeof(T)) : (at >> fetch.slower) + fetch.ahead));
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
  const auto sum = [&](int row, int column) { return column < C ? sums[row][column] : Vec{}; };
#pragma unroll
  for (int row = 0; row < R; ++row)
#pragma unroll
    for (int i = 0; i < C; i += 4)
      out[row][i / 4] = sum_lanes(sum(row, i), sum(row, i + 1), sum(row, i + 2), sum(row, i + 3));
}

}  // namespace graphex::kernels::matmul
