// Walks over strided index spaces: dimensions are merged where all operands allow it, and the innermost is handed out
// as runs.
#pragma once

#include "graphex/base/kernel_abi.h"
#include "graphex/kernels/indexing/indexing.h"
#include "graphex/kernels/report.h"
#include "graphex/kernels/simd.h"

namespace graphex::kernels {

GX_INLINE int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
GX_INLINE int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

// Bytes that one tile moves: long enough to hide a call, short enough to balance.
inline constexpr int64_t kTileBytes = 32768;

// Up to kMaxRank dimensions, outermost first, of `Operands` operands. Rank is at least 1 after merging.
template <int Operands>
struct Walk {
  int rank = 0;
  int64_t shape[kMaxRank + 1];
  int64_t strides[Operands][kMaxRank + 1];

  void add(int64_t size) { shape[rank++] = size; }

  int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= shape[d];
    return n;
  }

  bool follows(int d) const {  // dimension d continues into d + 1 for every operand
    for (int k = 0; k < Operands; ++k)
      if (strides[k][d] != strides[k][d + 1] * shape[d + 1]) return false;
    return true;
  }

  void remove(int d) {
    for (; d + 1 < rank; ++d) {
      shape[d] = shape[d + 1];
      for (int k = 0; k < Operands; ++k) strides[k][d] = strides[k][d + 1];
    }
    --rank;
  }

  void merge() {
    for (int d = rank - 1; d >= 0; --d)
      if (shape[d] == 1) remove(d);
    for (int d = rank - 2; d >= 0; --d) {
      if (!follows(d)) continue;
      shape[d + 1] *= shape[d];
      remove(d);
    }
    if (rank > 0) return;
    add(1);
    for (int k = 0; k < Operands; ++k) strides[k][0] = 0;
  }
};

// Calls f(offsets of the operands, length) for each run of the innermost dimension in the flat range [begin, end).
template <int Operands, typename F>
GX_INLINE void for_each_run(const Walk<Operands>& walk, int64_t begin, int64_t end, F f) {
  if (begin >= end) return;
  int64_t at[kMaxRank + 1], offsets[Operands] = {};
  int64_t rest = begin;
  for (int d = walk.rank - 1; d >= 0; --d) {
    at[d] = rest % walk.shape[d];
    rest /= walk.shape[d];
    for (int k = 0; k < Operands; ++k) offsets[k] += at[d] * walk.strides[k][d];
  }
  const int inner = walk.rank - 1;
  for (int64_t n = begin;;) {
    const int64_t length = min_of(walk.shape[inner] - at[inner], end - n);
    f(static_cast<const int64_t*>(offsets), length);
    n += length;
    if (n >= end) return;
    for (int k = 0; k < Operands; ++k) offsets[k] -= at[inner] * walk.strides[k][inner];
    at[inner] = 0;
    for (int d = inner - 1; d >= 0; --d) {
      for (int k = 0; k < Operands; ++k) offsets[k] += walk.strides[k][d];
      if (++at[d] < walk.shape[d]) break;
      for (int k = 0; k < Operands; ++k) offsets[k] -= walk.shape[d] * walk.strides[k][d];
      at[d] = 0;
    }
  }
}

template <typename T>
GX_INLINE void copy_run(T* out, int64_t out_stride, const T* in, int64_t in_stride, int64_t count) {
  if (out_stride == 1 && in_stride == 1) {
    __builtin_memcpy(out, in, count * sizeof(T));
  } else if (out_stride == 1 && in_stride == 0) {
    const T value = in[0];
    for (int64_t i = 0; i < count; ++i) out[i] = value;
  } else {
    for (int64_t i = 0; i < count; ++i) out[i * out_stride] = in[i * in_stride];
  }
}

// The first report of a replay wins.
[[maybe_unused]] static inline void report_index(GxWorker* worker, int64_t index, int64_t size, int64_t dim) {
  report(worker, GX_INDEX_OUT_OF_RANGE, index, size, dim);
}

// Calls f with an element type of the knob's size: copies don't care what the bits mean.
template <typename F>
GX_INLINE void with_element(int64_t bytes, F f) {
  if (bytes == 1) f(uint8_t{});
  if (bytes == 2) f(uint16_t{});
  if (bytes == 4) f(uint32_t{});
  if (bytes == 8) f(uint64_t{});
}

}  // namespace graphex::kernels
