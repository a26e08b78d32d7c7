// Sums by index tensors, in place: index_add, scatter_add, index_put with accumulate. The contract is in indexing.h.
#include "graphex/kernels/indexing/indexed.h"
#include "graphex/kernels/indexing/numbers.h"

namespace graphex::kernels {

// Integers wrap around, as eager's do.
template <typename T>
GX_INLINE T add_scaled(T base, T value, int64_t alpha) {
  if constexpr (__is_same(T, double)) {
    const double factor = __builtin_bit_cast(double, alpha);
    return factor == 1 ? base + value : base + factor * value;
  } else if constexpr (kIsFloat<T>) {
    const float factor = static_cast<float>(__builtin_bit_cast(double, alpha));
    return narrow<T>(factor == 1 ? widen(base) + widen(value) : widen(base) + factor * widen(value));
  } else {
    return static_cast<T>(static_cast<uint64_t>(base) + static_cast<uint64_t>(alpha) * static_cast<uint64_t>(value));
  }
}

template <typename T>
GX_INLINE void index_add(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  T* base = static_cast<T*>(pointers[0]);
  const T* value = static_cast<const T*>(pointers[1]);
  const int64_t alpha = sizes[kIndexAlpha];
  for_each_write(pointers, sizes, sizeof(T), begin, end, worker,
                 [&](int64_t at, int64_t base_stride, int64_t other, int64_t value_stride, int64_t count) {
                   for (int64_t i = 0; i < count; ++i) {
                     T* to = base + at + i * base_stride;
                     *to = add_scaled(*to, value[other + i * value_stride], alpha);
                   }
                 });
}

}  // namespace graphex::kernels

#define GX_INDEX_ADD(name, T)                                                                                \
  extern "C" void gx_index_add_##name(void* const* p, const int64_t* s, int64_t b, int64_t e, GxWorker* w) { \
    graphex::kernels::index_add<T>(p, s, b, e, w);                                                           \
  }                                                                                                          \
  extern "C" int64_t gx_index_add_##name##_tiles(const int64_t* s) {                                         \
    return graphex::kernels::write_plan(s, sizeof(T)).tiles;                                                 \
  }

GX_INDEX_ADD(f32, float)
GX_INDEX_ADD(f64, double)
GX_INDEX_ADD(bf16, graphex::kernels::Bf16)
GX_INDEX_ADD(f16, graphex::kernels::F16)
GX_INDEX_ADD(i64, int64_t)
GX_INDEX_ADD(i32, int32_t)
GX_INDEX_ADD(i16, int16_t)
GX_INDEX_ADD(i8, int8_t)
GX_INDEX_ADD(u8, uint8_t)
