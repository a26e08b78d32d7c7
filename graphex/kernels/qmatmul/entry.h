// The entry of one element type. A call packs its rows of X into scratch and streams
// its rows of W once for each block of them.
#pragma once

#include "graphex/base/kernel_abi.h"
#include "graphex/kernels/qmatmul/chunk_layer.h"
#include "graphex/kernels/qmatmul/input.h"

namespace graphex::kernels::qmatmul {

inline constexpr int64_t kMaxRows = 256;           // of X, packed at a time
inline constexpr int64_t kPanelBytes = 256 << 10;  // of packed rows, as long as kPanel of them take no more
inline constexpr int64_t kAheadBytes = 2048;       // under way to a worker, over its streams
inline constexpr int64_t kScaleBytes = kMaxRows * int64_t(sizeof(float));

template <class T, class Dot>
struct Layer {
  using Element = typename Dot::Element;
  using Sum = typename Dot::Sum;

  int64_t k, group, w_row, s_row, y_row;
  const char* w;
  const float* scales;  // of W
  const T* bias;
  Element* panels;
  float* input_scales;
  T* y;

  // R rows by C columns of W. At the end of each group the sums are scaled into `out`.
  template <int R, int C>
  __attribute__((noinline)) void tile(const Element* x, const char* const from[C], const float* const scale[C],
                                      float (&out)[R][C]) const {
    Sum sums[R][C] = {};
    Vec totals[R][C] = {};
    const char* at[C];
#pragma unroll
    for (int column = 0; column < C; ++column) at[column] = from[column];
    const int64_t length = GX_GROUPED == 0 ? k : group;
#pragma clang loop unroll(disable)
    for (int64_t start = 0, index = 0; start < k; start += length, ++index) {
#pragma clang loop unroll(disable)
      for (int64_t i = 0; i < length; i += kQuantBlock, x += kQuantBlock * R) block<R, C>(x, at, sums);
      if (GX_GROUPED == 0) break;
#pragma unroll
      for (int column = 0; column < C; ++column) {
        const Vec factor(scale[column][index]);
#pragma unroll
        for (int row = 0; row < R; ++row) {
          totals[row][column] =
              multiply_add(__builtin_convertvector(sums[row][column], Vec), factor, totals[row][column]);
          sums[row][column] = Sum{};
        }
      }
    }
#pragma unroll
    for (int row = 0; row < R; ++row)
#pragma unroll
      for (int column = 0; column < C; ++column)
        out[row][column] = GX_GROUPED == 0 ? Dot::total(sums[row][column]) : FloatDot::total(totals[row][column]);
  }

  template <int R, int C>
  inline __attribute__((always_inline)) void block(const Element* x, const char* (&at)[C], Sum (&sums)[R][C]) const {
    using Vector = typename Dot::Vector;
#pragma unroll
    for (int column = 0; column < C; ++column) {
      __builtin_prefetch(at[column] + kAheadBytes / C);
      Vector w[Dot::kParts];
      Dot::widen(at[column], w);
#pragma unroll
      for (int part = 0; part < Dot::kParts; ++part)
#pragma unroll
        for (int row = 0; row < R; ++row)
          sums[row][column] = Dot::add(
              sums[row][column], load<Vector>(x + (part * R + row) * (sizeof(Vector) / sizeof(Element))), w[part]);
      at[column] += block_bytes();
    }
  }

  // One rounding to T at the end: y = sum * (input scale * weight scale), or grouped sum * input scale, plus bias.
  inline __attribute__((always_inline)) void finish(float sum, int64_t row, int64_t column) const {
    float value = sum * (GX_GROUPED == 0 ? input_scales[row] * scales[column * s_row] : input_scales[row]);
    if (GX_BIAS) value += load_float(bias + column);
    store_floats<1>(y + row * y_row + column, Floats<1>(value));
  }

  // Columns first, first + step, ..; of the `rows` packed rows.
  template <int R, int C>
  inline __attribute__((always_inline)) void columns(int64_t first_row, int64_t first, int64_t step) const {
    const char* from[C];
    const float* scale[C];
#pragma unroll
    for (int i = 0; i < C; ++i) {
      from[i] = w + (first + i * step) * w_row;
      scale[i] = scales + (first + i * step) * s_row;
    }
    float out[R][C];
    tile<R, C>(panels + first_row * k, from, scale, out);
#pragma unroll
    for (int row = 0; row < R; ++row)
#pragma unroll
      for (int i = 0; i < C; ++i) finish(out[row][i], first_row + row, first + i * step);
  }

  template <int C>
  inline __attribute__((always_inline)) void all_rows(int64_t rows, int64_t first, int64_t step) const {
    if (GX_M == 1) return columns<1, C>(0, first, step);
#pragma clang loop unroll(disable)
    for (int64_t row = 0; row < rows; row += kPanel) {
      const int64_t count = panel_rows(rows, row);
      if (count == 1) columns<1, C>(row, first, step);
      if (count == 2) columns<2, C>(row, first, step);
      if (count == 3) columns<3, C>(row, first, step);
      if (count == 4) columns<4, C>(row, first, step);
    }
  }

  // The range is read as C runs of rows side by side, each one long stream.
  template <int C>
  inline __attribute__((always_inline)) void range(int64_t rows, int64_t begin, int64_t end) const {
    const int64_t run = (end - begin) / C;
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < run; ++i) all_rows<C>(rows, begin + i, run);
#pragma clang loop unroll(disable)
    for (int64_t n = begin + run * C; n < end; ++n) all_rows<1>(rows, n, 0);
  }
};

GX_INLINE int64_t tiles(const int64_t* sizes) {
  if (sizes[kQuantM] == 0) return 0;
  return (sizes[kQuantN] + kQuantTileColumns - 1) / kQuantTileColumns;
}

// How many rows of X are packed at a time.
template <class Element>
GX_INLINE int64_t packed_rows(int64_t k) {
  const int64_t fit = kPanelBytes / (k > 0 ? k * int64_t(sizeof(Element)) : 1) / kPanel * kPanel;
  return min(kMaxRows, fit > kPanel ? fit : kPanel);
}

// The packed rows must outlast a call.
GX_INLINE bool is_divisible(const int64_t* sizes) {
  const int64_t m = sizes[kQuantM], k = sizes[kQuantK];
  if (GX_INPUT == 0) return m <= packed_rows<FloatDot::Element>(k);
#if defined(__AVX512VNNI__)
  return m <= chunk_rows(k);
#else
  return m <= packed_rows<IntegerDot::Element>(k);
#endif
}

template <class T, class Dot>
GX_INLINE void run(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  using Element = typename Dot::Element;
  const int64_t m = GX_M == 1 ? 1 : sizes[kQuantM], k = sizes[kQuantK];
  float* input_scales = static_cast<float*>(worker->scratch);
  Element* panels = reinterpret_cast<Element*>(static_cast<char*>(worker->scratch) + kScaleBytes);
  const int64_t rows = packed_rows<Element>(k);
  const T* x = static_cast<const T*>(pointers[1]);
#pragma clang loop unroll(disable)
  for (int64_t row = 0; row < m; row += rows) {
    const int64_t count = min(rows, m - row);
    if (worker->piece == 0 || m > rows)
      pack(panels, input_scales, x + row * sizes[kQuantXStrideM], sizes[kQuantXStrideM], count, k);
    const Layer<T, Dot> layer = {k,
                                 sizes[kQuantGroup],
                                 sizes[kQuantWStrideN],
                                 sizes[kQuantSStrideN],
                                 sizes[kQuantYStrideM],
                                 static_cast<const char*>(pointers[2]),
                                 static_cast<const float*>(pointers[3]),
                                 static_cast<const T*>(pointers[4]),
                                 panels,
                                 input_scales,
                                 static_cast<T*>(pointers[0]) + row * sizes[kQuantYStrideM]};
    const int64_t first = begin * kQuantTileColumns, last = min(end * kQuantTileColumns, sizes[kQuantN]);
    if (GX_M == 1) layer.template range<4>(count, first, last);
    if (GX_M != 1) layer.template range<2>(count, first, last);
  }
}

template <class T>
GX_INLINE void run_any(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  if (GX_INPUT == 0) return run<T, FloatDot>(pointers, sizes, begin, end, worker);
#if defined(__AVX512VNNI__)
  run_chunks<T>(pointers, sizes, begin, end, worker);
#else
  run<T, IntegerDot>(pointers, sizes, begin, end, worker);
#endif
}

}  // namespace graphex::kernels::qmatmul

#define GX_QMATMUL_ENTRY(name, type)                                                                                   \
  extern "C" int64_t name##_tiles(const int64_t* sizes) { return graphex::kernels::qmatmul::tiles(sizes); }            \
  extern "C" int64_t name##_divisible(const int64_t* sizes) { return graphex::kernels::qmatmul::is_divisible(sizes); } \
  extern "C" void name(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {    \
    graphex::kernels::qmatmul::run_any<type>(pointers, sizes, begin, end, worker);                                     \
  }
