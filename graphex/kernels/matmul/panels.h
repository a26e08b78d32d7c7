// Rows of A and columns of B into panels, by the layout that the knobs name.
#pragma once

#include "graphex/kernels/matmul/pack.h"
#include "graphex/kernels/matmul/problem.h"
#include "graphex/kernels/matmul/tile.h"

namespace graphex::kernels::matmul {

// The panels of `rows` rows of A, at most Max each and as equal as can be: f(index of the first row, how many).
template <int Max, class F>
GX_INLINE void each_panel(int64_t rows, F f) {
  if (GX_M == 1) return f(int64_t(0), int64_t(1));
  const int64_t count = ceil_div(rows, Max), few = rows / count, more = rows - few * count;
  int64_t first = 0;
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < count; ++i) {
    const int64_t here = few + (i < more ? 1 : 0);
    f(first, here);
    first += here;
  }
}

// f(Rows<R>) for R = rows in Min .. Max.
template <int R>
struct Rows {
  static constexpr int value = R;
};
template <int Min, int Max, class F>
GX_INLINE void with_rows(int64_t rows, F f) {
  if (GX_M == 1) return f(Rows<Min>{});
  if constexpr (Max > Min) {
    if (rows != Max) return with_rows<Min, Max - 1>(rows, f);
  }
  f(Rows<Max>{});
}

// `length` elements along k from a[0] on, of `rows` rows; panels follow each other, panel_k floats a row.
template <class T, int Max>
GX_NOINLINE void pack_a(const Problem& p, const T* a, float* panels, int64_t rows, int64_t length, int64_t panel_k) {
  each_panel<Max>(rows, [&](int64_t first, int64_t count) __attribute__((always_inline)) {
    const T* from = a + first * p.a_row;
    float* panel = panels + first * panel_k;
    if (GX_A_LAYOUT == 0) {
      with_rows<1, Max>(count, [&]<int R>(Rows<R>) { pack_rows<T, R>(panel, from, p.a_row, length); });
    } else {
#pragma clang loop unroll(disable)
      for (int64_t row = 0; row < count; ++row) gather_row(panel, count, row, from + row * p.a_row, p.a_k, length);
    }
  });
}

// The same of `columns` columns of B, four a panel, the missing ones zero.
template <class T>
GX_NOINLINE void pack_b(const Problem& p, const T* b, float* panels, int64_t columns, int64_t length, int64_t panel_k) {
#pragma clang loop unroll(disable)
  for (int64_t n = 0; n < columns; n += 4, panels += 4 * panel_k) {
    const T* from = b + n * p.b_column;
    if (GX_B_LAYOUT == 0 && columns - n >= 4) {
      pack_rows<T, 4>(panels, from, p.b_column, length);
    } else if (GX_B_LAYOUT == 1 && columns - n >= 4) {
      pack_columns(panels, from, p.b_k, length);
    } else {
#pragma clang loop unroll(disable)
      for (int64_t i = 0; i < 4; ++i) {
        if (n + i < columns) {
          gather_row(panels, 4, i, from + i * p.b_column, p.b_k, length);
        } else {
          zero_row(panels, 4, i, vectors_of<T>(length));
        }
      }
    }
  }
}

}  // namespace graphex::kernels::matmul
