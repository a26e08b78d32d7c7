// Writes by index tensors, in place: index_put, index_copy, scatter. The contract is in indexing.h.
#include "graphex/kernels/indexing/indexed.h"

extern "C" {
extern const int64_t GX_ELEMENT_BYTES;
}

extern "C" void gx_index_put(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end,
                             GxWorker* worker) {
  using namespace graphex::kernels;
  with_element(GX_ELEMENT_BYTES, [&](auto element) {
    using T = decltype(element);
    T* base = static_cast<T*>(pointers[0]);
    const T* value = static_cast<const T*>(pointers[1]);
    for_each_write(pointers, sizes, sizeof(T), begin, end, worker,
                   [&](int64_t at, int64_t base_stride, int64_t other, int64_t value_stride, int64_t count) {
                     copy_run(base + at, base_stride, value + other, value_stride, count);
                   });
  });
}

extern "C" int64_t gx_index_put_tiles(const int64_t* sizes) {
  return graphex::kernels::write_plan(sizes, GX_ELEMENT_BYTES).tiles;
}
