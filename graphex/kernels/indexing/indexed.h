// What index, index_put and index_add share: the iteration space and how a point finds its element of the base.
#pragma once

#include "graphex/kernels/indexing/walk.h"

extern "C" {
extern const int64_t GX_INDEX_BYTES;
extern const int64_t GX_WRAP;
}

namespace graphex::kernels {

// Operands of the walks.
enum { kBaseOperand, kOtherOperand, kFirstIndexOperand, kIndexOperands = kFirstIndexOperand + kMaxIndices };
using IndexWalk = Walk<kIndexOperands>;

GX_INLINE const int64_t* index_tensor(const int64_t* sizes, int64_t k) {
  return sizes + kIndexTensors + k * kIndexTensorSizes;
}

// The dimensions that are in the set `dims`, in their order.
GX_INLINE IndexWalk walk_over(const int64_t* sizes, int64_t dims) {
  IndexWalk walk;
  for (int64_t d = 0; d < sizes[kIndexRank]; ++d) {
    if (!(dims >> d & 1)) continue;
    walk.strides[kBaseOperand][walk.rank] = sizes[kIndexBaseStrides + d];
    walk.strides[kOtherOperand][walk.rank] = sizes[kIndexOtherStrides + d];
    for (int64_t k = 0; k < kMaxIndices; ++k)
      walk.strides[kFirstIndexOperand + k][walk.rank] = k < sizes[kIndexCount] ? index_tensor(sizes, k)[3 + d] : 0;
    walk.add(sizes[kIndexShape + d]);
  }
  walk.merge();
  return walk;
}

// Whether every index is the same all along a run.
GX_INLINE bool has_fixed_indices(const IndexWalk& walk) {
  for (int64_t k = 0; k < kMaxIndices; ++k)
    if (walk.strides[kFirstIndexOperand + k][walk.rank - 1] != 0) return false;
  return true;
}

GX_INLINE int64_t load_index(const void* indices, int64_t at) {
  return GX_INDEX_BYTES == 4 ? static_cast<const int32_t*>(indices)[at] : static_cast<const int64_t*>(indices)[at];
}

// Adds the indexed part to *at; false, with a report, if an index is out of range. `offsets` are those of a run's
// start; the point is `step` elements into it.
GX_INLINE bool resolve(void* const* pointers, const int64_t* sizes, const IndexWalk& walk, const int64_t* offsets,
                       int64_t step, GxWorker* worker, int64_t* at) {
  const int inner = walk.rank - 1;
  for (int64_t k = 0; k < sizes[kIndexCount]; ++k) {
    const int64_t* tensor = index_tensor(sizes, k);
    const int operand = kFirstIndexOperand + static_cast<int>(k);
    const int64_t index = load_index(pointers[2 + k], offsets[operand] + step * walk.strides[operand][inner]);
    if (GX_WRAP == kSkipNegative && index < 0) return false;
    const int64_t wrapped = GX_WRAP && index < 0 ? index + tensor[0] : index;
    if (static_cast<uint64_t>(wrapped) >= static_cast<uint64_t>(tensor[0])) {
      report_index(worker, index, tensor[0], tensor[2]);
      return false;
    }
    *at += wrapped * tensor[1];
  }
  return true;
}

// Calls f(offset in base, offset in other, length) for the runs of [begin, end) whose indices are in range. Offsets are
// relative to `start`, the offsets of the walk's origin.
template <typename F>
GX_INLINE void for_each_indexed_run(void* const* pointers, const int64_t* sizes, const IndexWalk& walk,
                                    const int64_t* start, int64_t begin, int64_t end, GxWorker* worker, F f) {
  const int inner = walk.rank - 1;
  const bool fixed = has_fixed_indices(walk);
  for_each_run(walk, begin, end, [&](const int64_t* run, int64_t length) {
    int64_t offsets[kIndexOperands];
    for (int k = 0; k < kIndexOperands; ++k) offsets[k] = start[k] + run[k];
    if (fixed) {
      int64_t at = offsets[kBaseOperand];
      if (resolve(pointers, sizes, walk, offsets, 0, worker, &at)) f(at, offsets[kOtherOperand], length);
      return;
    }
    for (int64_t i = 0; i < length; ++i) {
      int64_t at = offsets[kBaseOperand] + i * walk.strides[kBaseOperand][inner];
      if (resolve(pointers, sizes, walk, offsets, i, worker, &at))
        f(at, offsets[kOtherOperand] + i * walk.strides[kOtherOperand][inner], 1);
    }
  });
}

// ---- in-place writers ----

struct WritePlan {
  IndexWalk ordered, free;
  int64_t per_tile;  // points of `free`
  int64_t tiles;
};

GX_INLINE WritePlan write_plan(const int64_t* sizes, int64_t element_bytes) {
  WritePlan plan = {walk_over(sizes, sizes[kIndexOrdered]), walk_over(sizes, ~sizes[kIndexOrdered]), 0, 0};
  const int64_t ordered = plan.ordered.count(), free = plan.free.count();
  if (ordered == 0 || free == 0) return plan;
  plan.per_tile = max_of(1, kTileBytes / (ordered * element_bytes));
  plan.tiles = ceil_div(free, plan.per_tile);
  return plan;
}

// Calls f(offset in base, base stride, offset in value, value stride, length) for the runs of the tiles [begin, end),
// in row-major order over the ordered dimensions.
template <typename F>
GX_INLINE void for_each_write(void* const* pointers, const int64_t* sizes, int64_t element_bytes, int64_t begin,
                              int64_t end, GxWorker* worker, F f) {
  const WritePlan plan = write_plan(sizes, element_bytes);
  const int64_t first = begin * plan.per_tile, last = min_of(end * plan.per_tile, plan.free.count());
  const int64_t base_stride = plan.free.strides[kBaseOperand][plan.free.rank - 1];
  const int64_t value_stride = plan.free.strides[kOtherOperand][plan.free.rank - 1];
  const int inner = plan.ordered.rank - 1;
  for_each_run(plan.ordered, 0, plan.ordered.count(), [&](const int64_t* run, int64_t length) {
    for (int64_t i = 0; i < length; ++i) {
      int64_t start[kIndexOperands];
      for (int k = 0; k < kIndexOperands; ++k) start[k] = run[k] + i * plan.ordered.strides[k][inner];
      for_each_indexed_run(
          pointers, sizes, plan.free, start, first, last, worker,
          [&](int64_t at, int64_t other, int64_t count) { f(at, base_stride, other, value_stride, count); });
    }
  });
}

}  // namespace graphex::kernels
