// Rows of X, rounded to 8 bits group by group, in panels of panel_size() rows: in a panel group after group along k,
// in a group row after row.
#pragma once

#include "graphex/kernels/blocks/dot.h"
#include "graphex/kernels/rounding.h"

namespace graphex::kernels::blocks {

#if defined(__AVX512F__)
inline constexpr int kPanel = 6;
#else
inline constexpr int kPanel = 4;
#endif

struct InputGroup {
  int8_t values[kBlockGroup];
  float scale, scaled_sum;
  int32_t offsets[2];  // minus the format's offset times the sum of what a scale covers: where a sum starts
};

template <class Format, class T>
GX_INLINE void round_group(InputGroup* to, const T* from) {
  const RoundingScale scale = rounding_scale(from, kBlockGroup);
  Ints<kLanes> halves[2] = {};
#pragma unroll
  for (int at = 0; at < kBlockGroup; at += kLanes) {
    const Ints<kLanes> rounded = nearest(load_floats<kLanes>(from + at), scale.to_integers);
    halves[at / 16] += rounded;
    store(to->values + at, __builtin_convertvector(rounded, Bytes<kLanes>));
  }
  const int32_t sum = __builtin_reduce_add(halves[0] + halves[1]);
  const int32_t second = Format::kScales == 2 ? __builtin_reduce_add(halves[1]) : 0;
  to->scale = scale.from_integers;
  to->scaled_sum = to->scale * static_cast<float>(sum);
  to->offsets[0] = -Format::kOffset * (sum - second);
  to->offsets[1] = -Format::kOffset * second;
}

// As few panels as can be, as even as can be, of 1, 2, 4 or 6 rows; the last is filled up with rows of zeros.
GX_INLINE int64_t panel_size(int64_t rows) {
  const int64_t even = ceil_div(rows, ceil_div(rows, kPanel));
  return even < 3 ? even : ceil_div(even, 2) * 2;
}

template <class Format, class T>
GX_NOINLINE void pack(InputGroup* panels, const T* x, int64_t stride, int64_t rows, int64_t k) {
  const int64_t groups = k / kBlockGroup, size = panel_size(rows);
#pragma clang loop unroll(disable)
  for (int64_t row = 0; row < ceil_div(rows, size) * size; ++row) {
    InputGroup* to = panels + row / size * size * groups + row % size;
#pragma clang loop unroll(disable)
    for (int64_t group = 0; group < groups; ++group) {
      if (row < rows)
        round_group<Format>(to + group * size, x + row * stride + group * kBlockGroup);
      else
        to[group * size] = {};
    }
  }
}

}  // namespace graphex::kernels::blocks
