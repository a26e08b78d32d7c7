// The entry of one element type. A call rounds its rows of X into scratch and streams its tiles of W once for each
// block of them.
#pragma once

#include "graphex/base/kernel_abi.h"
#include "graphex/kernels/blocks/blocks.h"
#include "graphex/kernels/blocks/expanded.h"
#include "graphex/kernels/blocks/layer.h"

extern "C" {
extern const int64_t GX_FORMAT;
extern const int64_t GX_BIAS;
extern const int64_t GX_M;
}

namespace graphex::kernels::blocks {

inline constexpr int64_t kMaxRows = 504;         // of X, rounded at a time
inline constexpr int64_t kPanelBytes = 2 << 20;  // of rounded rows, as long as kPanel of them take no more
inline constexpr int64_t kAheadBytes = 2048;     // under way to a worker
inline constexpr int kVectors = 2;               // of tiles, for more rows of X than one

template <class Format, class T>
struct Layer {
  int64_t n, k, w_stride, y_stride;
  const char* w;
  const T* bias;
  const InputGroup* panels;
  T* y;
  char* room;  // for decoded tiles; null where they don't fit

  // Where the tiles of C vectors begin in a row of Y; whole where all of them end inside it.
  template <int C>
  struct Columns {
    int64_t at[C * kAbreast];
    bool whole;
  };

  // Tiles index, index + step, .., those from `end` on being the last one again; vector after vector.
  template <int C>
  inline __attribute__((always_inline)) Columns<C> columns(int64_t index, int64_t step, int64_t end,
                                                           Tiles (&from)[C]) const {
    Columns<C> to;
    to.whole = end * kTileRows <= n;
#pragma unroll
    for (int tile = 0; tile < C * kAbreast; ++tile) {
      const int64_t at = min(index + tile * step, end - 1);
      to.at[tile] = at * kTileRows;
      from[tile / kAbreast].at[tile % kAbreast] = w + at * w_stride;
    }
    return to;
  }

  template <class As, int R, int C>
  inline __attribute__((always_inline)) void rows(int64_t count, int64_t first, const Columns<C>& columns,
                                                  const typename As::Cursor (&from)[C]) const {
    Rows out[R][C];
    Meeting<As>::template tile<R, C>(k, panels + first * (k / kBlockGroup), from, kAheadBytes / (C * kAbreast), out);
#pragma unroll
    for (int row = 0; row < R; ++row)
#pragma unroll
      for (int i = 0; i < C; ++i)
        if (row == 0 || first + row < count)
          finish<0>(out[row][i], y + (first + row) * y_stride, columns.at + i * kAbreast, columns.whole);
  }

  template <int kTile>
  inline __attribute__((always_inline)) void finish(Rows sum, T* row, const int64_t* at, bool whole) const {
    finish(rows_of<kTile>(sum), row + at[kTile], at[kTile], whole);
    if constexpr (kTile + 1 < kAbreast) finish<kTile + 1>(sum, row, at, whole);
  }
  inline __attribute__((always_inline)) void finish(Floats<kTileRows> sum, T* to, int64_t column, bool whole) const {
    if (whole || n - column >= kTileRows) {
      if (GX_BIAS) sum += load_floats<kTileRows>(bias + column);
      return store_floats<kTileRows>(to, sum);
    }
#pragma clang loop unroll(disable) vectorize(disable)
    for (int64_t i = 0; i < n - column; ++i)
      store_floats<1>(to + i, Floats<1>(sum[i] + (GX_BIAS ? load_float(bias + column + i) : 0.0f)));
  }

  template <class As, bool kFew, int C>
  inline __attribute__((always_inline)) void all_rows(int64_t count, const Columns<C>& columns,
                                                      const typename As::Cursor (&from)[C]) const {
    const int64_t size = panel_size(count);
#pragma clang loop unroll(disable)
    for (int64_t row = 0; row < count; row += size) {
      if (size == kPanel) rows<As, kPanel, C>(count, row, columns, from);
      if constexpr (kPanel > 4)
        if (size == 4) rows<As, 4, C>(count, row, columns, from);
      if constexpr (kFew) {
        if (size == 1) rows<As, 1, C>(count, row, columns, from);
        if (size == 2) rows<As, 2, C>(count, row, columns, from);
      }
    }
  }

  template <int C>
  inline __attribute__((always_inline)) void expand(int64_t count, const Columns<C>& columns,
                                                    const Tiles (&from)[C]) const {
    Decoded decoded[C];
#pragma unroll
    for (int i = 0; i < C; ++i) {
      decoded[i] = {room + i * (k / kBlockGroup) * Expanded<Format>::kBytes};
      Expanded<Format>::decode(decoded[i], from[i], k);
    }
    all_rows<Expanded<Format>, false, C>(count, columns, decoded);
  }

  // The range is read as runs of tiles side by side, each one long stream; where it doesn't divide, the last tile is
  // taken more than once.
  template <int C>
  inline __attribute__((always_inline)) void range(int64_t count, int64_t begin, int64_t end) const {
    const int64_t run = ceil_div(end - begin, C * kAbreast);
    Tiles from[C];
#pragma clang loop unroll(disable)
    for (int64_t index = begin; index < begin + run; ++index) {
      const Columns<C> to = columns(index, run, end, from);
      if (GX_M == 1)
        rows<Format, 1, C>(count, 0, to, from);
      else if (room)
        expand(count, to, from);
      else
        all_rows<Format, true, C>(count, to, from);
    }
  }
};

// One of the runtime's tiles is a vector of rows.
GX_INLINE int64_t tiles(const int64_t* sizes) { return sizes[kBlocksM] == 0 ? 0 : ceil_div(sizes[kBlocksN], kRows); }

// How many rows of X are rounded at a time.
GX_INLINE int64_t rounded_rows(int64_t k) {
  const int64_t row_bytes = k / kBlockGroup * int64_t(sizeof(InputGroup));
  const int64_t fit = row_bytes == 0 ? kMaxRows : kPanelBytes / row_bytes / kPanel * kPanel;
  return min(kMaxRows, fit > kPanel ? fit : kPanel);
}

// The rounded rows must outlast a call.
GX_INLINE bool is_divisible(const int64_t* sizes) { return sizes[kBlocksM] <= rounded_rows(sizes[kBlocksK]); }

// Room for decoded tiles behind the rounded rows, where it pays and fits.
template <class Format>
GX_INLINE char* room_for(char* scratch, int64_t m, int64_t k) {
  const int64_t groups = k / kBlockGroup,
                used = ceil_div(rounded_rows(k) * groups * int64_t(sizeof(InputGroup)), 64) * 64;
  const bool fits = used + kVectors * groups * Expanded<Format>::kBytes <= GX_SCRATCH_BYTES;
  return m > Format::kDirectPanels * kPanel && fits ? scratch + used : nullptr;
}

template <class Format, class T>
GX_INLINE void run(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  const int64_t m = GX_M == 1 ? 1 : sizes[kBlocksM], n = sizes[kBlocksN], k = sizes[kBlocksK];
  auto* panels = static_cast<InputGroup*>(worker->scratch);
  const int64_t rows = rounded_rows(k), last = min(end * kAbreast, ceil_div(n, kTileRows));
  const T* x = static_cast<const T*>(pointers[1]);
#pragma clang loop unroll(disable)
  for (int64_t row = 0; row < m; row += rows) {
    const int64_t count = min(rows, m - row);
    if (worker->piece == 0 || m > rows)
      pack<Format>(panels, x + row * sizes[kBlocksXStrideM], sizes[kBlocksXStrideM], count, k);
    const Layer<Format, T> layer = {
        n,
        k,
        sizes[kBlocksWStride],
        sizes[kBlocksYStrideM],
        static_cast<const char*>(pointers[2]),
        static_cast<const T*>(pointers[3]),
        panels,
        static_cast<T*>(pointers[0]) + row * sizes[kBlocksYStrideM],
        GX_M == 1 ? nullptr : room_for<Format>(static_cast<char*>(worker->scratch), count, k)};
    if (GX_M == 1) layer.template range<Format::kStreams>(count, begin * kAbreast, last);
    if (GX_M != 1) layer.template range<kVectors>(count, begin * kAbreast, last);
  }
}

template <class T>
GX_INLINE void run(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  if (GX_FORMAT == kQ4_0) return run<Q4_0, T>(pointers, sizes, begin, end, worker);
  if (GX_FORMAT == kQ4_1) return run<Q4_1, T>(pointers, sizes, begin, end, worker);
  if (GX_FORMAT == kQ8_0) return run<Q8_0, T>(pointers, sizes, begin, end, worker);
  if (GX_FORMAT == kQ4_K) return run<Q4_K, T>(pointers, sizes, begin, end, worker);
  if (GX_FORMAT == kQ5_K) return run<Q5_K, T>(pointers, sizes, begin, end, worker);
  if (GX_FORMAT == kQ6_K) return run<Q6_K, T>(pointers, sizes, begin, end, worker);
}

}  // namespace graphex::kernels::blocks

#define GX_BLOCKS_ENTRY(name, type)                                                                                   \
  extern "C" int64_t name##_tiles(const int64_t* sizes) { return graphex::kernels::blocks::tiles(sizes); }            \
  extern "C" int64_t name##_divisible(const int64_t* sizes) { return graphex::kernels::blocks::is_divisible(sizes); } \
  extern "C" void name(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {   \
    graphex::kernels::blocks::run<type>(pointers, sizes, begin, end, worker);                                         \
  }
