// Whole rows by index: embedding and index_select. The contract is in indexing.h.
#include "graphex/kernels/indexing/walk.h"

extern "C" {
extern const int64_t GX_ELEMENT_BYTES;
extern const int64_t GX_INDEX_BYTES;
}

namespace graphex::kernels {

// A tile is some short rows, or a piece of a long one.
struct RowTiles {
  int64_t row_bytes, rows, rows_per_tile, pieces;
};

GX_INLINE RowTiles row_tiles(const int64_t* sizes) {
  RowTiles t = {};
  t.row_bytes = sizes[kGatherInner] * GX_ELEMENT_BYTES;
  t.rows = t.row_bytes == 0 ? 0 : sizes[kGatherOuter] * sizes[kGatherCount];
  t.rows_per_tile = max_of(1, kTileBytes / max_of(t.row_bytes, 1));
  t.pieces = t.row_bytes > kTileBytes ? ceil_div(t.row_bytes, kTileBytes) : 1;
  return t;
}

GX_INLINE void gather_row(void* const* pointers, const int64_t* sizes, int64_t row, int64_t from, int64_t bytes,
                          GxWorker* worker) {
  const int64_t n = row % sizes[kGatherCount], o = row / sizes[kGatherCount], at = n * sizes[kGatherIndexStride];
  const int64_t index =
      GX_INDEX_BYTES == 4 ? static_cast<const int32_t*>(pointers[2])[at] : static_cast<const int64_t*>(pointers[2])[at];
  if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(sizes[kGatherRows])) {
    report_index(worker, index, sizes[kGatherRows], sizes[kGatherDim]);
    return;
  }
  char* out = static_cast<char*>(pointers[0]) +
              (o * sizes[kGatherOutStrideO] + n * sizes[kGatherOutStrideN]) * GX_ELEMENT_BYTES;
  const char* base = static_cast<const char*>(pointers[1]) +
                     (o * sizes[kGatherBaseStrideO] + index * sizes[kGatherBaseStrideR]) * GX_ELEMENT_BYTES;
  __builtin_memcpy(out + from, base + from, bytes);
}

}  // namespace graphex::kernels

extern "C" void gx_gather_rows(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end,
                               GxWorker* worker) {
  using namespace graphex::kernels;
  const RowTiles t = row_tiles(sizes);
  if (t.pieces > 1) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t from = tile % t.pieces * kTileBytes;
      gather_row(pointers, sizes, tile / t.pieces, from, min_of(kTileBytes, t.row_bytes - from), worker);
    }
    return;
  }
  const int64_t last = min_of(end * t.rows_per_tile, t.rows);
  for (int64_t row = begin * t.rows_per_tile; row < last; ++row)
    gather_row(pointers, sizes, row, 0, t.row_bytes, worker);
}

extern "C" int64_t gx_gather_rows_tiles(const int64_t* sizes) {
  const graphex::kernels::RowTiles t = graphex::kernels::row_tiles(sizes);
  return t.pieces > 1 ? t.rows * t.pieces : graphex::kernels::ceil_div(t.rows, t.rows_per_tile);
}
