// What a call works on: the size list by name, the keys each query may see, and how the work is cut.
#pragma once

#include "graphex/kernels/attention/attention.h"
#include "graphex/kernels/attention/vector.h"

extern "C" {
extern const int64_t GX_MASK;
extern const int64_t GX_MASK_F32;
extern const int64_t GX_LSE;
extern const int64_t GX_HEAD_DIM;
extern const int64_t GX_VALUE_DIM;
extern const int64_t GX_BLOCK_SIZE;
}

namespace graphex::kernels {

// Rows of one register tile: accumulators of kTileRows x 2 vectors leave room for the operands.
#if defined(__AVX512F__)
inline constexpr int64_t kTileRows = 12;
#else
inline constexpr int64_t kTileRows = 6;
#endif
inline constexpr int64_t kTileColumns = 2 * kLanes;
// Query rows that share a packed block of keys: packing costs under a tenth of the products, and they stay in L2.
inline constexpr int64_t kBlockRows = 96;

GX_INLINE int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
GX_INLINE constexpr int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }
GX_INLINE int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

struct Range {
  int64_t begin, end;
};

template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};

// Where the keys, or the values, of one kv head lie.
template <typename T>
struct Lines {
  const T* base;
  int64_t stride, block_stride;
  const int64_t* table;

  __attribute__((always_inline)) const T* row(int64_t key) const {
    if (GX_BLOCK_SIZE == 0) return base + key * stride;
    const uint64_t at = key, size = GX_BLOCK_SIZE;
    return base + table[at / size] * block_stride + static_cast<int64_t>(at % size) * stride;
  }
  // Rows [key, result) lie `stride` apart.
  __attribute__((always_inline)) int64_t run_end(int64_t key, int64_t end) const {
    const uint64_t at = key, size = GX_BLOCK_SIZE;
    return size == 0 ? end : min_of(end, static_cast<int64_t>((at / size + 1) * size));
  }
};

// Head dimensions as constants where the knobs give them.
GX_INLINE int64_t head_dim(const int64_t* sizes) { return GX_HEAD_DIM > 0 ? GX_HEAD_DIM : sizes[kHeadDim]; }
GX_INLINE int64_t value_dim(const int64_t* sizes) { return GX_VALUE_DIM > 0 ? GX_VALUE_DIM : sizes[kValueDim]; }
GX_INLINE int64_t padded_value_dim(const int64_t* sizes) { return round_up(value_dim(sizes), kTileColumns); }

GX_INLINE bool is_split(const int64_t* sizes) { return sizes[kQueries] <= kSplitQueries; }

// The heads of one kv head, in equal blocks of at most kBlockRows.
GX_INLINE int64_t group_size(const int64_t* sizes) { return sizes[kQueryHeads] / sizes[kKvHeads]; }
GX_INLINE int64_t head_blocks(const int64_t* sizes) {
  const int64_t rows = is_split(sizes) ? kBlockRows / max_of(1, sizes[kQueries]) : kBlockRows;
  return ceil_div(group_size(sizes), rows);
}
GX_INLINE int64_t heads_per_block(const int64_t* sizes) { return ceil_div(group_size(sizes), head_blocks(sizes)); }

// Queries of one prefill tile.
GX_INLINE int64_t queries_per_block(const int64_t* sizes) { return max_of(1, kBlockRows / heads_per_block(sizes)); }

// Keys that are packed at a time: with their values about half of L2.
GX_INLINE int64_t keys_per_block(const int64_t* sizes) {
  const int64_t width = head_dim(sizes) + value_dim(sizes);
  return width <= 256 ? 256 : width <= 1024 ? 128 : 64;
}

// Keys of one decode tile: short enough to balance few heads over few workers, long enough that merging stays cheap.
// Paged, a table's room says nothing of a sequence's length, and may differ from batch to batch.
GX_INLINE int64_t keys_per_chunk(const int64_t* sizes) {
  if (GX_BLOCK_SIZE > 0) return 128;
  return min_of(max_of(round_up(sizes[kKeys] / 64, 64), 64), 512);
}
GX_INLINE int64_t chunks(const int64_t* sizes) { return ceil_div(sizes[kKeys], keys_per_chunk(sizes)); }

// The keys that the structure of the mask lets query i of batch b see; masks held in memory are applied to scores.
GX_INLINE Range visible_keys(const int64_t* bound, const int64_t* sizes, int64_t b, int64_t i) {
  const int64_t keys = sizes[kKeys];
  if (GX_MASK != kMaskCausal && GX_MASK != kMaskBound) return {0, keys};
  const int64_t last = GX_MASK == kMaskCausal ? i : bound[b * sizes[kBoundStrideB] + i * sizes[kBoundStrideI]];
  const int64_t end = max_of(0, min_of(last, keys - 1) + 1);
  const int64_t begin = sizes[kWindow] > 0 && last >= sizes[kWindow] ? last - sizes[kWindow] + 1 : 0;
  return {min_of(begin, end), end};
}

// The chunks that hold a visible key of any query of batch b.
GX_INLINE Range visible_chunks(const int64_t* bound, const int64_t* sizes, int64_t b) {
  Range all = {sizes[kKeys], 0};
  GX_PLAIN_LOOP
  for (int64_t i = 0; i < sizes[kQueries]; ++i) {
    const Range keys = visible_keys(bound, sizes, b, i);
    if (keys.begin >= keys.end) continue;
    all = {min_of(all.begin, keys.begin), max_of(all.end, keys.end)};
  }
  if (all.begin >= all.end) return {0, 0};
  const int64_t length = keys_per_chunk(sizes);
  return {all.begin / length, ceil_div(all.end, length)};
}

// One row of partial results in the workspace: the unnormalised output, then maximum and sum, on whole cache lines.
GX_INLINE int64_t partial_row_floats(const int64_t* sizes) { return round_up(padded_value_dim(sizes) + 2, 16); }
GX_INLINE int64_t rows_per_chunk(const int64_t* sizes) { return sizes[kQueries] * heads_per_block(sizes); }

// Row `row` of a chunk; row = query * heads_per_block + head within its block.
GX_INLINE float* partial_row(float* workspace, const int64_t* sizes, int64_t block, int64_t chunk, int64_t row) {
  const int64_t index = (block * chunks(sizes) + chunk) * rows_per_chunk(sizes) + row;
  return workspace + index * partial_row_floats(sizes);
}

}  // namespace graphex::kernels
