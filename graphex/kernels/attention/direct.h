// Attention of few rows to one chunk of keys (decode): keys and values are read once, straight from their place.
//
// A register tile is up to 3 rows x 4 keys for the scores, and 3 rows x 4 vectors for the output. Memory never rests:
// while the scores are computed the chunk's values are fetched into L2, and while the output is, the next chunk's keys.
#pragma once

#include "graphex/kernels/attention/rows.h"

namespace graphex::kernels {

// Beyond this many rows the products outweigh the packing.
inline constexpr int64_t kDirectRows = 16;
inline constexpr int64_t kLine = 64;

// How kElements neighbours of T widen to kParts vectors, and kGroups, how many of them an output tile takes. A part is
// loaded on its own: loads are cheaper than the registers to keep them.
template <typename T>
struct Wide {
  static constexpr int kParts = 1, kElements = kLanes, kGroups = 4;
  template <int kPart>
  GX_INLINE Vec load_part(const T* from) {
    return load(from);
  }
  GX_INLINE void store_from(float* to, const Vec* parts) { store_as(to, parts[0]); }
};

// Even elements, then odd ones: a shift or a mask instead of a widening load. The mask costs a register.
template <>
struct Wide<bf16> {
  static constexpr int kParts = 2, kElements = 2 * kLanes, kGroups = kLanes == 16 ? 2 : 1;
  template <int kPart>
  GX_INLINE Vec load_part(const bf16* from) {
    const WordVec pairs = load<WordVec>(from);
    return __builtin_bit_cast(Vec, kPart == 0 ? pairs << 16 : pairs & 0xffff0000u);
  }
  GX_INLINE void store_from(float* to, const Vec* parts) {
    store_as(to, zip_low(parts[0], parts[1]));
    store_as(to + kLanes, zip_high(parts[0], parts[1]));
  }
};

// A query row in the order in which keys widen, with zeros up to whole groups.
template <typename T>
GX_INLINE void order_query(float* to, const float* from, int64_t depth) {
  constexpr int kParts = Wide<T>::kParts, kElements = Wide<T>::kElements;
  GX_PLAIN_LOOP
  for (int64_t d = 0; d < round_up(depth, kElements); ++d) {
    const int64_t group = d / kElements * kElements, at = d % kElements;
    to[group + at % kParts * kLanes + at / kParts] = d < depth ? from[d] : 0;
  }
}

template <int kPart, int kRows, typename T>
GX_INLINE void add_part(Vec (&sum)[kRows][4], const float* query, int64_t query_stride, const T* const* keys,
                        int64_t d) {
  Vec q[kRows];
  for (int r = 0; r < kRows; ++r) q[r] = load(query + r * query_stride + d + kPart * kLanes);
  for (int k = 0; k < 4; ++k) {
    const Vec key = Wide<T>::template load_part<kPart>(keys[k] + d);
    for (int r = 0; r < kRows; ++r) sum[r][k] = multiply_add(q[r], key, sum[r][k]);
  }
}

template <int kRows, typename T>
GX_INLINE void add_products(Vec (&sum)[kRows][4], const float* query, int64_t query_stride, const T* const* keys,
                            int64_t d) {
  add_part<0>(sum, query, query_stride, keys, d);
  if constexpr (Wide<T>::kParts == 2) {
    asm("" : "+r"(d));  // else both parts share one load, which is then kept on the stack
    add_part<1>(sum, query, query_stride, keys, d);
  }
}

// scores[r][0..3] = query[r] . keys[k]
template <int kRows, typename T>
GX_INLINE void score_tile(float* scores, int64_t score_stride, const float* query, int64_t depth,
                          const T* const* keys) {
  constexpr int kElements = Wide<T>::kElements;
  const int64_t query_stride = round_up(depth, kElements);
  Vec sum[kRows][4] = {};
  int64_t d = 0;
#pragma clang loop unroll(disable)
  for (; d + kElements <= depth; d += kElements) add_products(sum, query, query_stride, keys, d);
  if (d < depth) {
    T tails[4][kElements] = {};
    const T* rest[4];
    for (int k = 0; k < 4; ++k) {
      GX_PLAIN_LOOP
      for (int64_t i = d; i < depth; ++i) tails[k][i - d] = keys[k][i];
      rest[k] = tails[k] - d;
    }
    add_products(sum, query, query_stride, rest, d);
  }
  for (int r = 0; r < kRows; ++r)
    store(scores + r * score_stride, sum_lanes(sum[r][0], sum[r][1], sum[r][2], sum[r][3]));
}

template <int kPart, int kRows, int kGroups, int kParts, typename T>
GX_INLINE void add_weighted(Vec (&sum)[kRows][kGroups][kParts], int group, const Vec* weight, const T* from) {
  const Vec value = Wide<T>::template load_part<kPart>(from);
  for (int r = 0; r < kRows; ++r) sum[r][group][kPart] = multiply_add(weight[r], value, sum[r][group][kPart]);
}

// out[r][0 .. kGroups * kElements) = sum over k of weights[r][k] * values[k]; fetches the same columns of `next`.
template <int kRows, int kGroups, typename T>
GX_INLINE void output_tile(float* out, int64_t out_stride, const float* weights, int64_t weight_stride, const T* values,
                           int64_t value_stride, const T* next, int64_t next_stride, int64_t count) {
  constexpr int kParts = Wide<T>::kParts, kElements = Wide<T>::kElements;
  Vec sum[kRows][kGroups][kParts] = {};
#pragma clang loop unroll(disable)
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t line = 0; line < kGroups * kElements * static_cast<int64_t>(sizeof(T)); line += kLine)
      __builtin_prefetch(reinterpret_cast<const char*>(next + k * next_stride) + line, 0, 2);
    Vec weight[kRows];
    for (int r = 0; r < kRows; ++r) weight[r] = weights[r * weight_stride + k];
    for (int group = 0; group < kGroups; ++group) {
      const T* from = values + k * value_stride + group * kElements;
      add_weighted<0>(sum, group, weight, from);
      if constexpr (kParts == 2) add_weighted<1>(sum, group, weight, from);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int group = 0; group < kGroups; ++group)
      Wide<T>::store_from(out + r * out_stride + group * kElements, sum[r][group]);
}

// Columns that don't fill a group, a vector or less at a time.
template <typename T>
GX_INLINE void output_tail(float* out, const float* weights, const T* values, int64_t value_stride, int64_t count,
                           int64_t columns) {
  for (int64_t d = 0; d < columns; d += kLanes) {
    Vec sum = {};
    for (int64_t k = 0; k < count; ++k)
      sum = multiply_add<Vec>(weights[k], load_part(values + k * value_stride + d, min_of(columns - d, kLanes)), sum);
    store_as(out + d, sum);
  }
}

// A chunk of keys and what is known of it.
template <typename T>
struct Chunk {
  const T* keys;  // first key
  const T* values;
  const T* next;  // first key of what will be read afterwards
  int64_t key, count;
  float* queries;  // ordered
  float* scores;
};

template <int kRows, typename T>
GX_INLINE void score_rows(const int64_t* sizes, const Chunk<T>& chunk, const float* query, int64_t score_stride) {
  const int64_t depth = head_dim(sizes), key_stride = sizes[kKeyStrideL], value_stride = sizes[kValueStrideL];
  const int64_t value_bytes = value_dim(sizes) * static_cast<int64_t>(sizeof(T));
#pragma clang loop unroll(disable)
  for (int64_t j = 0; j < chunk.count; j += 4) {
    const T* four[4];
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t at = min_of(j + k, chunk.count - 1);
      four[k] = chunk.keys + at * key_stride;
      const char* value = reinterpret_cast<const char*>(chunk.values + at * value_stride);
      for (int64_t line = 0; line < value_bytes; line += kLine) __builtin_prefetch(value + line, 0, 2);
    }
    score_tile<kRows>(chunk.scores + j, score_stride, query, depth, four);
  }
}

template <int kRows, typename T>
GX_NOINLINE void attend_rows(const Rows& rows, const int64_t* sizes, int64_t first, const Chunk<T>& chunk) {
  constexpr int kGroups = Wide<T>::kGroups, kElements = Wide<T>::kElements;
  const int64_t width = value_dim(sizes), out_stride = padded_value_dim(sizes);
  const int64_t score_stride = keys_per_chunk(sizes), stride = sizes[kValueStrideL], key_stride = sizes[kKeyStrideL];
  score_rows<kRows>(sizes, chunk, chunk.queries + first * round_up(head_dim(sizes), kElements), score_stride);
  for (int64_t r = 0; r < kRows; ++r)
    weigh_row<T>(rows, sizes, first + r, chunk.scores + r * score_stride, chunk.key, chunk.count);
  float* out = rows.out + first * out_stride;
  int64_t d = 0;
  for (; d + kGroups * kElements <= width; d += kGroups * kElements)
    output_tile<kRows, kGroups>(out + d, out_stride, chunk.scores, score_stride, chunk.values + d, stride,
                                chunk.next + d, key_stride, chunk.count);
  for (; kGroups > 1 && d + kElements <= width; d += kElements)
    output_tile<kRows, 1>(out + d, out_stride, chunk.scores, score_stride, chunk.values + d, stride, chunk.next + d,
                          key_stride, chunk.count);
  for (int64_t r = 0; r < kRows && d < width; ++r)
    output_tail(out + r * out_stride + d, chunk.scores + r * score_stride, chunk.values + d, stride, chunk.count,
                width - d);
}

// Attention of all rows, which must be fresh, to a chunk. Rows go by threes, a last four or two by twos; one row takes
// a padding row along, which costs less than a tile of its own to compile.
template <typename T>
GX_INLINE void attend_direct(const Rows& rows, const int64_t* sizes, Chunk<T> chunk) {
  const int64_t depth = head_dim(sizes), query_stride = round_up(depth, Wide<T>::kElements);
  const int64_t count = max_of(rows.count, 2);
  char* scratch = reinterpret_cast<char*>(rows.scratch);
  chunk.queries = take<float>(&scratch, count * query_stride);
  chunk.scores = take<float>(&scratch, 3 * keys_per_chunk(sizes));
  GX_PLAIN_LOOP
  for (int64_t r = 0; r < count; ++r) order_query<T>(chunk.queries + r * query_stride, rows.query + r * depth, depth);
  for (int64_t r = 0; r < count;) {
    const int64_t left = count - r;
    if (left == 2 || left == 4) {
      attend_rows<2>(rows, sizes, r, chunk);
      r += 2;
    } else {
      attend_rows<3>(rows, sizes, r, chunk);
      r += 3;
    }
  }
}

}  // namespace graphex::kernels
