// Copies between layouts and fills. The contract is in indexing.h.
#include "graphex/kernels/indexing/walk.h"

extern "C" {
extern const int64_t GX_ELEMENT_BYTES;
}

namespace graphex::kernels {

enum { kOutOperand, kInOperand, kCopyOperands };
using CopyWalk = Walk<kCopyOperands>;

// Side of a block that a transposing copy reads along one dimension and writes along the other.
inline constexpr int64_t kBlock = 64;

struct CopyPlan {
  CopyWalk walk;   // what is left when the block dimensions are taken out, or everything
  bool transpose;  // in is contiguous along `rows`, out along `columns`
  int64_t rows, columns, row_out_stride, column_in_stride;
  int64_t tiles;
};

GX_INLINE CopyWalk copy_walk(const int64_t* sizes, bool is_fill) {
  CopyWalk walk;
  for (int64_t d = 0; d < sizes[kCopyRank]; ++d) {
    walk.strides[kOutOperand][walk.rank] = sizes[kCopyOutStrides + d];
    walk.strides[kInOperand][walk.rank] = is_fill ? 0 : sizes[kCopyInStrides + d];
    walk.add(sizes[kCopyShape + d]);
  }
  // Out's smallest stride goes innermost: whole lines are written.
  for (int d = 1; d < walk.rank; ++d)
    for (int e = d; e > 0 && walk.strides[kOutOperand][e - 1] < walk.strides[kOutOperand][e]; --e) {
      const int64_t shape = walk.shape[e];
      walk.shape[e] = walk.shape[e - 1];
      walk.shape[e - 1] = shape;
      for (int k = 0; k < kCopyOperands; ++k) {
        const int64_t stride = walk.strides[k][e];
        walk.strides[k][e] = walk.strides[k][e - 1];
        walk.strides[k][e - 1] = stride;
      }
    }
  walk.merge();
  return walk;
}

GX_INLINE CopyPlan copy_plan(const int64_t* sizes, bool is_fill) {
  CopyPlan plan = {};
  plan.walk = copy_walk(sizes, is_fill);
  const int inner = plan.walk.rank - 1;
  int rows = -1;
  for (int d = 0; d < inner; ++d)
    if (plan.walk.strides[kInOperand][d] == 1) rows = d;
  plan.transpose = rows >= 0 && plan.walk.strides[kOutOperand][inner] == 1 &&
                   plan.walk.strides[kInOperand][inner] != 1 && plan.walk.shape[rows] >= 4 &&
                   plan.walk.shape[inner] >= 4;
  if (!plan.transpose) {
    plan.tiles = ceil_div(plan.walk.count(), kTileBytes / GX_ELEMENT_BYTES);
    return plan;
  }
  plan.columns = plan.walk.shape[inner];
  plan.column_in_stride = plan.walk.strides[kInOperand][inner];
  plan.rows = plan.walk.shape[rows];
  plan.row_out_stride = plan.walk.strides[kOutOperand][rows];
  plan.walk.remove(inner);
  plan.walk.remove(rows);
  plan.walk.merge();
  plan.tiles = plan.walk.count() * ceil_div(plan.rows, kBlock) * ceil_div(plan.columns, kBlock);
  return plan;
}

// Side of a square that registers transpose: whole vectors, and whole cache lines where a vector is one.
template <typename T>
inline constexpr int kSide = kLanes * 4 / sizeof(T) < 16 ? kLanes * 4 / sizeof(T) : 16;

template <typename T, int N>
using Row = T __attribute__((ext_vector_type(N)));

// Numbers<N>: 0 .. N - 1 as a pack.
template <int... I>
struct Pack {};
template <class, int... I>
using PackOf = Pack<I...>;
template <int N>
using Numbers = __make_integer_seq<PackOf, int, N>;

template <class V, int... I>
GX_INLINE V interleave_low(V a, V b, Pack<I...>) {
  return __builtin_shufflevector(a, b, (I / 2 + I % 2 * int(sizeof...(I)))...);
}
template <class V, int... I>
GX_INLINE V interleave_high(V a, V b, Pack<I...>) {
  constexpr int kHalf = sizeof...(I) / 2;
  return __builtin_shufflevector(a, b, (kHalf + I / 2 + I % 2 * int(sizeof...(I)))...);
}

// N rows of N: each step interleaves the first half of the rows with the second.
template <typename T, int N>
GX_INLINE void transpose_square(T* out, int64_t out_stride, const T* in, int64_t in_stride) {
  Row<T, N> rows[N];
#pragma unroll
  for (int i = 0; i < N; ++i) rows[i] = load<Row<T, N>>(in + i * in_stride);
#pragma unroll
  for (int step = 1; step < N; step *= 2) {
    Row<T, N> next[N];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      next[2 * i] = interleave_low(rows[i], rows[i + N / 2], Numbers<N>{});
      next[2 * i + 1] = interleave_high(rows[i], rows[i + N / 2], Numbers<N>{});
    }
#pragma unroll
    for (int i = 0; i < N; ++i) rows[i] = next[i];
  }
#pragma unroll
  for (int i = 0; i < N; ++i) store(out + i * out_stride, rows[i]);
}

// out[r * out_stride + c] = in[c * in_stride + r]
template <typename T>
GX_INLINE void transpose_block(T* out, int64_t out_stride, const T* in, int64_t in_stride, int64_t rows,
                               int64_t columns) {
  constexpr int64_t kN = kSide<T>;
  const int64_t whole_rows = rows / kN * kN, whole_columns = columns / kN * kN;
#pragma clang loop unroll(disable)
  for (int64_t c = 0; c < whole_columns; c += kN)
#pragma clang loop unroll(disable)
    for (int64_t r = 0; r < whole_rows; r += kN)
      transpose_square<T, kN>(out + r * out_stride + c, out_stride, in + c * in_stride + r, in_stride);
  const auto rest = [&](int64_t r, int64_t first, int64_t end) {
#pragma clang loop unroll(disable) vectorize(disable)
    for (int64_t c = first; c < end; ++c) out[r * out_stride + c] = in[c * in_stride + r];
  };
  for (int64_t r = 0; r < rows; ++r) rest(r, r < whole_rows ? whole_columns : 0, columns);
}

template <typename T>
GX_INLINE void transpose_tile(T* out, const T* in, const CopyPlan& plan, int64_t tile) {
  const int64_t across = ceil_div(plan.columns, kBlock), down = ceil_div(plan.rows, kBlock);
  const int64_t c = tile % across * kBlock, r = tile / across % down * kBlock, outer = tile / across / down;
  for_each_run(plan.walk, outer, outer + 1, [&](const int64_t* offsets, int64_t) {
    transpose_block(out + offsets[kOutOperand] + r * plan.row_out_stride + c, plan.row_out_stride,
                    in + offsets[kInOperand] + c * plan.column_in_stride + r, plan.column_in_stride,
                    min_of(kBlock, plan.rows - r), min_of(kBlock, plan.columns - c));
  });
}

template <typename T>
GX_INLINE void copy(T* out, const T* in, const CopyPlan& plan, int64_t begin, int64_t end) {
  if (plan.transpose) {
    for (int64_t tile = begin; tile < end; ++tile) transpose_tile(out, in, plan, tile);
    return;
  }
  constexpr int64_t kPoints = kTileBytes / static_cast<int64_t>(sizeof(T));
  const int inner = plan.walk.rank - 1;
  for_each_run(plan.walk, begin * kPoints, min_of(end * kPoints, plan.walk.count()),
               [&](const int64_t* offsets, int64_t count) {
                 copy_run(out + offsets[kOutOperand], plan.walk.strides[kOutOperand][inner], in + offsets[kInOperand],
                          plan.walk.strides[kInOperand][inner], count);
               });
}

}  // namespace graphex::kernels

extern "C" void gx_copy(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker*) {
  using namespace graphex::kernels;
  const CopyPlan plan = copy_plan(sizes, false);
  with_element(GX_ELEMENT_BYTES, [&](auto element) {
    using T = decltype(element);
    copy(static_cast<T*>(pointers[0]), static_cast<const T*>(pointers[1]), plan, begin, end);
  });
}

extern "C" int64_t gx_copy_tiles(const int64_t* sizes) { return graphex::kernels::copy_plan(sizes, false).tiles; }

extern "C" void gx_fill(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker*) {
  using namespace graphex::kernels;
  const CopyPlan plan = copy_plan(sizes, true);
  with_element(GX_ELEMENT_BYTES, [&](auto element) {
    using T = decltype(element);
    const T value = static_cast<T>(sizes[kCopyFillValue]);
    copy(static_cast<T*>(pointers[0]), &value, plan, begin, end);
  });
}

extern "C" int64_t gx_fill_tiles(const int64_t* sizes) { return graphex::kernels::copy_plan(sizes, true).tiles; }
