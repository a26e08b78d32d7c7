// Running sums along one dimension. The contract is in indexing.h.
#include "graphex/kernels/indexing/numbers.h"
#include "graphex/kernels/indexing/walk.h"

namespace graphex::kernels {

// Neighbouring rows that are summed together: enough to fill vectors where they lie side by side.
inline constexpr int64_t kSumRows = 32;

template <typename T>
struct SumTypes {
  using Sum = uint64_t;  // wraps around
  using Out = int64_t;
};
template <>
struct SumTypes<float> {
  using Sum = double;
  using Out = float;
};
template <>
struct SumTypes<double> {
  using Sum = double;
  using Out = double;
};
template <>
struct SumTypes<Bf16> {
  using Sum = float;
  using Out = Bf16;
};
template <>
struct SumTypes<F16> {
  using Sum = float;
  using Out = F16;
};

// A tile is up to kSumRows rows of one outer index.
GX_INLINE int64_t cumsum_tiles(const int64_t* sizes) {
  return sizes[kReduceLength] == 0 ? 0 : sizes[kReduceOuter] * ceil_div(sizes[kReduceInner], kSumRows);
}

template <typename T>
GX_INLINE void cumsum_tile(void* const* pointers, const int64_t* sizes, int64_t tile) {
  using Sum = typename SumTypes<T>::Sum;
  using Out = typename SumTypes<T>::Out;
  const int64_t across = ceil_div(sizes[kReduceInner], kSumRows), o = tile / across, first = tile % across * kSumRows;
  const int64_t rows = min_of(kSumRows, sizes[kReduceInner] - first);
  const T* in = static_cast<const T*>(pointers[1]) + o * sizes[kReduceInStrideO] + first * sizes[kReduceInStrideN];
  Out* out = static_cast<Out*>(pointers[0]) + o * sizes[kReduceOutStrideO] + first * sizes[kReduceOutStrideN];
  Sum sums[kSumRows] = {};
  for (int64_t i = 0; i < sizes[kReduceLength]; ++i) {
    for (int64_t n = 0; n < rows; ++n) {
      sums[n] += static_cast<Sum>(widen(in[n * sizes[kReduceInStrideN]]));
      out[n * sizes[kReduceOutStrideN]] = narrow<Out>(sums[n]);
    }
    in += sizes[kReduceInStrideL];
    out += sizes[kReduceOutStrideL];
  }
}

}  // namespace graphex::kernels

#define GX_CUMSUM(name, T)                                                                              \
  extern "C" void gx_cumsum_##name(void* const* p, const int64_t* s, int64_t b, int64_t e, GxWorker*) { \
    for (int64_t tile = b; tile < e; ++tile) graphex::kernels::cumsum_tile<T>(p, s, tile);              \
  }                                                                                                     \
  extern "C" int64_t gx_cumsum_##name##_tiles(const int64_t* s) { return graphex::kernels::cumsum_tiles(s); }

GX_CUMSUM(f32, float)
GX_CUMSUM(f64, double)
GX_CUMSUM(bf16, graphex::kernels::Bf16)
GX_CUMSUM(f16, graphex::kernels::F16)
GX_CUMSUM(i64, int64_t)
GX_CUMSUM(i32, int32_t)
GX_CUMSUM(i16, int16_t)
GX_CUMSUM(i8, int8_t)
GX_CUMSUM(u8, uint8_t)
