// Elements by index tensors: index, gather, index_select. The contract is in indexing.h.
#include "graphex/kernels/indexing/indexed.h"

extern "C" {
extern const int64_t GX_ELEMENT_BYTES;
}

namespace graphex::kernels {

template <typename T>
GX_INLINE void index(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  constexpr int64_t kPoints = kTileBytes / static_cast<int64_t>(sizeof(T));
  const IndexWalk walk = walk_over(sizes, -1);
  const int64_t out_stride = walk.strides[kOtherOperand][walk.rank - 1];
  const int64_t base_stride = walk.strides[kBaseOperand][walk.rank - 1];
  const int64_t origin[kIndexOperands] = {};
  T* out = static_cast<T*>(pointers[0]);
  const T* base = static_cast<const T*>(pointers[1]);
  for_each_indexed_run(pointers, sizes, walk, origin, begin * kPoints, min_of(end * kPoints, walk.count()), worker,
                       [&](int64_t at, int64_t other, int64_t count) {
                         copy_run(out + other, out_stride, base + at, base_stride, count);
                       });
}

}  // namespace graphex::kernels

extern "C" void gx_index(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  graphex::kernels::with_element(GX_ELEMENT_BYTES, [&](auto element) {
    graphex::kernels::index<decltype(element)>(pointers, sizes, begin, end, worker);
  });
}

extern "C" int64_t gx_index_tiles(const int64_t* sizes) {
  using namespace graphex::kernels;
  return ceil_div(walk_over(sizes, -1).count(), kTileBytes / GX_ELEMENT_BYTES);
}
