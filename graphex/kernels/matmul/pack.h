// Operand elements as fp32 vectors in the family's order of k, straight from memory or packed into panels.
//
// A panel of R rows holds, vector after vector along k, R times kLanes floats, zero beyond the last k and the last row.
// The order of k within a panel is the order in which one raw load of the element type widens: for bf16 the even
// elements of 2 * kLanes first, then the odd ones, for that takes one shift and one mask instead of a lane crossing.
#pragma once

#include "graphex/kernels/simd.h"

namespace graphex::kernels::matmul {

// How one raw load of T widens: `elements` consecutive k become `parts` vectors; `index` is the k at a lane.
template <class T>
struct Group {
  static constexpr int parts = 1;
  static constexpr int elements = kLanes;
  static constexpr int index(int, int lane) { return lane; }
  GX_INLINE Vec widen(const T* from, int) { return load_floats<kLanes>(from); }
};
template <>
struct Group<bf16> {
  static constexpr int parts = 2;
  static constexpr int elements = 2 * kLanes;
  static constexpr int index(int part, int lane) { return 2 * lane + part; }
  GX_INLINE Vec widen(const bf16* from, int part) {
    const auto pairs = load<Words<kLanes>>(from);
    return __builtin_bit_cast(Vec, part == 0 ? pairs << 16 : pairs & 0xffff0000u);
  }
};

// The last `count` (< elements) of a row with zeros behind them; memory beyond them isn't touched.
template <class T>
struct Tail {
  T values[Group<T>::elements] = {};

  GX_INLINE void copy(Tail& to, const T* from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      to.values[i] = from[i];
      asm volatile("" ::: "memory");  // else the loop becomes a call of memcpy, around which every sum is spilled
    }
  }
};

// One row, contiguous along k, into row `row` of a panel of `rows`.
template <class T>
GX_NOINLINE void pack_row(float* panel, int64_t rows, int64_t row, const T* from, int64_t k) {
  constexpr int kElements = Group<T>::elements;
  float* to = panel + row * kLanes;
  const auto put = [&](const T* group) __attribute__((always_inline)) {
#pragma unroll
    for (int part = 0; part < Group<T>::parts; ++part, to += rows * kLanes) store(to, Group<T>::widen(group, part));
  };
#pragma clang loop unroll(disable)
  for (; k >= kElements; k -= kElements, from += kElements) put(from);
  if (k == 0) return;
  Tail<T> tail;
  Tail<T>::copy(tail, from, k);
  put(tail.values);
}

// The same for any stride along k.
template <class T>
GX_NOINLINE void gather_row(float* panel, int64_t rows, int64_t row, const T* from, int64_t stride, int64_t k) {
  float* to = panel + row * kLanes;
  for (int64_t start = 0; start < k; start += Group<T>::elements)
#pragma clang loop unroll(disable)
    for (int part = 0; part < Group<T>::parts; ++part, to += rows * kLanes)
#pragma clang loop vectorize(disable) unroll(disable)
      for (int lane = 0; lane < kLanes; ++lane) {
        const int64_t at = start + Group<T>::index(part, lane);
        to[lane] = at < k ? load_float(from + at * stride) : 0.0f;
      }
}

GX_INLINE void zero_row(float* panel, int64_t rows, int64_t row, int64_t vectors) {
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < vectors; ++i) store(panel + (i * rows + row) * kLanes, Vec(0.0f));
}

template <class T>
GX_INLINE int64_t vectors_of(int64_t k) {
  return (k + Group<T>::elements - 1) / Group<T>::elements * Group<T>::parts;
}

// Four vectors of four lanes, rows and columns exchanged.
GX_INLINE void transpose(Quad& a, Quad& b, Quad& c, Quad& d) {
  const Quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  a = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
  b = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
  c = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  d = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

// A panel of four rows whose elements lie side by side (B as [K, N]): from + k * stride_k holds the four.
template <class T>
GX_NOINLINE void pack_columns(float* panel, const T* from, int64_t stride_k, int64_t k) {
  constexpr int kElements = Group<T>::elements;
  int64_t start = 0;
  for (; start + kElements <= k; start += kElements, from += kElements * stride_k)
#pragma unroll
    for (int part = 0; part < Group<T>::parts; ++part, panel += 4 * kLanes)
#pragma unroll
      for (int lane = 0; lane < kLanes; lane += 4) {
        Quad quads[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) quads[i] = load_floats<4>(from + Group<T>::index(part, lane + i) * stride_k);
        transpose(quads[0], quads[1], quads[2], quads[3]);
#pragma unroll
        for (int i = 0; i < 4; ++i) store(panel + i * kLanes + lane, quads[i]);
      }
  for (int64_t row = 0; start < k && row < 4; ++row) gather_row(panel, 4, row, from + row, stride_k, k - start);
}

}  // namespace graphex::kernels::matmul
