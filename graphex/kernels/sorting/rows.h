// What topk and sort share: elements as integers in the wanted order, and a row's place in memory and memory of its
// own.
#pragma once

#include "graphex/base/dtype.h"
#include "graphex/base/kernel_abi.h"
#include "graphex/kernels/indexing/numbers.h"
#include "graphex/kernels/simd.h"
#include "graphex/kernels/sorting/sorting.h"

extern "C" {
extern const int64_t GX_ELEMENT;
extern const int64_t GX_DESCENDING;
}

namespace graphex::kernels {

template <int Bytes>
struct KeyOfBytes {
  using type = uint64_t;
};
template <>
struct KeyOfBytes<4> {
  using type = uint32_t;
};
template <>
struct KeyOfBytes<2> {
  using type = uint16_t;
};
template <>
struct KeyOfBytes<1> {
  using type = uint8_t;
};
template <typename T>
using Key = typename KeyOfBytes<sizeof(T)>::type;

template <typename T>
inline constexpr int kMantissaBits = __is_same(T, double)  ? 52
                                     : __is_same(T, float) ? 23
                                     : __is_same(T, Bf16)  ? 7
                                                           : 10;

// Of two elements that differ in order, the first has the smaller key; of two that don't, both have one key.
template <typename T>
GX_INLINE Key<T> key_of(T element) {
  using K = Key<T>;
  constexpr K kSign = static_cast<K>(K{1} << (8 * sizeof(K) - 1)), kAll = static_cast<K>(~K{0});
  const K bits = __builtin_bit_cast(K, element);
  K key = bits;
  if constexpr (kIsFloat<T>) {
    constexpr K kInf = static_cast<K>(static_cast<K>(kAll << kMantissaBits<T>) & ~kSign);
    const K magnitude = bits & static_cast<K>(~kSign);
    const K negative = static_cast<K>(~bits), positive = static_cast<K>(bits | kSign);
    key = (bits & kSign) && magnitude ? negative : positive;
    key = magnitude > kInf ? kAll : key;
  } else if constexpr (T(-1) < T(0)) {
    key = static_cast<K>(bits ^ kSign);
  }
  return GX_DESCENDING ? static_cast<K>(~key) : key;
}

// One type for all elements: the algorithms over it are long.
struct Keyed {
  uint64_t key;
  int64_t index;
};

struct Before {
  bool operator()(const Keyed& a, const Keyed& b) const { return a.key < b.key; }
};

// One row: its elements are `step` apart in all three operands.
template <typename T>
struct Row {
  const T* in;
  T* values;
  int64_t* indices;
  int64_t step, length, kept;

  Keyed keyed(int64_t i) const { return {key_of(in[i * step]), i}; }

  void write(const Keyed* chosen) const {
    for (int64_t i = 0; i < kept; ++i) {
      values[i * step] = in[chosen[i].index * step];
      indices[i * step] = chosen[i].index;
    }
  }
};

template <typename T>
GX_INLINE Row<T> row_at(void* const* pointers, const int64_t* sizes, int64_t row) {
  const int64_t inner = sizes[kSortInner];
  const int64_t o = inner == 1 ? row : row / inner, n = inner == 1 ? 0 : row % inner;  // short rows feel a division
  const int64_t in = o * sizes[kSortLength] * inner + n, out = o * sizes[kSortKept] * inner + n;
  return {static_cast<const T*>(pointers[2]) + in,
          static_cast<T*>(pointers[0]) + out,
          static_cast<int64_t*>(pointers[1]) + out,
          inner,
          sizes[kSortLength],
          sizes[kSortKept]};
}

GX_INLINE int64_t row_count(const int64_t* sizes) { return sizes[kSortOuter] * sizes[kSortInner]; }

// Short rows share a tile.
GX_INLINE int64_t rows_per_tile(const int64_t* sizes) { return ceil_div(4096, sizes[kSortLength] + 1); }
GX_INLINE int64_t row_tiles(const int64_t* sizes) {
  return sizes[kSortKept] == 0 ? 0 : ceil_div(row_count(sizes), rows_per_tile(sizes));
}

// A row works in the worker's scratch where it fits, else in a part of the workspace.
GX_INLINE int64_t row_workspace(const int64_t* sizes, int64_t row_bytes) {
  return row_bytes <= GX_SCRATCH_BYTES ? 0 : row_count(sizes) * row_bytes;
}
GX_INLINE void* row_memory(void* const* pointers, int64_t row, int64_t row_bytes, const GxWorker* worker) {
  return row_bytes <= GX_SCRATCH_BYTES ? worker->scratch : static_cast<char*>(pointers[3]) + row * row_bytes;
}

// Calls f with an element of the knob's type.
template <typename F>
GX_INLINE void with_sort_element(F f) {
  const auto dtype = static_cast<DType>(GX_ELEMENT);
  if (dtype == DType::kF32) f(float{});
  if (dtype == DType::kF64) f(double{});
  if (dtype == DType::kBF16) f(Bf16{});
  if (dtype == DType::kF16) f(F16{});
  if (dtype == DType::kI64) f(int64_t{});
  if (dtype == DType::kI32) f(int32_t{});
  if (dtype == DType::kI16) f(int16_t{});
  if (dtype == DType::kI8) f(int8_t{});
  if (dtype == DType::kU8 || dtype == DType::kBool) f(uint8_t{});
}

// Calls f(row, row_bytes of memory) for each row of the tiles.
template <typename F>
GX_INLINE void for_each_row(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end,
                            const GxWorker* worker, int64_t row_bytes, F f) {
  const int64_t last = min(end * rows_per_tile(sizes), row_count(sizes));
  with_sort_element([&](auto element) {
    for (int64_t row = begin * rows_per_tile(sizes); row < last; ++row)
      f(row_at<decltype(element)>(pointers, sizes, row),
        static_cast<Keyed*>(row_memory(pointers, row, row_bytes, worker)));
  });
}

}  // namespace graphex::kernels
