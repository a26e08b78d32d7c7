// The query rows of one tile with their running softmax, and the row-wise part of attention: mask, exp, sum.
#pragma once

#include "graphex/kernels/attention/problem.h"

namespace graphex::kernels {

// Row r is query first_query + r / heads of head first_head + r % heads.
struct Rows {
  int64_t batch, first_head, heads, first_query, count;
  int64_t padded;  // count, rounded up to register tiles
  float* query;    // [padded][head_dim], scaled
  float* out;      // [padded][padded_value_dim], unnormalised
  float* maximum;  // [padded]
  float* sum;      // [padded]
  int64_t* begin;  // [padded] visible keys
  int64_t* end;
  const char** mask;  // [padded] start of the row's mask
  float* scratch;     // what is left of the worker's scratch
  float* ordered;     // direct only: [count][head_dim up to whole groups]
  float* scores;      // direct only: [count][keys_per_pass]
};

template <typename P>
GX_INLINE P* take(char** scratch, int64_t count) {
  P* result = reinterpret_cast<P*>(*scratch);
  *scratch += round_up(count * static_cast<int64_t>(sizeof(P)), 64);
  return result;
}

GX_INLINE Rows take_rows(void* memory, const int64_t* sizes, int64_t count) {
  char* scratch = static_cast<char*>(memory);
  Rows rows = {};
  rows.count = count;
  rows.padded = round_up(count, kTileRows);
  rows.query = take<float>(&scratch, rows.padded * head_dim(sizes) + kLanes);
  rows.out = take<float>(&scratch, rows.padded * padded_value_dim(sizes));
  rows.maximum = take<float>(&scratch, rows.padded);
  rows.sum = take<float>(&scratch, rows.padded);
  rows.begin = take<int64_t>(&scratch, rows.padded);
  rows.end = take<int64_t>(&scratch, rows.padded);
  rows.mask = take<const char*>(&scratch, rows.padded);
  rows.scratch = reinterpret_cast<float*>(scratch);
  return rows;
}

template <typename T>
GX_INLINE void load_query(float* to, const T* from, int64_t count, float scale) {
  int64_t d = 0;
  for (; d + kLanes <= count; d += kLanes) store_as(to + d, load(from + d) * scale);
  GX_PLAIN_LOOP
  for (; d < count; ++d) to[d] = load_float(from + d) * scale;
}

GX_INLINE int64_t mask_element_bytes(int64_t element_bytes) {
  return GX_MASK == kMaskBoolean ? 1 : GX_MASK_F32 ? 4 : element_bytes;
}

// Reads the queries and what they may see. Padding rows see nothing.
template <typename T>
GX_NOINLINE void start_rows(Rows* rows, void* const* pointers, const int64_t* sizes) {
  const float scale = static_cast<float>(__builtin_bit_cast(double, sizes[kScale]));
  const int64_t depth = head_dim(sizes);
  const T* query = static_cast<const T*>(pointers[kQuery]) + rows->batch * sizes[kQueryStrideB];
  const char* mask = static_cast<const char*>(pointers[kMask]);
  GX_PLAIN_LOOP
  for (int64_t r = 0; r < rows->padded; ++r) {
    rows->maximum[r] = -__builtin_inff();
    rows->sum[r] = 0;
    rows->begin[r] = rows->end[r] = 0;
    rows->mask[r] = mask;
    float* to = rows->query + r * depth;
    if (r >= rows->count) {
      __builtin_memset(to, 0, depth * sizeof(float));
      continue;
    }
    const int64_t i = rows->first_query + r / rows->heads, h = rows->first_head + r % rows->heads;
    load_query(to, query + h * sizes[kQueryStrideH] + i * sizes[kQueryStrideL], depth, scale);
    const Range keys = visible_keys(static_cast<const int64_t*>(pointers[kBound]), sizes, rows->batch, i);
    rows->begin[r] = keys.begin;
    rows->end[r] = keys.end;
    rows->mask[r] = mask + (rows->batch * sizes[kMaskStrideB] + h * sizes[kMaskStrideH] + i * sizes[kMaskStrideI]) *
                               mask_element_bytes(sizeof(T));
  }
  __builtin_memset(rows->out, 0, rows->padded * padded_value_dim(sizes) * sizeof(float));
}

template <typename M>
GX_INLINE Vec load_mask(const M* mask, int64_t stride, int64_t count) {
  if (stride == 1 && count >= kLanes) return load(mask);
  M lanes[kLanes] = {};
  GX_PLAIN_LOOP
  for (int64_t i = 0; i < count && i < kLanes; ++i) lanes[i] = mask[i * stride];
  return load(lanes);
}

// Adds (or applies) the mask of keys [key, key + count) to their scores.
template <typename T>
GX_INLINE Vec apply_mask(Vec score, const char* mask, int64_t stride, int64_t key, int64_t count) {
  if (GX_MASK == kMaskAdditive && GX_MASK_F32)
    return score + load_mask(reinterpret_cast<const float*>(mask) + key * stride, stride, count);
  if (GX_MASK == kMaskAdditive)
    return score + load_mask(reinterpret_cast<const T*>(mask) + key * stride, stride, count);
  if (GX_MASK == kMaskBoolean) {
    IntVec keep = {};
    GX_PLAIN_LOOP
    for (int64_t i = 0; i < count && i < kLanes; ++i) keep[i] = mask[(key + i) * stride] != 0;
    return keep != 0 ? score : Vec(-__builtin_inff());
  }
  return score;
}

// Masks the scores of keys [key, key + count) of row r; lanewise maximum.
template <typename T>
GX_INLINE Vec mask_row(const Rows& rows, const int64_t* sizes, int64_t r, float* scores, int64_t key, int64_t count) {
  const int64_t begin = rows.begin[r] - key, end = min_of(rows.end[r] - key, count);
  const Vec nothing = Vec(-__builtin_inff());
  Vec top = nothing;
  GX_PLAIN_LOOP
  for (int64_t t = 0; t < count; t += kLanes) {
    Vec score = load(scores + t);
    if (GX_MASK == kMaskAdditive || GX_MASK == kMaskBoolean)
      score = apply_mask<T>(score, rows.mask[r], sizes[kMaskStrideJ], key + t, count - t);
    if (t < begin || t + kLanes > end) {
      const IntVec index = lane_indices() + static_cast<int32_t>(t);
      const IntVec inside =
          (index >= static_cast<int32_t>(max_of(begin, 0))) & (index < static_cast<int32_t>(max_of(end, 0)));
      score = inside ? score : nothing;
    }
    store_as(scores + t, score);
    top = max_of(score, top);
  }
  return top;
}

// Turns the scores of keys [key, key + count) of row r into weights exp(score - maximum), 0 where the key doesn't
// take part, and updates the row's maximum and sum. Returns the factor by which earlier output shrinks.
// A row whose scores so far are all -inf is measured against 0, so that its weights are 0 and a NaN still shows.
template <typename T>
GX_NOINLINE float weigh_row(const Rows& rows, const int64_t* sizes, int64_t r, float* scores, int64_t key,
                            int64_t count) {
  const int64_t begin = rows.begin[r] - key, end = min_of(rows.end[r] - key, count);
  const Vec nothing = Vec(-__builtin_inff());
  Vec top = nothing;
  if (GX_MASK != kMaskAdditive && GX_MASK != kMaskBoolean && begin <= 0 && count <= end && count % kLanes == 0) {
    for (int64_t t = 0; t < count; t += kLanes) top = max_of(load(scores + t), top);
  } else {
    top = mask_row<T>(rows, sizes, r, scores, key, count);
  }
  const float before = rows.maximum[r], now = max_of_lanes(max_of(Vec(before), top));
  const float base = now == -__builtin_inff() ? 0 : now;
  Vec sum = {};
#pragma clang loop unroll_count(2)
  for (int64_t t = 0; t < count; t += kLanes) {
    const Vec weight = exp_nonpositive(load(scores + t) - base);
    store_as(scores + t, weight);
    sum += weight;
  }
  const float shrink = exp_nonpositive(Vec(before - base))[0];
  rows.maximum[r] = now;
  rows.sum[r] = rows.sum[r] * shrink + sum_of_lanes(sum);
  return shrink;
}

}  // namespace graphex::kernels
