// Rows of X, rounded to 8 bits group by group, in panels of at most kPanel rows: in a panel group after group along k,
// in a group row after row.
#pragma once

#include "graphex/kernels/blocks/dot.h"
#include "graphex/kernels/rounding.h"

namespace graphex::kernels::blocks {

inline constexpr int kPanel = 4;

struct InputGroup {
  int8_t values[kBlockGroup];
  float scale, scaled_sum;
  int32_t offsets[2];  // the format's offset times the sum of what a scale covers
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
  to->offsets[0] = kTotalOffset<Format> * (sum - second);
  to->offsets[1] = kTotalOffset<Format> * second;
}

GX_INLINE int64_t panel_rows(int64_t rows, int64_t first) { return min(kPanel, rows - first); }

template <class Format, class T>
GX_NOINLINE void pack(InputGroup* panels, const T* x, int64_t stride, int64_t rows, int64_t k) {
  const int64_t groups = k / kBlockGroup;
#pragma clang loop unroll(disable)
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = row / kPanel * kPanel, count = panel_rows(rows, first);
    InputGroup* to = panels + first * groups + (row - first);
#pragma clang loop unroll(disable)
    for (int64_t group = 0; group < groups; ++group)
      round_group<Format>(to + group * count, x + row * stride + group * kBlockGroup);
  }
}

}  // namespace graphex::kernels::blocks
