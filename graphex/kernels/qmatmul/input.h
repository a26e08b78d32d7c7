// Rows of X into panels: panel by panel of at most kPanel rows, in a panel vector after vector along k.
#pragma once

#include "graphex/kernels/qmatmul/dot.h"
#include "graphex/kernels/rounding.h"

namespace graphex::kernels::qmatmul {

inline constexpr int kPanel = 4;

// Row `row` of a panel of `rows`.
template <class T>
GX_NOINLINE void pack_row(int16_t* panel, int64_t rows, int64_t row, const T* from, int64_t k, float scale) {
  constexpr int kStep = 2 * kLanes;
  int16_t* to = panel + row * kStep;
#pragma clang loop unroll(disable)
  for (int64_t at = 0; at < k; at += kStep, to += rows * kStep)
#pragma unroll
    for (int part = 0; part < kStep; part += kLanes)
      store(to + part, __builtin_convertvector(nearest(load_floats<kLanes>(from + at + part), scale), Shorts<kLanes>));
}
template <class T>
GX_NOINLINE void pack_row(float* panel, int64_t rows, int64_t row, const T* from, int64_t k, float) {
  float* to = panel + row * kLanes;
#pragma clang loop unroll(disable)
  for (int64_t at = 0; at < k; at += kLanes, to += rows * kLanes) store(to, load_floats<kLanes>(from + at));
}

// How many rows panel after panel of `rows` holds from row `first` on.
GX_INLINE int64_t panel_rows(int64_t rows, int64_t first) { return rows - first < kPanel ? rows - first : kPanel; }

template <class T, class Element>
GX_INLINE void pack(Element* panels, float* scales, const T* x, int64_t stride, int64_t rows, int64_t k) {
#pragma clang loop unroll(disable)
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = row / kPanel * kPanel;
    const RoundingScale scale = GX_INPUT == 1 ? rounding_scale(x + row * stride, k) : RoundingScale{1, 1};
    scales[row] = scale.from_integers;
    pack_row(panels + first * k, panel_rows(rows, first), row - first, x + row * stride, k, scale.to_integers);
  }
}

}  // namespace graphex::kernels::qmatmul
