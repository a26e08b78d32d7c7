// A layer by chunks: rows of X are packed in panels, and each four rows of W meet a panel at once.
#pragma once

#include "graphex/base/kernel_abi.h"
#include "graphex/kernels/qmatmul/chunks.h"

#if defined(__AVX512VNNI__)
namespace graphex::kernels::qmatmul {

inline constexpr int64_t kChunkRows = 256;         // of X, packed at a time
inline constexpr int64_t kPackedBytes = 1 << 20;   // of packed rows, as long as a panel takes no more
inline constexpr int64_t kBlockBytes = 256 << 10;  // of W, which stay in L2 while all panels pass
inline constexpr int64_t kChunkAheadBytes = 4096;  // under way to a worker, over its four streams
inline constexpr int kColumns = 4;

// Rows of a panel: registers hold their sums for four columns, and with groups a second time as floats.
inline constexpr int kMaxPanel = 6;
GX_INLINE int64_t panel_size() { return GX_GROUPED ? 4 : kMaxPanel; }

template <class T>
struct ChunkLayer {
  int64_t n, k, group, w_row, s_row, y_row, rows;
  const char* w;
  const float* scales;  // of W
  const T* bias;
  int8_t* panels;
  Excess* excess;
  float* input_scales;
  T* y;

  inline __attribute__((always_inline)) int64_t panel_rows(int64_t first) const {
    return min(panel_size(), rows - first);
  }

  void pack(const T* x, int64_t stride) const {
#pragma clang loop unroll(disable)
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = row / panel_size() * panel_size();
      const RoundingScale scale = rounding_scale(x + row * stride, k);
      input_scales[row] = scale.from_integers;
      pack_chunks(panels + first * chunks_of(k) * chunk_length(), excess + first * chunks_of(k), panel_rows(first),
                  row - first, x + row * stride, k, scale.to_integers);
    }
  }

  // One rounding to T at the end: y = sum * (input scale * weight scale), or grouped sum * input scale, plus bias.
  inline __attribute__((always_inline)) void finish(Quad sums, int64_t row, const int64_t (&columns)[kColumns]) const {
    Quad factor(input_scales[row]), add = {};
    T values[kColumns];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (GX_GROUPED == 0) factor[i] *= scales[columns[i] * s_row];
      if (GX_BIAS) add[i] = load_float(bias + columns[i]);
    }
    store_floats<kColumns>(values, GX_BIAS ? sums * factor + add : sums * factor);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) y[row * y_row + columns[i]] = values[i];
  }

  // R packed rows from `first` on.
  template <int R>
  inline __attribute__((always_inline)) void meet(int64_t first, const int64_t (&columns)[kColumns]) const {
    const char* from[kColumns];
    const float* scale[kColumns];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      from[i] = w + columns[i] * w_row;
      scale[i] = scales + columns[i] * s_row;
    }
    const int8_t* x = panels + first * chunks_of(k) * chunk_length();
    const Excess* start = excess + first * chunks_of(k);
    constexpr int64_t kAhead = kChunkAheadBytes / kColumns;
    Quad sums[R];
    if (GX_GROUPED) {
      grouped_tile<R>(k, group, x, start, from, scale, kAhead, sums);
    } else {
      Ints<kColumns> integers[R];
      plain_tile<R>(k, x, start, from, kAhead, integers);
#pragma unroll
      for (int row = 0; row < R; ++row) sums[row] = __builtin_convertvector(integers[row], Quad);
    }
#pragma unroll
    for (int row = 0; row < R; ++row) finish(sums[row], first + row, columns);
  }

  template <int R>
  inline __attribute__((always_inline)) void meet_any(int64_t first, int64_t count,
                                                      const int64_t (&columns)[kColumns]) const {
    if (count == R) return meet<R>(first, columns);
    if constexpr (R > 1) meet_any<R - 1>(first, count, columns);
  }

  // Columns first, first + step, ..; those beyond `end` are the last one again.
  inline __attribute__((always_inline)) void panel(int64_t row, int64_t first, int64_t step, int64_t end) const {
    int64_t columns[kColumns];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) columns[i] = min(first + i * step, end - 1);
    if (GX_M == 1) return meet<1>(0, columns);
    if (GX_GROUPED) return meet_any<4>(row, panel_rows(row), columns);
    meet_any<kMaxPanel>(row, panel_rows(row), columns);
  }

  // One panel alone reads the range as four runs side by side, each one long stream. Several panels pass by a block of
  // W that stays in the cache.
  void range(int64_t begin, int64_t end) const {
    const bool single = GX_M == 1 || rows <= panel_size();
    const int64_t block = single ? end - begin : ceil_div(kBlockBytes, w_row * kColumns) * kColumns;
#pragma clang loop unroll(disable)
    for (int64_t from = begin; from < end; from += block) {
      const int64_t to = min(end, from + block), step = single ? ceil_div(to - from, kColumns) : 1;
#pragma clang loop unroll(disable)
      for (int64_t row = 0; row < rows; row += panel_size())
#pragma clang loop unroll(disable)
        for (int64_t column = from; column < (single ? from + step : to); column += single ? 1 : kColumns)
          panel(row, column, step, to);
    }
  }
};

// How many rows of X are packed at a time.
GX_INLINE int64_t chunk_rows(int64_t k) {
  const int64_t panel = panel_size();
  const int64_t fit =
      kPackedBytes / (k > 0 ? chunks_of(k) * (chunk_length() + int64_t(sizeof(Excess))) : 1) / panel * panel;
  return min(kChunkRows / panel * panel, fit > panel ? fit : panel);
}

template <class T>
GX_INLINE void run_chunks(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  const int64_t m = GX_M == 1 ? 1 : sizes[kQuantM], k = sizes[kQuantK], rows = chunk_rows(k);
  float* input_scales = static_cast<float*>(worker->scratch);
  int8_t* panels = reinterpret_cast<int8_t*>(input_scales + kChunkRows);
  ChunkLayer<T> layer = {sizes[kQuantN],
                         k,
                         sizes[kQuantGroup],
                         sizes[kQuantWStrideN],
                         sizes[kQuantSStrideN],
                         sizes[kQuantYStrideM],
                         0,
                         static_cast<const char*>(pointers[2]),
                         static_cast<const float*>(pointers[3]),
                         static_cast<const T*>(pointers[4]),
                         panels,
                         reinterpret_cast<Excess*>(panels + rows * chunks_of(k) * chunk_length()),
                         input_scales,
                         static_cast<T*>(pointers[0])};
  const int64_t last = min(end * kQuantTileColumns, layer.n);
#pragma clang loop unroll(disable)
  for (int64_t row = 0; row < m; row += rows, layer.y += rows * layer.y_row) {
    layer.rows = min(rows, m - row);
    if (worker->piece == 0 || m > rows)
      layer.pack(static_cast<const T*>(pointers[1]) + row * sizes[kQuantXStrideM], sizes[kQuantXStrideM]);
    layer.range(begin * kQuantTileColumns, last);
  }
}

}  // namespace graphex::kernels::qmatmul
#endif
