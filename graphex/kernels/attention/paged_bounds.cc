// What each sequence of a paged cache may see, checked; the contract is in attention.h.
#include "graphex/kernels/attention/attention.h"
#include "graphex/kernels/report.h"
#include "graphex/kernels/simd.h"

namespace graphex::kernels {
namespace {

// Whether all blocks that hold visible keys exist.
bool blocks_exist(const int64_t* table, const int64_t* sizes, int64_t sequence, int64_t length, GxWorker* worker) {
  const int64_t size = sizes[kBoundsBlockSize], window = sizes[kBoundsWindow];
  const int64_t first = window > 0 && length > window ? (length - window) / size : 0;
  for (int64_t i = first; i < ceil_div(length, size); ++i) {
    if (table[i] >= 0 && table[i] < sizes[kBoundsBlocks]) continue;
    report(worker, GX_BLOCK_OUT_OF_RANGE, table[i], sizes[kBoundsBlocks], sequence);
    return false;
  }
  return true;
}

int64_t bound_of(void* const* pointers, const int64_t* sizes, int64_t s, GxWorker* worker) {
  const int64_t length = static_cast<const int64_t*>(pointers[1])[s * sizes[kBoundsLengthStride]];
  const int64_t room = sizes[kBoundsTableBlocks] * sizes[kBoundsBlockSize];
  if (length < 0 || length > room) {
    report(worker, GX_LENGTH_OUT_OF_RANGE, length, room, s);
    return -1;
  }
  const int64_t* table = static_cast<const int64_t*>(pointers[2]) + s * sizes[kBoundsTableStrideB];
  return blocks_exist(table, sizes, s, length, worker) ? length - 1 : -1;
}

}  // namespace
}  // namespace graphex::kernels

extern "C" void gx_paged_bounds(void* const* pointers, const int64_t* sizes, int64_t, int64_t, GxWorker* worker) {
  int64_t* out = static_cast<int64_t*>(pointers[0]);
  for (int64_t s = 0; s < sizes[graphex::kernels::kBoundsSequences]; ++s)
    out[s] = graphex::kernels::bound_of(pointers, sizes, s, worker);
}

extern "C" int64_t gx_paged_bounds_tiles(const int64_t*) { return 1; }
