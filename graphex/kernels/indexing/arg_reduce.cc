// Positions of the largest or smallest elements. The contract is in indexing.h.
#include "graphex/kernels/indexing/numbers.h"
#include "graphex/kernels/indexing/walk.h"

extern "C" {
extern const int64_t GX_ARG_MIN;
}

namespace graphex::kernels {

// Elements that are reduced to one value before anybody asks where it was.
inline constexpr int64_t kScanBlock = 512;
// Elements of one tile.
inline constexpr int64_t kTileElements = 8192;
// Fewer rows than this are worth cutting.
inline constexpr int64_t kFewRows = 16;

template <typename A>
struct Best {
  A value;
  int64_t index;
};

template <typename A>
GX_INLINE bool beats(A a, A b) {
  return GX_ARG_MIN ? a < b : a > b;
}

// Whether `a` comes before `b`, which stands earlier in the row: NaN is beyond everything but an earlier NaN.
template <typename A>
GX_INLINE bool replaces(A a, A b) {
  return beats(a, b) || (a != a && b == b);
}

// [begin, end) of one row, element by element from the second on.
template <typename T, typename A>
GX_INLINE Best<A> scan(const T* row, int64_t stride, int64_t begin, int64_t end) {
  Best<A> best = {widen(row[begin * stride]), begin};
  for (int64_t i = begin + 1; i < end; ++i) {
    const A value = widen(row[i * stride]);
    if (replaces(value, best.value)) best = {value, i};
  }
  return best;
}

// Whether a block holds an element that would replace `value`; a plain loop that vectorises.
template <typename T, typename A>
GX_INLINE bool block_replaces(const T* block, A value) {
  int found = 0;
  for (int64_t i = 0; i < kScanBlock; ++i) found |= replaces<A>(widen(block[i]), value);
  return found != 0;
}

template <typename T, typename A>
GX_INLINE Best<A> arg_best(const T* row, int64_t stride, int64_t begin, int64_t end) {
  if (stride != 1) return scan<T, A>(row, stride, begin, end);
  Best<A> best = {widen(row[begin]), begin};
  for (int64_t i = begin; i < end; i += kScanBlock) {
    if (i + kScanBlock <= end && !block_replaces<T, A>(row + i, best.value)) continue;
    const Best<A> other = scan<T, A>(row, 1, i, min_of(i + kScanBlock, end));
    if (replaces(other.value, best.value)) best = other;
  }
  return best;
}

template <typename T>
GX_INLINE const T* row_of(void* const* pointers, const int64_t* sizes, int64_t row) {
  const int64_t o = row / sizes[kReduceInner], n = row % sizes[kReduceInner];
  return static_cast<const T*>(pointers[1]) + o * sizes[kReduceInStrideO] + n * sizes[kReduceInStrideN];
}

GX_INLINE int64_t* result_of(void* const* pointers, const int64_t* sizes, int64_t row) {
  const int64_t o = row / sizes[kReduceInner], n = row % sizes[kReduceInner];
  return static_cast<int64_t*>(pointers[0]) + o * sizes[kReduceOutStrideO] + n * sizes[kReduceOutStrideN];
}

GX_INLINE int64_t reduce_rows(const int64_t* sizes) { return sizes[kReduceOuter] * sizes[kReduceInner]; }
GX_INLINE bool is_cut(const int64_t* sizes) {
  return reduce_rows(sizes) < kFewRows && sizes[kReduceLength] >= 2 * kTileElements;
}
GX_INLINE int64_t pieces(const int64_t* sizes) { return ceil_div(sizes[kReduceLength], kTileElements); }
GX_INLINE int64_t rows_per_tile(const int64_t* sizes) {
  return max_of(1, kTileElements / max_of(1, sizes[kReduceLength]));
}

template <typename T>
using Widened = decltype(widen(T{}));

template <typename T>
GX_INLINE void arg_reduce(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end) {
  using A = Widened<T>;
  const int64_t last = min_of(end * rows_per_tile(sizes), reduce_rows(sizes));
  for (int64_t row = begin * rows_per_tile(sizes); row < last; ++row)
    *result_of(pointers, sizes, row) =
        arg_best<T, A>(row_of<T>(pointers, sizes, row), sizes[kReduceInStrideL], 0, sizes[kReduceLength]).index;
}

template <typename T>
GX_INLINE void arg_reduce_partial(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end) {
  using A = Widened<T>;
  auto* partial = static_cast<Best<A>*>(pointers[2]);
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t row = tile / pieces(sizes), first = tile % pieces(sizes) * kTileElements;
    partial[tile] = arg_best<T, A>(row_of<T>(pointers, sizes, row), sizes[kReduceInStrideL], first,
                                   min_of(first + kTileElements, sizes[kReduceLength]));
  }
}

template <typename T>
GX_INLINE void arg_reduce_merge(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end) {
  using A = Widened<T>;
  for (int64_t row = begin; row < end; ++row) {
    const auto* partial = static_cast<const Best<A>*>(pointers[2]) + row * pieces(sizes);
    Best<A> best = partial[0];
    for (int64_t i = 1; i < pieces(sizes); ++i)
      if (replaces(partial[i].value, best.value)) best = partial[i];
    *result_of(pointers, sizes, row) = best.index;
  }
}

GX_INLINE int64_t arg_reduce_tiles(const int64_t* sizes) {
  return is_cut(sizes) ? 0 : ceil_div(reduce_rows(sizes), rows_per_tile(sizes));
}
GX_INLINE int64_t arg_reduce_partial_tiles(const int64_t* sizes) {
  return is_cut(sizes) ? reduce_rows(sizes) * pieces(sizes) : 0;
}

}  // namespace graphex::kernels

#define GX_ARG_REDUCE(name, T)                                                                                        \
  extern "C" void gx_arg_reduce_##name(void* const* p, const int64_t* s, int64_t b, int64_t e, GxWorker*) {           \
    graphex::kernels::arg_reduce<T>(p, s, b, e);                                                                      \
  }                                                                                                                   \
  extern "C" int64_t gx_arg_reduce_##name##_tiles(const int64_t* s) { return graphex::kernels::arg_reduce_tiles(s); } \
  extern "C" void gx_arg_reduce_partial_##name(void* const* p, const int64_t* s, int64_t b, int64_t e, GxWorker*) {   \
    graphex::kernels::arg_reduce_partial<T>(p, s, b, e);                                                              \
  }                                                                                                                   \
  extern "C" int64_t gx_arg_reduce_partial_##name##_tiles(const int64_t* s) {                                         \
    return graphex::kernels::arg_reduce_partial_tiles(s);                                                             \
  }                                                                                                                   \
  extern "C" int64_t gx_arg_reduce_partial_##name##_workspace(const int64_t* s) {                                     \
    using Cell = graphex::kernels::Best<graphex::kernels::Widened<T>>;                                                \
    return graphex::kernels::arg_reduce_partial_tiles(s) * static_cast<int64_t>(sizeof(Cell));                        \
  }                                                                                                                   \
  extern "C" void gx_arg_reduce_merge_##name(void* const* p, const int64_t* s, int64_t b, int64_t e, GxWorker*) {     \
    graphex::kernels::arg_reduce_merge<T>(p, s, b, e);                                                                \
  }                                                                                                                   \
  extern "C" int64_t gx_arg_reduce_merge_##name##_tiles(const int64_t* s) {                                           \
    return graphex::kernels::is_cut(s) ? graphex::kernels::reduce_rows(s) : 0;                                        \
  }

GX_ARG_REDUCE(f32, float)
GX_ARG_REDUCE(f64, double)
GX_ARG_REDUCE(bf16, graphex::kernels::Bf16)
GX_ARG_REDUCE(f16, graphex::kernels::F16)
GX_ARG_REDUCE(i64, int64_t)
GX_ARG_REDUCE(i32, int32_t)
GX_ARG_REDUCE(i16, int16_t)
GX_ARG_REDUCE(i8, int8_t)
GX_ARG_REDUCE(u8, uint8_t)
