// Attention of few rows to one chunk of keys (decode): keys and values are read once, straight from their place.
// A register tile is up to 3 rows x 4 keys for the scores, and 3 rows x 4 vectors for the output.
#pragma once

#include "graphex/kernels/attention/rows.h"

namespace graphex::kernels {

// Beyond this many rows the products outweigh the packing.
inline constexpr int64_t kDirectRows = 16;

typedef float f32x4 __attribute__((vector_size(16)));

GX_INLINE f32x4 fold(f32v v) {
#if defined(__AVX512F__)
  typedef float f32x8 __attribute__((vector_size(32)));
  const f32x8 half = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  return __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
#elif defined(__AVX2__)
  return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
  return v;
#endif
}

// Lane k of the result is the sum of the lanes of v[k].
GX_INLINE f32x4 sum_each(const f32v* v) {
  const f32x4 a = fold(v[0]), b = fold(v[1]), c = fold(v[2]), d = fold(v[3]);
  const f32x4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const f32x4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

// scores[r][0..3] = query[r] . keys[k]
template <int kRows, typename T>
GX_INLINE void score_tile(float* scores, int64_t score_stride, const float* query, int64_t depth, const T* const* keys) {
  f32v sum[kRows][4] = {};
  int64_t d = 0;
  for (; d + kLanes <= depth; d += kLanes) {
    f32v key[4];
    for (int k = 0; k < 4; ++k) key[k] = load(keys[k] + d);
    for (int r = 0; r < kRows; ++r) {
      const f32v q = load(query + r * depth + d);
      for (int k = 0; k < 4; ++k) sum[r][k] = mul_add(q, key[k], sum[r][k]);
    }
  }
  if (d < depth) {
    f32v key[4];
    for (int k = 0; k < 4; ++k) key[k] = load_part(keys[k] + d, depth - d);
    for (int r = 0; r < kRows; ++r) {
      const f32v q = load_part(query + r * depth + d, depth - d);
      for (int k = 0; k < 4; ++k) sum[r][k] = mul_add(q, key[k], sum[r][k]);
    }
  }
  for (int r = 0; r < kRows; ++r) store_as(scores + r * score_stride, sum_each(sum[r]));
}

// out[r][0 .. kVectors * kLanes) = sum over k of weights[r][k] * values[k]
template <int kRows, int kVectors, typename T>
GX_INLINE void output_tile(float* out, int64_t out_stride, const float* weights, int64_t weight_stride, const T* values,
                           int64_t value_stride, int64_t count) {
  f32v sum[kRows][kVectors] = {};
  for (int64_t k = 0; k < count; ++k) {
    for (int v = 0; v < kVectors; ++v) {
      const f32v value = load(values + k * value_stride + v * kLanes);
      for (int r = 0; r < kRows; ++r) sum[r][v] = mul_add(splat(weights[r * weight_stride + k]), value, sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) store(out + r * out_stride + v * kLanes, sum[r][v]);
}

// The last columns, fewer than a vector.
template <typename T>
GX_INLINE void output_tail(float* out, const float* weights, const T* values, int64_t value_stride, int64_t count,
                           int64_t columns) {
  f32v sum = {};
  for (int64_t k = 0; k < count; ++k) sum = mul_add(splat(weights[k]), load_part(values + k * value_stride, columns), sum);
  store(out, sum);
}

template <int kRows, typename T>
GX_PHASE void attend_rows(const Rows& rows, const int64_t* sizes, int64_t first, const T* keys, const T* values,
                           int64_t key, int64_t count, float* scores) {
  const int64_t depth = head_dim(sizes), width = value_dim(sizes), out_stride = padded_value_dim(sizes);
  const int64_t score_stride = round_up(keys_per_chunk(sizes), kLanes);
  for (int64_t j = 0; j < count; j += 4) {
    const T* four[4];
    for (int64_t k = 0; k < 4; ++k) four[k] = keys + min_of(j + k, count - 1) * sizes[kKeyStrideL];
    score_tile<kRows>(scores + j, score_stride, rows.query + first * depth, depth, four);
  }
  for (int64_t r = 0; r < kRows; ++r) weigh_row<T>(rows, sizes, first + r, scores + r * score_stride, key, count);
  float* out = rows.out + first * out_stride;
  const int64_t stride = sizes[kValueStrideL];
  int64_t d = 0;
  for (; d + 4 * kLanes <= width; d += 4 * kLanes)
    output_tile<kRows, 4>(out + d, out_stride, scores, score_stride, values + d, stride, count);
  for (; d + kLanes <= width; d += kLanes)
    output_tile<kRows, 1>(out + d, out_stride, scores, score_stride, values + d, stride, count);
  for (int64_t r = 0; r < kRows && d < width; ++r)
    output_tail(out + r * out_stride + d, scores + r * score_stride, values + d, stride, count, width - d);
}

// Attention of all rows to keys [key, key + count), at most a chunk; rows must be fresh.
template <typename T>
GX_INLINE void attend_direct(const Rows& rows, const int64_t* sizes, const T* keys, const T* values, int64_t key,
                             int64_t count) {
  keys += key * sizes[kKeyStrideL];
  values += key * sizes[kValueStrideL];
  int64_t r = 0;
  for (; r + 3 <= rows.count && rows.count - r != 4; r += 3)
    attend_rows<3>(rows, sizes, r, keys, values, key, count, rows.scratch);
  for (; r + 2 <= rows.count; r += 2) attend_rows<2>(rows, sizes, r, keys, values, key, count, rows.scratch);
  for (; r < rows.count; ++r) attend_rows<1>(rows, sizes, r, keys, values, key, count, rows.scratch);
}

}  // namespace graphex::kernels
