// Few rows of A (decode): the rows of a row-major [N, K] weight stream from memory once, each loaded vector meets all
// rows of A, which lie widened in scratch. Nothing of B is copied. A tile is kDirectColumns weight rows of one batch
// entry.
#pragma once

#include "graphex/kernels/matmul/panels.h"

namespace graphex::kernels::matmul {

inline constexpr int64_t kDirectRows = 12;
inline constexpr int64_t kDirectColumns = 8;
static_assert(kDirectRows <= 2 * kDirectPanel);
static_assert(kDirectRows * kMaxBlockK<float> * int64_t(sizeof(float)) <= GX_SCRATCH_BYTES);

GX_INLINE bool is_direct(const Problem& p) { return GX_B_LAYOUT == 0 && p.m <= kDirectRows; }

GX_INLINE int64_t direct_tiles(const Problem& p) { return p.batch * ceil_div(p.n, kDirectColumns); }

// The rows of a panel that go with C columns: sums, one vector of B and one of A fit in the registers.
template <int C>
struct Shape;
template <>
struct Shape<8> {
  static constexpr int min = 1, max = 1;
};
#if defined(__AVX512F__)
template <>
struct Shape<4> {
  static constexpr int min = 2, max = kDirectPanel;
};
#else
template <>
struct Shape<4> {
  static constexpr int min = 2, max = 3;
};
template <>
struct Shape<3> {
  static constexpr int min = 3, max = 4;
};
template <>
struct Shape<2> {
  static constexpr int min = 4, max = kDirectPanel;
};
#endif
template <int C>
inline constexpr int kQuads = (C + 3) / 4;

template <class T>
struct Direct {
  Problem p;
  float* panels;
  int64_t panel_k;  // floats a row of a panel
  bool whole;       // panels hold all of K, else one block
  const T* a;
  const T* b;
  Output<T> out;

  // What comes next is fetched evenly over the panels of rows, else memory would be idle during all but one.
  inline __attribute__((always_inline)) Fetch fetch(int columns, int64_t first, int64_t rows, int64_t next,
                                                    int64_t length) const {
    if (rows == p.m) return {kAheadBytes / columns / int64_t(sizeof(T)), 0};
    return {next + (first > 0 ? length / 2 : 0), 1};
  }

  // Sums of C columns for all rows of A.
  template <int C>
  inline __attribute__((always_inline)) void sum(const T* const columns[C], Quad (*sums)[kQuads<C>]) const {
#pragma clang loop unroll(disable)
    for (int64_t start = 0; start < p.k; start += p.block_k) {
      const int64_t length = min(p.block_k, p.k - start), at = whole ? floats_of<T>(start) : 0;
      const int64_t next = start + p.block_k < p.k ? p.block_k : p.b_column - start;
      const T* block[C];
#pragma unroll
      for (int i = 0; i < C; ++i) block[i] = columns[i] + start;
      if (!whole) pack_a<T, kDirectPanel>(p, a + start * p.a_k, panels, p.m, length, panel_k);
      each_panel<kDirectPanel>(p.m, [&](int64_t first, int64_t rows) __attribute__((always_inline)) {
        with_rows<Shape<C>::min, Shape<C>::max>(rows, [&]<int R>(Rows<R>) __attribute__((always_inline)) {
          Quad part[R][kQuads<C>];
          tile_direct<T, R, C>(panels + first * panel_k + at * R, block, length, fetch(C, first, R, next, length),
                               part);
#pragma unroll
          for (int row = 0; row < R; ++row)
#pragma unroll
            for (int i = 0; i < kQuads<C>; ++i)
              sums[first + row][i] = start == 0 ? part[row][i] : sums[first + row][i] + part[row][i];
        });
      });
    }
  }

  // Columns first, first + step, .. of which `valid` exist.
  template <int C>
  __attribute__((noinline)) void columns(int64_t first, int64_t step, int64_t valid) const {
    const T* from[C];
#pragma unroll
    for (int i = 0; i < C; ++i) from[i] = b + (first + step * min(i, valid - 1)) * p.b_column;
    Quad sums[Shape<C>::max == 1 ? 1 : kDirectRows][kQuads<C>] = {};
    sum<C>(from, sums);
#pragma clang loop unroll(disable)
    for (int64_t m = 0; m < p.m; ++m)
#pragma unroll
      for (int i = 0; i < C; i += 4) out.finish_spread(sums[m][i / 4], min(valid, C) - i, m, first + step * i, step);
  }

  // The range is read as C runs of rows side by side: each is one long stream that the hardware fetches ahead, where
  // neighbouring rows would be short ones in the same pages. One row of A alone has registers, and need, for eight.
  template <int C>
  inline __attribute__((always_inline)) void range(int64_t begin, int64_t end) const {
    const int64_t run = (end - begin) / C;
    for (int64_t i = 0; i < run; ++i) columns<C>(begin + i, run, C);
    for (int64_t n = begin + run * C; n < end; n += C) columns<C>(n, 1, end - n);
  }

  inline __attribute__((always_inline)) void rows(int64_t begin, int64_t end) const {
    const int64_t tallest = ceil_div(p.m, ceil_div(p.m, kDirectPanel));
    if (tallest == 1) return range<8>(begin, end);
    if (tallest <= Shape<4>::max) return range<4>(begin, end);
#if !defined(__AVX512F__)
    if (tallest <= Shape<3>::max) return range<3>(begin, end);
    range<2>(begin, end);
#endif
  }
};

template <class T>
GX_INLINE void run_direct(const Problem& p, void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end,
                          float* scratch) {
  const int64_t per_batch = ceil_div(p.n, kDirectColumns);
  Direct<T> direct = {p, scratch, floats_of<T>(p.k), true, nullptr, nullptr, {}};
  direct.whole = p.m * direct.panel_k * int64_t(sizeof(float)) <= GX_SCRATCH_BYTES;
  if (!direct.whole) direct.panel_k = floats_of<T>(p.block_k);
  while (begin < end) {
    const int64_t batch = begin / per_batch, first = begin - batch * per_batch;
    const int64_t last = min(per_batch, first + end - begin);
    direct.a = static_cast<const T*>(pointers[1]) + batch * p.a_batch;
    direct.b = static_cast<const T*>(pointers[2]) + batch * p.b_batch;
    direct.out = Output<T>::of(p, pointers, sizes, batch);
    if (direct.whole) pack_a<T, kDirectPanel>(p, direct.a, scratch, p.m, p.k, direct.panel_k);
    const int64_t column = first * kDirectColumns, column_end = min(p.n, last * kDirectColumns);
    direct.rows(column, column_end);
    begin += last - first;
  }
}

}  // namespace graphex::kernels::matmul
