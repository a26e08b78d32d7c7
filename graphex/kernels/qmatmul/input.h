// Rows of X into panels: panel by panel of at most kPanel rows, in a panel vector after vector along k.
#pragma once

#include "graphex/kernels/qmatmul/dot.h"

namespace graphex::kernels::qmatmul {

inline constexpr int kPanel = 4;

// What the row is multiplied by to become integers, and each integer by to become the row: 127 / max and max / 127.
struct RowScale {
  float to_integers, from_integers;
};

template <class T>
GX_INLINE RowScale scale_of(const T* row, int64_t k) {
  Vec largest = {}, spoilt = {};
#pragma clang loop unroll(disable)
  for (int64_t at = 0; at < k; at += kLanes) {
    const Vec x = load_floats<kLanes>(row + at);
    largest = __builtin_elementwise_max(largest, __builtin_elementwise_abs(x));
    spoilt += x * 0.0f;  // NaN from an infinity or a NaN on
  }
  const float most = __builtin_reduce_max(largest) + sum_lanes(spoilt, spoilt, spoilt, spoilt)[0];
  const float inverse = 127.0f / most;
  return {inverse <= 3.4028235e38f ? inverse : 0.0f, most / 127.0f};  // what is too small for that becomes 0
}

// The integers nearest to x * scale: adding 1.5 * 2^23 leaves them, rounded to even, in the low bits.
GX_INLINE Ints<kLanes> nearest(Vec x, float scale) {
  const Vec shifted = x * scale + 12582912.0f;
  return __builtin_bit_cast(Ints<kLanes>, shifted) - 0x4b400000;
}

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
    const RowScale scale = GX_INPUT == 1 ? scale_of(x + row * stride, k) : RowScale{1, 1};
    scales[row] = scale.from_integers;
    pack_row(panels + first * k, panel_rows(rows, first), row - first, x + row * stride, k, scale.to_integers);
  }
}

}  // namespace graphex::kernels::qmatmul
