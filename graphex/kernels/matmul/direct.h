// Few rows of A (decode): the rows of a row-major [N, K] weight stream from memory once, each loaded vector meets all
// rows of A, which lie widened in scratch. Nothing of B is copied. A tile is kDirectColumns weight rows of one batch
// entry.
#pragma once

#include "graphex/kernels/matmul/panels.h"

namespace graphex::kernels::matmul {

inline constexpr int64_t kDirectRows = 12;
inline constexpr int64_t kDirectColumns = 8;
inline constexpr int kSingleColumns = 8;
static_assert(kDirectRows * kMaxBlockK * int64_t(sizeof(float)) <= GX_SCRATCH_BYTES);

GX_INLINE bool is_direct(const Problem& p) { return GX_B_LAYOUT == 0 && p.m <= kDirectRows; }

GX_INLINE int64_t direct_tiles(const Problem& p) { return p.batch * ceil_div(p.n, kDirectColumns); }

template <class T>
struct Direct {
  Problem p;
  float* panels;
  int64_t panel_k;  // floats a row of a panel
  bool whole;       // panels hold all of K, else one block
  const T* a;
  const T* b;
  Output<T> out;

  // Sums of C columns for all rows of A: C is 8 for one row and 4 for more, when no panel has one row only. With
  // several panels of rows, all but the last read B from cache; the last also fetches what comes next, so that memory
  // isn't idle meanwhile.
  template <int C>
  inline __attribute__((always_inline)) void sum(const T* const columns[C], Quad (*sums)[C / 4]) const {
#pragma clang loop unroll(disable)
    for (int64_t start = 0; start < p.k; start += p.block_k) {
      const int64_t length = min(p.block_k, p.k - start), at = whole ? start : 0;
      const int64_t next = start + p.block_k < p.k ? p.block_k : p.b_column - start;
      const T* block[C];
#pragma unroll
      for (int i = 0; i < C; ++i) block[i] = columns[i] + start;
      if (!whole) pack_a<T>(p, a + start * p.a_k, panels, p.m, length, panel_k);
      each_panel(p.m, [&](int64_t first, int64_t rows) __attribute__((always_inline)) {
        const int64_t ahead = first > 0 && first + rows == p.m ? next : 0;
        with_rows<C == 4 ? 2 : 1, C == 4 ? kTileRows : 1>(rows, [&]<int R>(Rows<R>) __attribute__((always_inline)) {
          Quad part[R][C / 4];
          tile_direct<T, R, C>(panels + first * panel_k + at * R, block, length, ahead, part);
#pragma unroll
          for (int row = 0; row < R; ++row)
#pragma unroll
            for (int i = 0; i < C / 4; ++i)
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
    Quad sums[C == 4 ? kDirectRows : 1][C / 4] = {};
    sum<C>(from, sums);
#pragma clang loop unroll(disable)
    for (int64_t m = 0; m < p.m; ++m)
#pragma unroll
      for (int i = 0; i < C; i += 4) out.finish_spread(sums[m][i / 4], valid - i, m, first + step * i, step);
  }

  // The range is read as C runs of rows side by side: each is one long stream that the hardware fetches ahead, where
  // neighbouring rows would be short ones in the same pages. One row of A alone has registers, and need, for eight.
  template <int C>
  inline __attribute__((always_inline)) void range(int64_t begin, int64_t end) const {
    const int64_t run = (end - begin) / C;
    for (int64_t i = 0; i < run; ++i) columns<C>(begin + i, run, C);
    for (int64_t n = begin + run * C; n < end; n += C) columns<C>(n, 1, end - n);
  }
};

template <class T>
GX_INLINE void run_direct(const Problem& p, void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end,
                          float* scratch) {
  const int64_t per_batch = ceil_div(p.n, kDirectColumns);
  Direct<T> direct = {p, scratch, p.padded_k, true, nullptr, nullptr, {}};
  direct.whole = p.m * p.padded_k * int64_t(sizeof(float)) <= GX_SCRATCH_BYTES;
  if (!direct.whole) direct.panel_k = p.block_k;
  while (begin < end) {
    const int64_t batch = begin / per_batch, first = begin - batch * per_batch;
    const int64_t last = min(per_batch, first + end - begin);
    direct.a = static_cast<const T*>(pointers[1]) + batch * p.a_batch;
    direct.b = static_cast<const T*>(pointers[2]) + batch * p.b_batch;
    direct.out = Output<T>::of(p, pointers, sizes, batch);
    if (direct.whole) pack_a<T>(p, direct.a, scratch, p.m, p.k, p.padded_k);
    const int64_t column = first * kDirectColumns, column_end = min(p.n, last * kDirectColumns);
    if (p.m == 1) {
      direct.template range<kSingleColumns>(column, column_end);
    } else if (GX_M != 1) {
      direct.template range<4>(column, column_end);
    }
    begin += last - first;
  }
}

}  // namespace graphex::kernels::matmul
