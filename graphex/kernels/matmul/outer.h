// One row of A and B as [K, N]: rows of B are scaled and added to partial sums in L1, one set of sums for each lane
// that the other paths would have added that k in, four k's of one lane at a time. A tile is kOuterColumns columns.
#pragma once

#include "graphex/kernels/matmul/panels.h"

namespace graphex::kernels::matmul {

inline constexpr int64_t kOuterColumns = 64;
inline constexpr int64_t kOuterChunk = 256;  // columns of B at a time

GX_INLINE bool is_outer(const Problem& p) { return GX_B_LAYOUT == 1 && p.m == 1; }

GX_INLINE int64_t outer_tiles(const Problem& p) { return p.batch * ceil_div(p.n, kOuterColumns); }

// The k that a lane takes in one step, by its element of A.
template <class T>
struct Step {
  static constexpr int rows = 1;
  float scale;

  GX_INLINE Step of(const Problem& p, const T* a, int64_t k, int64_t) { return {load_float(a + k * p.a_k)}; }
  template <int W>
  inline __attribute__((always_inline)) Floats<W> add(Floats<W> sum, const T* row, int64_t) const {
    return multiply_add(Floats<W>(scale), load_floats<W>(row), sum);
  }
};
#if defined(__AVX512BF16__)
// Two of them, where the second exists.
template <>
struct Step<bf16> {
  static constexpr int rows = 2;
  uint32_t scale;
  bool single;

  GX_INLINE Step of(const Problem& p, const bf16* a, int64_t k, int64_t length) {
    const bool single = k + 1 == length;
    const uint32_t second = single ? 0 : a[(k + 1) * p.a_k].bits;
    return {a[k * p.a_k].bits | second << 16, single};
  }
  template <int W>
  inline __attribute__((always_inline)) Floats<W> add(Floats<W> sum, const bf16* row, int64_t stride) const {
    const auto wide = [](const bf16* at) { return __builtin_convertvector(load<Halves<W>>(at), Words<W>); };
    const Words<W> values = single ? wide(row) : wide(row) | wide(row + stride) << 16;
    if constexpr (W == 1) {
      const Words<4> value = {values[0], 0, 0, 0}, factor = {scale, 0, 0, 0};
      using Pairs = __bf16 __attribute__((vector_size(16)));
      return Floats<4>(__builtin_ia32_dpbf16ps_128(Floats<4>{sum[0], 0, 0, 0}, __builtin_bit_cast(Pairs, factor),
                                                   __builtin_bit_cast(Pairs, value)))[0];
    } else {
      return Group<bf16>::add(sum, Words<W>(scale), values);
    }
  }
};
#endif

// sums[n] += what steps[0] takes of rows[0][n], then steps[1] of rows[1][n], ..; `ahead` elements further is what comes
// next.
template <class T, int Q, int W>
GX_INLINE int64_t add_rows(float* sums, const Step<T> (&steps)[Q], const T* const rows[Q], int64_t stride,
                           int64_t ahead, int64_t begin, int64_t columns) {
  int64_t n = begin;
#pragma clang loop vectorize(disable) unroll(disable)
  for (; n + W <= columns; n += W) {
    Floats<W> sum = load<Floats<W>>(sums + n);
#pragma unroll
    for (int i = 0; i < Q; ++i) {
#pragma unroll
      for (int row = 0; W > 1 && row < Step<T>::rows; ++row) __builtin_prefetch(rows[i] + n + row * stride + ahead);
      sum = steps[i].template add<W>(sum, rows[i] + n, stride);
    }
    store(sums + n, sum);
  }
  return n;
}

// Q steps: the one at k and the next ones of its lane.
template <class T, int Q>
GX_NOINLINE void add_scaled(const Problem& p, float* sums, const T* a, const T* b, int64_t k, int64_t length,
                            int64_t ahead, int64_t columns) {
  constexpr int kParts = Group<T>::parts;
  Step<T> steps[Q];
  const T* rows[Q];
#pragma unroll
  for (int i = 0; i < Q; ++i) {
    const int64_t at = k + i / kParts * Group<T>::elements + i % kParts;
    steps[i] = Step<T>::of(p, a, at, length);
    rows[i] = b + at * p.b_k;
  }
  const int64_t done = add_rows<T, Q, kLanes>(sums, steps, rows, p.b_k, ahead * p.b_k, 0, columns);
  add_rows<T, Q, 1>(sums, steps, rows, p.b_k, 0, done, columns);
}

// The sum of all lanes by the tree of sum_lanes().
template <int W>
GX_INLINE Floats<W> sum_of_lanes(const float* sums) {
  Floats<W> lanes[kLanes];
#pragma unroll
  for (int i = 0; i < kLanes; ++i) lanes[i] = load<Floats<W>>(sums + i * kOuterChunk);
  if (kLanes == 16)
#pragma unroll
    for (int i = 0; i < 8; ++i) lanes[i % kLanes] = lanes[i % kLanes] + lanes[(i + 8) % kLanes];
  const Floats<W> low = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
  if (kLanes == 4) return low;
  return low + ((lanes[4 % kLanes] + lanes[6 % kLanes]) + (lanes[5 % kLanes] + lanes[7 % kLanes]));
}

template <int W>
GX_INLINE int64_t add_block(float* totals, const float* sums, bool first, int64_t begin, int64_t columns) {
  int64_t n = begin;
#pragma clang loop vectorize(disable) unroll(disable)
  for (; n + W <= columns; n += W) {
    const Floats<W> sum = sum_of_lanes<W>(sums + n);
    store(totals + n, first ? sum : load<Floats<W>>(totals + n) + sum);
  }
  return n;
}

// One block of K for `columns` columns.
template <class T>
GX_NOINLINE void outer_block(const Problem& p, float* sums, const T* a, const T* b, int64_t length, int64_t columns) {
  constexpr int kElements = Group<T>::elements, kPerLane = kElements / kLanes;
  constexpr int64_t kStride = 4 * Step<T>::rows * kLanes;
  for (int64_t i = 0; i < kLanes * kOuterChunk; i += kLanes) store(sums + i, Vec(0.0f));
  int64_t k = 0;
#pragma clang loop unroll(disable)
  for (; k + kStride <= length; k += kStride)
#pragma clang loop unroll(disable)
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const int64_t ahead = lane + 1 < kLanes ? kPerLane : kStride - (kLanes - 1) * kPerLane;
      add_scaled<T, 4>(p, sums + lane * kOuterChunk, a, b, k + lane * kPerLane, length, ahead, columns);
    }
  const auto sums_at = [&](int64_t at) { return sums + at % kElements / kPerLane * kOuterChunk; };
#pragma clang loop unroll(disable)
  for (; k < length; k += Step<T>::rows) add_scaled<T, 1>(p, sums_at(k), a, b, k, length, Step<T>::rows, columns);
  // The zeros behind the last k that the other paths add: they turn a sum of -0 into +0.
#pragma clang loop unroll(disable)
  for (; k % kElements != 0; ++k)
#pragma clang loop vectorize(disable) unroll(disable)
    for (int64_t n = 0; n < columns; ++n) sums_at(k)[n] += 0.0f;
}

template <class T>
GX_INLINE void outer_chunk(const Problem& p, float* scratch, const T* a, const T* b, const Output<T>& out,
                           int64_t begin, int64_t columns) {
  float* totals = scratch;
  float* sums = scratch + kOuterChunk;
  for (int64_t n = 0; n < columns; ++n) totals[n] = 0.0f;
  for (int64_t start = 0; start < p.k; start += p.block_k) {
    outer_block<T>(p, sums, a + start * p.a_k, b + start * p.b_k + begin, min(p.block_k, p.k - start), columns);
    const int64_t done = add_block<kLanes>(totals, sums, start == 0, 0, columns);
    add_block<1>(totals, sums, start == 0, done, columns);
  }
  out.template finish_row<kLanes>(totals, columns, 0, begin);
}

template <class T>
GX_INLINE void run_outer(const Problem& p, void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end,
                         float* scratch) {
  const int64_t per_batch = ceil_div(p.n, kOuterColumns);
  while (begin < end) {
    const int64_t batch = begin / per_batch, first = begin - batch * per_batch;
    const int64_t last = min(per_batch, first + end - begin);
    const int64_t column_end = min(p.n, last * kOuterColumns);
    const T* a = static_cast<const T*>(pointers[1]) + batch * p.a_batch;
    const T* b = static_cast<const T*>(pointers[2]) + batch * p.b_batch;
    const Output<T> out = Output<T>::of(p, pointers, sizes, batch);
    for (int64_t n = first * kOuterColumns; n < column_end; n += kOuterChunk)
      outer_chunk<T>(p, scratch, a, b, out, n, min(kOuterChunk, column_end - n));
    begin += last - first;
  }
}

}  // namespace graphex::kernels::matmul
