// Attention of many rows to a block of keys: keys and values are widened and packed once, then both products run on
// one register tile, row group by row group, with the scores of a group staying in L1.
#pragma once

#include "graphex/kernels/attention/rows.h"

namespace graphex::kernels {

// log2(kLanes) perfect shuffles of the rows transpose a square.
GX_INLINE void transpose(Vec* v) {
  for (int step = 1; step < kLanes; step *= 2) {
    Vec out[kLanes];
    for (int i = 0; i < kLanes / 2; ++i) {
      out[2 * i] = zip_low(v[i], v[i + kLanes / 2]);
      out[2 * i + 1] = zip_high(v[i], v[i + kLanes / 2]);
    }
    for (int i = 0; i < kLanes; ++i) v[i] = out[i];
  }
}

// Keys [key, key + count) -> panels[count / kTileColumns][depth][kTileColumns]; beyond count 0. Those before `first`
// aren't read and hold anything.
template <typename T>
GX_NOINLINE void pack_keys(float* panels, const Lines<T>& keys, int64_t key, int64_t first, int64_t count,
                           int64_t depth) {
  for (int64_t j = 0; j < round_up(count, kTileColumns); j += kLanes) {
    float* panel = panels + j / kTileColumns * kTileColumns * depth + j % kTileColumns;
    const T* rows[kLanes];
    GX_PLAIN_LOOP
    for (int64_t i = 0; i < kLanes; ++i) rows[i] = keys.row(max_of(min_of(key + j + i, key + count - 1), first));
    int64_t d = 0;
    for (; d + kLanes <= depth && j + kLanes <= count; d += kLanes) {
      Vec square[kLanes];
      for (int i = 0; i < kLanes; ++i) square[i] = load(rows[i] + d);
      transpose(square);
      for (int i = 0; i < kLanes; ++i) store_as(panel + (d + i) * kTileColumns, square[i]);
    }
    GX_PLAIN_LOOP
    for (; d < depth; ++d) {
      GX_PLAIN_LOOP
      for (int64_t i = 0; i < kLanes; ++i) panel[d * kTileColumns + i] = j + i < count ? load_float(rows[i] + d) : 0;
    }
  }
}

// Values [key, key + count) -> panels[width / kTileColumns][count][kTileColumns]; columns beyond width become 0, and so
// do values before `first`, which aren't read.
template <typename T>
GX_NOINLINE void pack_values(float* panels, const Lines<T>& values, int64_t key, int64_t first, int64_t count,
                             int64_t width) {
  for (int64_t d = 0; d < round_up(width, kTileColumns); d += kLanes) {
    float* panel = panels + d / kTileColumns * kTileColumns * count + d % kTileColumns;
    int64_t j = 0;
    GX_PLAIN_LOOP
    for (; j < min_of(first - key, count); ++j) store_as(panel + j * kTileColumns, Vec(0.0f));
    while (j < count) {
      const T* from = values.row(key + j) + d;
      const int64_t stop = values.run_end(key + j, key + count) - key;
      if (d + kLanes <= width) {
#pragma clang loop unroll_count(4)
        for (; j < stop; ++j, from += values.stride) store_as(panel + j * kTileColumns, load(from));
      } else {
        GX_PLAIN_LOOP
        for (; j < stop; ++j, from += values.stride) store_as(panel + j * kTileColumns, load_part(from, width - d));
      }
    }
  }
}

// c[kTileRows][kTileColumns] = shrink[row] * c + a[kTileRows][depth] * panel[depth][kTileColumns]; without shrink c
// starts at 0.
template <bool kAccumulate>
GX_INLINE void multiply_tile(float* c, int64_t c_stride, const float* a, int64_t a_stride, const float* panel,
                             int64_t depth, const float* shrink) {
  Vec sum[kTileRows][2];
  for (int64_t r = 0; r < kTileRows; ++r)
    for (int v = 0; v < 2; ++v) sum[r][v] = kAccumulate ? load(c + r * c_stride + v * kLanes) * shrink[r] : Vec(0.0f);
  for (int64_t k = 0; k < depth; ++k) {
    const Vec left = load(panel + k * kTileColumns), right = load(panel + k * kTileColumns + kLanes);
    for (int64_t r = 0; r < kTileRows; ++r) {
      const Vec scale = a[r * a_stride + k];
      sum[r][0] = multiply_add(scale, left, sum[r][0]);
      sum[r][1] = multiply_add(scale, right, sum[r][1]);
    }
  }
  for (int64_t r = 0; r < kTileRows; ++r)
    for (int v = 0; v < 2; ++v) store_as(c + r * c_stride + v * kLanes, sum[r][v]);
}

// Attention of kTileRows rows from `first` to `count` packed keys.
template <typename T>
GX_INLINE void attend_group(const Rows& rows, const int64_t* sizes, int64_t first, const float* keys, int64_t key,
                            int64_t count, const float* values, int64_t value_count, float* scores) {
  const int64_t depth = head_dim(sizes), width = padded_value_dim(sizes), score_stride = keys_per_block(sizes);
  for (int64_t j = 0; j < count; j += kTileColumns)
    multiply_tile<false>(scores + j, score_stride, rows.query + first * depth, depth, keys + j * depth, depth, nullptr);
  float shrink[kTileRows];
  for (int64_t r = 0; r < kTileRows; ++r)
    shrink[r] = weigh_row<T>(rows, sizes, first + r, scores + r * score_stride, key, count);
  for (int64_t d = 0; d < width; d += kTileColumns)
    multiply_tile<true>(rows.out + first * width + d, width, scores, score_stride, values + d * value_count, count,
                        shrink);
}

// Attention of all rows to keys [key, key + count), of which none sees those before `first_key`.
template <typename T>
GX_NOINLINE void attend_packed(const Rows& rows, const int64_t* sizes, const Lines<T>& keys, const Lines<T>& values,
                               int64_t key, int64_t first_key, int64_t count) {
  char* scratch = reinterpret_cast<char*>(rows.scratch);
  float* scores = take<float>(&scratch, kTileRows * keys_per_block(sizes));
  float* key_panels = take<float>(&scratch, keys_per_block(sizes) * head_dim(sizes));
  float* value_panels = take<float>(&scratch, keys_per_block(sizes) * padded_value_dim(sizes));
  pack_keys(key_panels, keys, key, first_key, count, head_dim(sizes));
  pack_values(value_panels, values, key, first_key, count, value_dim(sizes));
  for (int64_t first = 0; first < rows.padded; first += kTileRows) {
    int64_t begin = key + count, end = 0;
    GX_PLAIN_LOOP
    for (int64_t r = first; r < first + kTileRows; ++r) {
      if (rows.begin[r] >= rows.end[r]) continue;
      begin = min_of(begin, rows.begin[r]);
      end = max_of(end, rows.end[r]);
    }
    const int64_t seen = min_of(end - key, count);
    if (seen <= 0 || begin >= key + count) continue;
    attend_group<T>(rows, sizes, first, key_panels, key, seen, value_panels, count, scores);
  }
}

}  // namespace graphex::kernels
