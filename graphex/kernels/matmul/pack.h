// Operand rows and columns packed into panels, in the family's order of k.
//
// A panel of R rows holds, vector after vector along k, R vectors, zero beyond the last k and the last row. Vectors are
// fp32, k in the order in which one raw load of the element type widens: for bf16 the even elements of 2 * kLanes
// first, then the odd ones, since a shift and a blend are cheaper than crossing lanes. Where the level multiplies pairs
// of bf16 they stay as they are.
#pragma once

#include "graphex/kernels/simd.h"

namespace graphex::kernels::matmul {

// A group of fp32 vectors: `elements` consecutive k become `parts` vectors of `lanes` elements.
struct FloatGroup {
  using Vector = Vec;
  using Element = float;
  static constexpr int lanes = kLanes;
  GX_INLINE Vec add(Vec sum, Vec a, Vec b) { return multiply_add(a, b, sum); }
  template <class T>
  GX_INLINE float element(const T* from) {
    return load_float(from);
  }
};

// How one raw load of T becomes vectors; `index` is the k at a lane of a part.
template <class T>
struct Group : FloatGroup {
  static constexpr int parts = 1;
  static constexpr int elements = kLanes;
  static constexpr int index(int, int lane) { return lane; }
  GX_INLINE Vec vector(const T* from, int) { return load_floats<kLanes>(from); }
};
#if defined(__AVX512BF16__)
template <>
struct Group<bf16> {
  using Vector = Words<kLanes>;
  using Element = bf16;
  static constexpr int lanes = 2 * kLanes;
  static constexpr int parts = 1;
  static constexpr int elements = 2 * kLanes;
  static constexpr int index(int, int lane) { return lane; }
  GX_INLINE Vector vector(const bf16* from, int) { return load<Vector>(from); }
  GX_INLINE Vec add(Vec sum, Vector a, Vector b) {
    using Pairs = __bf16 __attribute__((vector_size(64)));
    return __builtin_ia32_dpbf16ps_512(sum, __builtin_bit_cast(Pairs, a), __builtin_bit_cast(Pairs, b));
  }
  GX_INLINE bf16 element(const bf16* from) { return *from; }
};
#else
template <>
struct Group<bf16> : FloatGroup {
  static constexpr int parts = 2;
  static constexpr int elements = 2 * kLanes;
  static constexpr int index(int part, int lane) { return 2 * lane + part; }
  GX_INLINE Vec vector(const bf16* from, int part) {
    if (part == 0) return __builtin_bit_cast(Vec, load<Words<kLanes>>(from) << 16);
#if defined(__AVX2__) && !defined(__AVX512F__)
    // The compiler would hold the zero, or a mask, in a register for the whole loop; a tile of sums needs all sixteen.
    Vec odd;
    asm("vxorps %0, %0, %0\n\tvpblendw $0xaa, %1, %0, %0" : "=x"(odd) : "m"(*reinterpret_cast<const Raw*>(from)));
    return odd;
#else
    return __builtin_bit_cast(Vec, load<Words<kLanes>>(from) & 0xffff0000u);
#endif
  }

 private:
  struct Raw {
    uint16_t bits[2 * kLanes];
  };
};
#endif

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

template <class T>
GX_INLINE int64_t vectors_of(int64_t k) {
  return (k + Group<T>::elements - 1) / Group<T>::elements * Group<T>::parts;
}

// Floats that a row of a panel takes.
template <class T>
GX_INLINE int64_t floats_of(int64_t k) {
  return vectors_of<T>(k) * kLanes;
}

// R rows, contiguous along k, into a panel of R.
template <class T, int R>
GX_NOINLINE void pack_rows(float* panel, const T* from, int64_t stride, int64_t k) {
  constexpr int kElements = Group<T>::elements, kParts = Group<T>::parts;
  const T* rows[R];
#pragma unroll
  for (int row = 0; row < R; ++row) rows[row] = from + row * stride;
  int64_t at = 0;
#pragma clang loop unroll(disable)
  for (; at + kElements <= k; at += kElements, panel += kParts * R * kLanes) {
#pragma unroll
    for (int row = 0; row < R; ++row) __builtin_prefetch(rows[row] + at + R * stride);
#pragma unroll
    for (int i = 0; i < kParts * R; ++i) store(panel + i * kLanes, Group<T>::vector(rows[i % R] + at, i / R));
  }
  if (at == k) return;
#pragma clang loop unroll(disable)
  for (int row = 0; row < R; ++row) {
    Tail<T> tail;
    Tail<T>::copy(tail, from + row * stride + at, k - at);
    for (int part = 0; part < kParts; ++part)
      store(panel + (part * R + row) * kLanes, Group<T>::vector(tail.values, part));
  }
}

// One row with any stride along k into row `row` of a panel of `rows`.
template <class T>
GX_NOINLINE void gather_row(float* panel, int64_t rows, int64_t row, const T* from, int64_t stride, int64_t k) {
  using Element = typename Group<T>::Element;
  constexpr int kWide = Group<T>::lanes;
  Element* to = reinterpret_cast<Element*>(panel) + row * kWide;
#pragma clang loop unroll(disable)
  for (int64_t start = 0; start < k; start += Group<T>::elements)
#pragma clang loop unroll(disable)
    for (int part = 0; part < Group<T>::parts; ++part, to += rows * kWide)
#pragma clang loop vectorize(disable) unroll(disable)
      for (int lane = 0; lane < kWide; ++lane) {
        const int64_t at = start + Group<T>::index(part, lane);
        to[lane] = at < k ? Group<T>::element(from + at * stride) : Element{};
      }
}

GX_INLINE void zero_row(float* panel, int64_t rows, int64_t row, int64_t vectors) {
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < vectors; ++i) store(panel + (i * rows + row) * kLanes, Vec(0.0f));
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

// What 32 bits of lane `lane` hold, of four rows whose elements lie side by side: from + k * stride holds the four.
template <class T>
GX_INLINE Quad four_rows(const T* from, int64_t stride, int part, int lane) {
  if constexpr (sizeof(typename Group<T>::Element) == sizeof(float)) {
    return load_floats<4>(from + Group<T>::index(part, lane) * stride);
  } else {
    const T* even = from + 2 * lane * stride;
    const auto wide = [](const T* at) { return __builtin_convertvector(load<Halves<4>>(at), Words<4>); };
    return __builtin_bit_cast(Quad, wide(even) | wide(even + stride) << 16);
  }
}

// A panel of four such rows (B as [K, N]).
template <class T>
GX_NOINLINE void pack_columns(float* panel, const T* from, int64_t stride, int64_t k) {
  constexpr int kElements = Group<T>::elements;
  int64_t at = 0;
#pragma clang loop unroll(disable)
  for (; at + kElements <= k; at += kElements)
#pragma clang loop unroll(disable)
    for (int part = 0; part < Group<T>::parts; ++part, panel += 4 * kLanes)
#pragma unroll
      for (int lane = 0; lane < kLanes; lane += 4) {
        Quad quads[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) quads[i] = four_rows(from + at * stride, stride, part, lane + i);
        transpose(quads[0], quads[1], quads[2], quads[3]);
#pragma unroll
        for (int i = 0; i < 4; ++i) store(panel + i * kLanes + lane, quads[i]);
      }
#pragma clang loop unroll(disable)
  for (int64_t row = 0; at < k && row < 4; ++row) gather_row(panel, 4, row, from + at * stride + row, stride, k - at);
}

}  // namespace graphex::kernels::matmul
