// Few rows of A (decode): the rows of a row-major [N, K] weight stream from memory once, each loaded vector meets all
// rows of A, which lie widened in scratch. Nothing of B is copied. A tile is kDirectColumns weight rows of one batch
// entry.
#pragma once

#include "graphex/kernels/matmul/panels.h"

namespace graphex::kernels::matmul {

inline constexpr int64_t kDirectRows = 12;
inline constexpr int64_t kDirectColumns = 8;
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

  // Sums of four columns for all rows of A.
  inline __attribute__((always_inline)) void quad(const T* const columns[4], Quad sums[kDirectRows]) const {
    for (int64_t start = 0; start < p.k; start += p.block_k) {
      const int64_t length = min(p.block_k, p.k - start), at = whole ? start : 0;
      const T* const block[4] = {columns[0] + start, columns[1] + start, columns[2] + start, columns[3] + start};
      if (!whole) pack_a<T>(p, a + start * p.a_k, panels, p.m, length, panel_k);
      each_panel(p.m, [&](int64_t first, int64_t rows) __attribute__((always_inline)) {
        with_rows<kTileRows>(rows, [&]<int R>(Rows<R>) __attribute__((always_inline)) {
          Quad part[R];
          tile_direct<T, R>(panels + first * panel_k + at * R, block, length, part);
#pragma unroll
          for (int row = 0; row < R; ++row) sums[first + row] = start == 0 ? part[row] : sums[first + row] + part[row];
        });
      });
    }
  }

  // Columns first, first + step, .. of which `valid` exist.
  inline __attribute__((always_inline)) void columns(int64_t first, int64_t step, int64_t valid) const {
    const T* four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = b + (first + step * min(i, valid - 1)) * p.b_column;
    Quad sums[kDirectRows] = {};
    quad(four, sums);
#pragma clang loop unroll(disable)
    for (int64_t m = 0; m < p.m; ++m) {
      const Quad row = sums[m];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (i < valid) out.template finish<1>(Floats<1>(row[i]), m, first + step * i);
    }
  }

  // The range is read as four runs of rows side by side: each is one long stream that the hardware fetches ahead, where
  // four neighbouring rows would be four short ones in the same pages.
  void range(int64_t begin, int64_t end) const {
    const int64_t run = (end - begin) / 4, left = (end - begin) % 4;
    for (int64_t i = 0; i < run; ++i) columns(begin + i, run, 4);
    if (left > 0) columns(end - left, 1, left);
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
    direct.range(first * kDirectColumns, min(p.n, last * kDirectColumns));
    begin += last - first;
  }
}

}  // namespace graphex::kernels::matmul
