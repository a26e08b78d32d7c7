// The entry of one element type. A call rounds its rows of X into scratch and streams its tiles of W once for each
// block of them.
#pragma once

#include "graphex/base/kernel_abi.h"
#include "graphex/kernels/blocks/blocks.h"
#include "graphex/kernels/blocks/input.h"

extern "C" {
extern const int64_t GX_FORMAT;
extern const int64_t GX_BIAS;
extern const int64_t GX_M;
}

namespace graphex::kernels::blocks {

inline constexpr int64_t kMaxRows = 512;           // of X, rounded at a time
inline constexpr int64_t kPanelBytes = 256 << 10;  // of rounded rows, as long as kPanel of them take no more
inline constexpr int64_t kAheadBytes = 2048;       // under way to a worker

template <class Format, class T>
struct Layer {
  int64_t n, k, w_stride, y_stride;
  const char* w;
  const T* bias;
  const InputGroup* panels;
  T* y;

  // Two quads that share a load, and R rows of X.
  template <int R, int C, int kGroup>
  inline __attribute__((always_inline)) void pair(const char* const (&block)[C], int64_t step, int64_t index,
                                                  const InputGroup* x, Part<Format> (&parts)[R][C]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t q = Format::quad_of(index, half);
      Quads w[C];
#pragma unroll
      for (int column = 0; column < C; ++column) w[column] = Format::quad(block[column], step, kGroup, index, half);
#pragma unroll
      for (int row = 0; row < R; ++row) {
        const Quads input = broadcast(x[row].values + 4 * q);
#pragma unroll
        for (int column = 0; column < C; ++column)
          parts[row][column] = add_products<Format>(parts[row][column], w[column], input);
      }
    }
  }

  // The products of a group's pairs of quads first, first + 1, ..; kCount of them, times the factors. With more rows
  // the loops stay loops: unrolled, the sums would be regrouped and spill.
  template <int R, int C, int kGroup, int kFirst, int kCount>
  inline __attribute__((always_inline)) void dots(const char* const (&block)[C], int64_t step, const InputGroup* x,
                                                  const Dots (&factors)[C], Dots (&sums)[R][C]) const {
    constexpr int kParts = kCount < kRun<Format> ? kCount : kRun<Format>;
#pragma clang loop unroll(disable)
    for (int64_t from = kFirst; from < kFirst + kCount; from += kParts) {
      Part<Format> parts[R][C] = {};
      if constexpr (R == 1) {
#pragma unroll
        for (int index = 0; index < kParts; ++index) pair<R, C, kGroup>(block, step, from + index, x, parts);
      } else {
#pragma clang loop unroll(disable)
        for (int64_t index = from; index < from + kParts; ++index) pair<R, C, kGroup>(block, step, index, x, parts);
      }
#pragma unroll
      for (int row = 0; row < R; ++row)
#pragma unroll
        for (int column = 0; column < C; ++column)
          if constexpr (Format::kGrouped)
            sums[row][column] += total(parts[row][column], factors[column]);
          else
            sums[row][column] += total(parts[row][column]);
    }
  }

  // A block that is one group: adds to `totals`.
  template <int R, int C>
  inline __attribute__((always_inline)) void single(const char* const (&block)[C], const InputGroup* x,
                                                    Rows (&totals)[R][C]) const {
    Dots sums[R][C] = {};
    dots<R, C, 0, 0, kPairs>(block, 0, x, {}, sums);
#pragma unroll
    for (int column = 0; column < C; ++column) {
      const Rows scale = Format::scale(block[column]);
#pragma unroll
      for (int row = 0; row < R; ++row) {
        if (kTotalOffset<Format> != 0) sums[row][column] -= x[row].offsets[0];
        totals[row][column] =
            multiply_add(__builtin_convertvector(sums[row][column], Rows), scale * x[row].scale, totals[row][column]);
        if constexpr (Format::kMinimum)
          totals[row][column] =
              multiply_add(Format::minimum(block[column]), Rows(x[row].scaled_sum), totals[row][column]);
      }
    }
  }

  // What one scale of a group covers, in units of the block's scale.
  template <int R, int C, int kGroup, int kPart, class Unpacked>
  inline __attribute__((always_inline)) void part(const char* const (&block)[C], const Unpacked (&unpacked)[C],
                                                  int64_t step, const InputGroup* x, Rows (&units)[R][C]) const {
    constexpr int kCount = kPairs / Format::kScales;
    Dots sums[R][C] = {}, factors[C], pairs[C];
#pragma unroll
    for (int column = 0; column < C; ++column) {
      factors[column] = Format::scale_factors(unpacked[column], block[column], step * Format::kGroups + kGroup, kPart);
      pairs[column] = as_pairs(factors[column]);
    }
    dots<R, C, kGroup, kPart * kCount, kCount>(block, step, x, pairs, sums);
#pragma unroll
    for (int row = 0; row < R; ++row)
#pragma unroll
      for (int column = 0; column < C; ++column) {
        if (kTotalOffset<Format> != 0) sums[row][column] -= factors[column] * x[row].offsets[kPart];
        units[row][column] =
            multiply_add(__builtin_convertvector(sums[row][column], Rows), Rows(x[row].scale), units[row][column]);
      }
  }

  template <int R, int C, class Unpacked, int... kGroup>
  inline __attribute__((always_inline)) void groups(const char* const (&block)[C], const Unpacked (&unpacked)[C],
                                                    int64_t step, const InputGroup* x, Rows (&units)[R][C]) const {
    if constexpr (sizeof...(kGroup) < Format::kGroups) {
      groups<R, C, Unpacked, kGroup..., sizeof...(kGroup)>(block, unpacked, step, x, units);
    } else {
      (part<R, C, kGroup, 0>(block, unpacked, step, x + kGroup * R, units), ...);
      if constexpr (Format::kScales == 2) (part<R, C, kGroup, 1>(block, unpacked, step, x + kGroup * R, units), ...);
    }
  }

  // A block of several groups: adds to `totals`.
  template <int R, int C>
  inline __attribute__((always_inline)) void grouped(const char* const (&block)[C], const InputGroup* x,
                                                     Rows (&totals)[R][C]) const {
    typename Format::Unpacked unpacked[C];
    Rows units[R][C] = {};
#pragma unroll
    for (int column = 0; column < C; ++column) unpacked[column] = Format::unpack(block[column]);
#pragma clang loop unroll(disable)
    for (int64_t step = 0; step < Format::kSteps; ++step)
      groups<R, C>(block, unpacked, step, x + step * Format::kGroups * R, units);
    add<R, C>(units, block, &Format::scale, totals);
    if constexpr (Format::kMinimum) {
      Rows minima[R][C] = {};
#pragma clang loop unroll(disable)
      for (int64_t group = 0; group < Format::kGroups * Format::kSteps; ++group)
#pragma unroll
        for (int column = 0; column < C; ++column) {
          const Rows factors = __builtin_convertvector(Format::minimum_factors(unpacked[column], group), Rows);
#pragma unroll
          for (int row = 0; row < R; ++row)
            minima[row][column] = multiply_add(factors, Rows(-x[group * R + row].scaled_sum), minima[row][column]);
        }
      add<R, C>(minima, block, &Format::minimum, totals);
    }
  }

  template <int R, int C, class Scale>
  GX_INLINE void add(const Rows (&units)[R][C], const char* const (&block)[C], Scale scale, Rows (&totals)[R][C]) {
#pragma unroll
    for (int column = 0; column < C; ++column)
#pragma unroll
      for (int row = 0; row < R; ++row)
        totals[row][column] = multiply_add(units[row][column], scale(block[column]), totals[row][column]);
  }

  // R rows by C tiles.
  template <int R, int C>
  __attribute__((noinline)) void tile(const InputGroup* x, const char* const (&from)[C], Rows (&out)[R][C]) const {
    constexpr int kGroups = Format::kGroups * Format::kSteps;
    Rows totals[R][C] = {};
    const char* block[C];
#pragma unroll
    for (int column = 0; column < C; ++column) block[column] = from[column];
#pragma clang loop unroll(disable)
    for (const InputGroup* end = x + k / kBlockGroup * R; x < end; x += kGroups * R) {
#pragma unroll
      for (int column = 0; column < C; ++column) ahead(block[column], kAheadBytes / C);
      if constexpr (Format::kGrouped)
        grouped<R, C>(block, x, totals);
      else
        single<R, C>(block, x, totals);
#pragma unroll
      for (int column = 0; column < C; ++column) block[column] += Format::kBytes;
    }
#pragma unroll
    for (int row = 0; row < R; ++row)
#pragma unroll
      for (int column = 0; column < C; ++column) out[row][column] = totals[row][column];
  }

  GX_INLINE void ahead(const char* block, int64_t distance) {
#pragma unroll
    for (int64_t at = 0; at < Format::kBytes; at += 64) __builtin_prefetch(block + distance + at);
  }

  // Tiles index, index + step, ..; C of them.
  template <int R, int C>
  inline __attribute__((always_inline)) void rows(int64_t first, int64_t index, int64_t step) const {
    Rows out[R][C];
    const char* from[C];
#pragma unroll
    for (int i = 0; i < C; ++i) from[i] = w + (index + i * step) * w_stride;
    tile<R, C>(panels + first * (k / kBlockGroup), from, out);
#pragma unroll
    for (int row = 0; row < R; ++row)
#pragma unroll
      for (int i = 0; i < C; ++i) finish(out[row][i], first + row, (index + i * step) * kTileRows);
  }

  inline __attribute__((always_inline)) void finish(Rows sum, int64_t row, int64_t column) const {
    T* to = y + row * y_stride + column;
    if (n - column >= kTileRows) {
      if (GX_BIAS) sum += load_floats<kTileRows>(bias + column);
      return store_floats<kTileRows>(to, sum);
    }
#pragma clang loop unroll(disable) vectorize(disable)
    for (int64_t i = 0; i < n - column; ++i)
      store_floats<1>(to + i, Floats<1>(sum[i] + (GX_BIAS ? load_float(bias + column + i) : 0.0f)));
  }

  template <int C>
  inline __attribute__((always_inline)) void all_rows(int64_t count, int64_t index, int64_t step) const {
    if (GX_M == 1) return rows<1, C>(0, index, step);
#pragma clang loop unroll(disable)
    for (int64_t row = 0; row < count; row += kPanel) {
      const int64_t left = panel_rows(count, row);
      if (left == 1) rows<1, C>(row, index, step);
      if (left == 2) rows<2, C>(row, index, step);
      if (left == 3) rows<3, C>(row, index, step);
      if (left == 4) rows<4, C>(row, index, step);
    }
  }

  // The range is read as C runs of tiles side by side, each one long stream; where it doesn't divide, the last tile is
  // taken more than once.
  template <int C>
  inline __attribute__((always_inline)) void range(int64_t count, int64_t begin, int64_t end) const {
    static_assert(C <= 2);
    const int64_t run = ceil_div(end - begin, C);
#pragma clang loop unroll(disable)
    for (int64_t index = begin; index < begin + run; ++index) all_rows<C>(count, index, min(run, end - 1 - index));
  }
};

GX_INLINE int64_t tiles(const int64_t* sizes) {
  return sizes[kBlocksM] == 0 ? 0 : ceil_div(sizes[kBlocksN], kTileRows);
}

// How many rows of X are rounded at a time.
GX_INLINE int64_t rounded_rows(int64_t k) {
  const int64_t row_bytes = k / kBlockGroup * int64_t(sizeof(InputGroup));
  const int64_t fit = row_bytes == 0 ? kMaxRows : kPanelBytes / row_bytes / kPanel * kPanel;
  return min(kMaxRows, fit > kPanel ? fit : kPanel);
}

// The rounded rows must outlast a call.
GX_INLINE bool is_divisible(const int64_t* sizes) { return sizes[kBlocksM] <= rounded_rows(sizes[kBlocksK]); }

template <class Format, class T>
GX_INLINE void run(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  const int64_t m = GX_M == 1 ? 1 : sizes[kBlocksM], k = sizes[kBlocksK];
  auto* panels = static_cast<InputGroup*>(worker->scratch);
  const int64_t rows = rounded_rows(k);
  const T* x = static_cast<const T*>(pointers[1]);
#pragma clang loop unroll(disable)
  for (int64_t row = 0; row < m; row += rows) {
    const int64_t count = min(rows, m - row);
    if (worker->piece == 0 || m > rows)
      pack<Format>(panels, x + row * sizes[kBlocksXStrideM], sizes[kBlocksXStrideM], count, k);
    const Layer<Format, T> layer = {sizes[kBlocksN],
                                    k,
                                    sizes[kBlocksWStride],
                                    sizes[kBlocksYStrideM],
                                    static_cast<const char*>(pointers[2]),
                                    static_cast<const T*>(pointers[3]),
                                    panels,
                                    static_cast<T*>(pointers[0]) + row * sizes[kBlocksYStrideM]};
    if (GX_M == 1) layer.template range<Format::kStreams>(count, begin, end);
    if (GX_M != 1) layer.template range<2>(count, begin, end);
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
