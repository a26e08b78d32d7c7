// The first few of each row. The contract is in sorting.h.
#include <algorithm>

#include "graphex/kernels/sorting/rows.h"

extern "C" {
extern const int64_t GX_SORTED;
}

namespace graphex::kernels {

// Elements that are compared with the last of the kept before any is looked at alone.
inline constexpr int64_t kScanBlock = 256;

GX_INLINE bool keeps_few(int64_t kept, int64_t length) { return kept <= length / kTopkFew; }

GX_INLINE int64_t topk_bytes(const int64_t* sizes) {
  const bool few = keeps_few(sizes[kSortKept], sizes[kSortLength]);
  return (few ? sizes[kSortKept] + 1 : sizes[kSortLength]) * static_cast<int64_t>(sizeof(Keyed));
}

template <typename T>
GX_INLINE bool none_before(const T* block, Key<T> last) {
  int found = 0;
  for (int64_t i = 0; i < kScanBlock; ++i) found |= key_of(block[i]) < last;
  return found == 0;
}

// std::partial_sort, without moving what isn't kept: a heap of the kept with the last of them on top, and one more
// place, in which a newcomer waits for the top to leave.
template <typename T>
GX_INLINE void partial_sort(const Row<T>& row, Keyed* heap) {
  const int64_t kept = row.kept;
  for (int64_t i = 0; i < kept; ++i) heap[i] = row.keyed(i);
  std::make_heap(heap, heap + kept, Before());
  for (int64_t i = kept; i < row.length;) {
    const int64_t end = min(i + kScanBlock, row.length);
    if (row.step == 1 && end - i == kScanBlock && none_before(row.in + i, static_cast<Key<T>>(heap[0].key))) {
      i = end;
      continue;
    }
    for (; i < end; ++i) {
      const Keyed element = row.keyed(i);
      if (!Before()(element, heap[0])) continue;
      heap[kept] = element;
      std::pop_heap(heap, heap + kept + 1, Before());
    }
  }
  std::sort_heap(heap, heap + kept, Before());
}

template <typename T>
GX_INLINE void topk_row(const Row<T>& row, Keyed* queue) {
  if (keeps_few(row.kept, row.length)) {
    partial_sort(row, queue);
  } else {
    for (int64_t i = 0; i < row.length; ++i) queue[i] = row.keyed(i);
    std::nth_element(queue, queue + row.kept - 1, queue + row.length, Before());
    if (GX_SORTED) std::sort(queue, queue + row.kept - 1, Before());
  }
  row.write(queue);
}

}  // namespace graphex::kernels

extern "C" void gx_topk(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  using namespace graphex::kernels;
  for_each_row(pointers, sizes, begin, end, worker, topk_bytes(sizes),
               [](const auto& row, Keyed* memory) { topk_row(row, memory); });
}
extern "C" int64_t gx_topk_tiles(const int64_t* sizes) { return graphex::kernels::row_tiles(sizes); }
extern "C" int64_t gx_topk_workspace(const int64_t* sizes) {
  return graphex::kernels::row_workspace(sizes, graphex::kernels::topk_bytes(sizes));
}
