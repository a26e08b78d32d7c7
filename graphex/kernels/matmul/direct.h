// Few rows of A (decode): the rows of a row-major [N, K] weight stream from memory once, each loaded vector meets all
// rows of A, which lie widened in scratch. Nothing of B is copied. A tile is kDirectColumns weight rows of one batch
// entry.
#pragma once

#include "graphex/kernels/matmul/problem.h"
#include "graphex/kernels/matmul/tile.h"

namespace graphex::kernels::matmul {

inline constexpr int64_t kDirectRows = 12;
inline constexpr int64_t kDirectColumns = 8;

GX_INLINE bool is_direct(const Problem& p) {
  return GX_B_LAYOUT == 0 && p.m <= kDirectRows && p.m * p.padded_k * int64_t(sizeof(float)) <= GX_SCRATCH_BYTES;
}

GX_INLINE int64_t direct_tiles(const Problem& p) { return p.batch * ceil_div(p.n, kDirectColumns); }

template <class T>
GX_INLINE void pack_rows_of_a(const Problem& p, const T* a, float* panels) {
  const int64_t count = ceil_div(p.m, kTileRows);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = split(p.m, count, i), rows = split(p.m, count, i + 1) - first;
    const T* from = a + first * p.a_row;
    pack_panel<T>(panels + first * p.padded_k, rows, rows, from, p.a_row, p.a_k, p.k, GX_A_LAYOUT == 0);
  }
}

// Sums of four columns for all rows of A.
template <class T>
GX_INLINE void direct_quad(const Problem& p, const float* panels, const T* const columns[4], Quad sums[kDirectRows]) {
  const int64_t count = ceil_div(p.m, kTileRows);
  for (int64_t m = 0; m < p.m; ++m) sums[m] = Quad(0.0f);
  for (int64_t start = 0; start < p.k; start += p.block_k) {
    const int64_t length = min(p.block_k, p.k - start);
    const T* const b[4] = {columns[0] + start, columns[1] + start, columns[2] + start, columns[3] + start};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = split(p.m, count, i), rows = split(p.m, count, i + 1) - first;
      with_rows<kTileRows>(rows, [&]<int R>(Rows<R>) __attribute__((always_inline)) {
        Quad part[R];
        tile_direct<T, R>(panels + first * p.padded_k + start * R, b, length, part);
        for (int row = 0; row < R; ++row) sums[first + row] = start == 0 ? part[row] : sums[first + row] + part[row];
      });
    }
  }
}

template <class T>
GX_INLINE void direct_columns(const Problem& p, const float* panels, const T* b, const Output<T>& out, int64_t begin,
                              int64_t end) {
  for (int64_t n = begin; n < end; n += 4) {
    const int64_t valid = min(4, end - n);
    const T* columns[4];
    for (int i = 0; i < 4; ++i) columns[i] = b + (n + min(i, valid - 1)) * p.b_column;
    Quad sums[kDirectRows];
    direct_quad<T>(p, panels, columns, sums);
    for (int64_t m = 0; m < p.m; ++m) {
      float row[4];
      store(row, sums[m]);
      out.template finish_row<4>(row, valid, m, n);
    }
  }
}

template <class T>
GX_INLINE void run_direct(const Problem& p, void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end,
                          float* scratch) {
  const int64_t per_batch = ceil_div(p.n, kDirectColumns);
  while (begin < end) {
    const int64_t batch = begin / per_batch, first = begin - batch * per_batch;
    const int64_t last = min(per_batch, first + end - begin);
    pack_rows_of_a<T>(p, static_cast<const T*>(pointers[1]) + batch * p.a_batch, scratch);
    direct_columns<T>(p, scratch, static_cast<const T*>(pointers[2]) + batch * p.b_batch,
                      Output<T>::of(p, pointers, sizes, batch), first * kDirectColumns,
                      min(p.n, last * kDirectColumns));
    begin += last - first;
  }
}

}  // namespace graphex::kernels::matmul
