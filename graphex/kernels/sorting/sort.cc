// Rows in order. The contract is in sorting.h.
#include <algorithm>

#include "graphex/kernels/sorting/rows.h"

namespace graphex::kernels {

// Rows up to this length are sorted by insertion.
inline constexpr int64_t kInsertion = 32;

GX_INLINE int64_t sort_bytes(const int64_t* sizes) {
  return 2 * sizes[kSortLength] * static_cast<int64_t>(sizeof(Keyed));
}

GX_INLINE void insertion_sort(Keyed* row, int64_t length) {
  for (int64_t i = 1; i < length; ++i) {
    const Keyed element = row[i];
    int64_t at = i;
    for (; at > 0 && element.key < row[at - 1].key; --at) row[at] = row[at - 1];
    row[at] = element;
  }
}

// Moves the elements to `to` in the order of one byte of their keys; false, and nothing moved, if all have the same.
GX_INLINE bool distribute(const Keyed* from, Keyed* to, int64_t length, int shift) {
  int64_t places[256] = {};
  for (int64_t i = 0; i < length; ++i) ++places[from[i].key >> shift & 255];
  if (places[from[0].key >> shift & 255] == length) return false;
  int64_t sum = 0;
  for (int64_t& place : places) {
    const int64_t count = place;
    place = sum;
    sum += count;
  }
  for (int64_t i = 0; i < length; ++i) to[places[from[i].key >> shift & 255]++] = from[i];
  return true;
}

// By the lowest `bytes` of the keys, one after the other, back and forth between the row and the memory behind it;
// returns where it ended.
GX_INLINE Keyed* stable_sort(Keyed* row, int64_t length, int bytes) {
  Keyed* other = row + length;
  for (int shift = 0; shift < 8 * bytes; shift += 8) {
    if (!distribute(row, other, length, shift)) continue;
    Keyed* sorted = other;
    other = row;
    row = sorted;
  }
  return row;
}

template <typename T>
GX_INLINE void sort_row(const Row<T>& row, Keyed* memory, const int64_t* sizes) {
  for (int64_t i = 0; i < row.length; ++i) memory[i] = row.keyed(i);
  if (row.length < sizes[kSortStableFrom])
    std::sort(memory, memory + row.length, Before());
  else if (row.length <= kInsertion)
    insertion_sort(memory, row.length);
  else
    memory = stable_sort(memory, row.length, sizeof(T));
  row.write(memory);
}

}  // namespace graphex::kernels

extern "C" void gx_sort(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  using namespace graphex::kernels;
  for_each_row(pointers, sizes, begin, end, worker, sort_bytes(sizes),
               [&](const auto& row, Keyed* memory) { sort_row(row, memory, sizes); });
}
extern "C" int64_t gx_sort_tiles(const int64_t* sizes) { return graphex::kernels::row_tiles(sizes); }
extern "C" int64_t gx_sort_workspace(const int64_t* sizes) {
  return graphex::kernels::row_workspace(sizes, graphex::kernels::sort_bytes(sizes));
}
