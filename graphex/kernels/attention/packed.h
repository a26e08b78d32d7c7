// Attention of many rows to a block of keys: keys and values are widened and packed once, then both products run on
// one register tile, row group by row group, with the scores of a group staying in L1.
#pragma once

#include "graphex/kernels/attention/rows.h"

namespace graphex::kernels {

GX_INLINE f32v zip_low(f32v a, f32v b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}

GX_INLINE f32v zip_high(f32v a, f32v b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}

// log2(kLanes) perfect shuffles of the rows transpose a square.
GX_INLINE void transpose(f32v* v) {
  for (int step = 1; step < kLanes; step *= 2) {
    f32v out[kLanes];
    for (int i = 0; i < kLanes / 2; ++i) {
      out[2 * i] = zip_low(v[i], v[i + kLanes / 2]);
      out[2 * i + 1] = zip_high(v[i], v[i + kLanes / 2]);
    }
    for (int i = 0; i < kLanes; ++i) v[i] = out[i];
  }
}

// keys[count][depth] -> panels[count / kTileColumns][depth][kTileColumns]; keys beyond count become 0.
template <typename T>
GX_PHASE void pack_keys(float* panels, const T* keys, int64_t stride, int64_t count, int64_t depth) {
  for (int64_t j = 0; j < round_up(count, kTileColumns); j += kLanes) {
    float* panel = panels + j / kTileColumns * kTileColumns * depth + j % kTileColumns;
    int64_t d = 0;
    for (; d + kLanes <= depth && j + kLanes <= count; d += kLanes) {
      f32v square[kLanes];
      for (int i = 0; i < kLanes; ++i) square[i] = load(keys + (j + i) * stride + d);
      transpose(square);
      for (int i = 0; i < kLanes; ++i) store(panel + (d + i) * kTileColumns, square[i]);
    }
    for (; d < depth; ++d)
      for (int64_t i = 0; i < kLanes; ++i)
        panel[d * kTileColumns + i] = j + i < count ? to_float(keys + (j + i) * stride + d) : 0;
  }
}

// values[count][width] -> panels[width / kTileColumns][count][kTileColumns]; columns beyond width become 0.
template <typename T>
GX_PHASE void pack_values(float* panels, const T* values, int64_t stride, int64_t count, int64_t width) {
  for (int64_t d = 0; d < round_up(width, kTileColumns); d += kLanes) {
    float* panel = panels + d / kTileColumns * kTileColumns * count + d % kTileColumns;
    const int64_t lanes = min_of(width - d, kLanes);
    for (int64_t j = 0; j < count; ++j) {
      const f32v v = lanes == kLanes ? load(values + j * stride + d) : load_part(values + j * stride + d, lanes);
      store(panel + j * kTileColumns, v);
    }
  }
}

// c[kTileRows][kTileColumns] = shrink[row] * c + a[kTileRows][depth] * panel[depth][kTileColumns]; without shrink c starts at 0.
template <bool kAccumulate>
GX_INLINE void multiply_tile(float* c, int64_t c_stride, const float* a, int64_t a_stride, const float* panel,
                             int64_t depth, const float* shrink) {
  f32v sum[kTileRows][2];
  for (int64_t r = 0; r < kTileRows; ++r)
    for (int v = 0; v < 2; ++v)
      sum[r][v] = kAccumulate ? load(c + r * c_stride + v * kLanes) * shrink[r] : f32v{};
  for (int64_t k = 0; k < depth; ++k) {
    const f32v left = load(panel + k * kTileColumns), right = load(panel + k * kTileColumns + kLanes);
    for (int64_t r = 0; r < kTileRows; ++r) {
      const f32v scale = splat(a[r * a_stride + k]);
      sum[r][0] = mul_add(scale, left, sum[r][0]);
      sum[r][1] = mul_add(scale, right, sum[r][1]);
    }
  }
  for (int64_t r = 0; r < kTileRows; ++r)
    for (int v = 0; v < 2; ++v) store(c + r * c_stride + v * kLanes, sum[r][v]);
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
    multiply_tile<true>(rows.out + first * width + d, width, scores, score_stride, values + d * value_count, count, shrink);
}

// Attention of all rows to keys [key, key + count).
template <typename T>
GX_PHASE void attend_packed(const Rows& rows, const int64_t* sizes, const T* keys, const T* values, int64_t key,
                             int64_t count) {
  char* scratch = reinterpret_cast<char*>(rows.scratch);
  float* scores = take<float>(&scratch, kTileRows * keys_per_block(sizes));
  float* key_panels = take<float>(&scratch, keys_per_block(sizes) * head_dim(sizes));
  float* value_panels = take<float>(&scratch, keys_per_block(sizes) * padded_value_dim(sizes));
  pack_keys(key_panels, keys + key * sizes[kKeyStrideL], sizes[kKeyStrideL], count, head_dim(sizes));
  pack_values(value_panels, values + key * sizes[kValueStrideL], sizes[kValueStrideL], count, value_dim(sizes));
  for (int64_t first = 0; first < rows.padded; first += kTileRows) {
    int64_t begin = key + count, end = 0;
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
