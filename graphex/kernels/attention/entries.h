// The entries of scaled dot product attention; the contract is in attention.h. Decode runs split over chunks of keys
// (partial, then merge), prefill runs as flash attention over blocks of queries.
#pragma once

#include "graphex/base/kernel_abi.h"
#include "graphex/kernels/attention/direct.h"
#include "graphex/kernels/attention/packed.h"

namespace graphex::kernels {

template <typename T>
GX_INLINE Lines<T> lines_of(void* const* pointers, AttentionPointer operand, const int64_t* sizes,
                            AttentionSize stride_b, AttentionSize stride_block, int64_t b, int64_t kv_head) {
  const int64_t* strides = sizes + stride_b;
  const int64_t* tables = static_cast<const int64_t*>(pointers[kTables]);
  return {static_cast<const T*>(pointers[operand]) + b * strides[0] + kv_head * strides[1], strides[2],
          sizes[stride_block], GX_BLOCK_SIZE > 0 ? tables + b * sizes[kTableStrideB] : nullptr};
}

template <typename T>
GX_INLINE void store_row(T* to, const float* from, float factor, int64_t count) {
  int64_t d = 0;
  for (; d + kLanes <= count; d += kLanes) store_as(to + d, load(from + d) * factor);
  if (d < count) store_part(to + d, load(from + d) * factor, count - d);
}

// ln x for x >= 2^-126, in double: x = 2^n m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh((m - 1) / (m + 1)).
GX_INLINE double natural_log(double x) {
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  int64_t n = static_cast<int64_t>(bits >> 52) - 1023;
  double m = __builtin_bit_cast(double, (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m *= 0.5, ++n;
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double series = 0;
  for (int k = 15; k >= 1; k -= 2) series = series * s2 + 2.0 / k;
  return n * 0.6931471805599453 + s * series;
}

// Divides a row by its sum, rounds it, and records its logsumexp.
template <typename T>
GX_NOINLINE void finish_row(void* const* pointers, const int64_t* sizes, int64_t b, int64_t h, int64_t i,
                            const float* out, float maximum, float sum) {
  T* to = static_cast<T*>(pointers[kOut]) + b * sizes[kOutStrideB] + h * sizes[kOutStrideH] + i * sizes[kOutStrideL];
  store_row(to, out, sum == 0 ? 0.0f : 1.0f / sum, value_dim(sizes));
  if (!GX_LSE) return;
  float* lse = static_cast<float*>(pointers[kLse]);
  const int64_t at = b * sizes[kLseStrideB] + h * sizes[kLseStrideH] + i * sizes[kLseStrideI];
  lse[at] = sum > 0 ? static_cast<float>(maximum + natural_log(sum)) : sum;
}

// ---- prefill ----

GX_INLINE int64_t query_blocks(const int64_t* sizes) { return ceil_div(sizes[kQueries], queries_per_block(sizes)); }

GX_INLINE int64_t prefill_tiles(const int64_t* sizes) {
  if (is_split(sizes) || sizes[kKvHeads] == 0 || sizes[kQueryHeads] == 0) return 0;
  return sizes[kBatch] * sizes[kKvHeads] * head_blocks(sizes) * query_blocks(sizes);
}

// Blocks of queries in the order first, last, second, last but one: under a causal mask neighbours then add up to the
// same work, so equal shares of tiles are equal shares of work.
GX_INLINE int64_t paired(int64_t index, int64_t count) { return index % 2 ? count - 1 - index / 2 : index / 2; }

template <typename T>
GX_INLINE void prefill_tile(void* const* pointers, const int64_t* sizes, int64_t tile, void* scratch) {
  const int64_t blocks = query_blocks(sizes), splits = head_blocks(sizes);
  const int64_t kv_head = tile / blocks / splits % sizes[kKvHeads], split = tile / blocks % splits;
  const int64_t heads = heads_per_block(sizes), group = group_size(sizes), queries = queries_per_block(sizes);
  const int64_t first_query = paired(tile % blocks, blocks) * queries,
                split_heads = min_of(heads, group - split * heads);
  if (split_heads <= 0) return;
  Rows rows = take_rows(scratch, sizes, split_heads * min_of(queries, sizes[kQueries] - first_query));
  rows.batch = tile / blocks / splits / sizes[kKvHeads];
  rows.first_head = kv_head * group + split * heads;
  rows.heads = split_heads;
  rows.first_query = first_query;
  start_rows<T>(&rows, pointers, sizes);
  int64_t begin = sizes[kKeys], end = 0;
  GX_PLAIN_LOOP
  for (int64_t r = 0; r < rows.count; ++r) {
    if (rows.begin[r] >= rows.end[r]) continue;
    begin = min_of(begin, rows.begin[r]);
    end = max_of(end, rows.end[r]);
  }
  const Lines<T> keys = lines_of<T>(pointers, kKey, sizes, kKeyStrideB, kKeyStrideBlock, rows.batch, kv_head);
  const Lines<T> values = lines_of<T>(pointers, kValue, sizes, kValueStrideB, kValueStrideBlock, rows.batch, kv_head);
  const int64_t length = keys_per_block(sizes);
  for (int64_t key = begin / length * length; key < end; key += length)
    attend_packed<T>(rows, sizes, keys, values, key, begin, min_of(length, end - key));
  GX_PLAIN_LOOP
  for (int64_t r = 0; r < rows.count; ++r)
    finish_row<T>(pointers, sizes, rows.batch, rows.first_head + r % split_heads, first_query + r / split_heads,
                  rows.out + r * padded_value_dim(sizes), rows.maximum[r], rows.sum[r]);
}

template <typename T>
GX_INLINE void prefill(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  for (int64_t tile = begin; tile < end; ++tile) prefill_tile<T>(pointers, sizes, tile, worker->scratch);
}

// ---- decode ----

GX_INLINE int64_t partial_tiles(const int64_t* sizes) {
  if (!is_split(sizes) || sizes[kKvHeads] == 0 || sizes[kQueryHeads] == 0 || sizes[kQueries] == 0) return 0;
  return sizes[kBatch] * sizes[kKvHeads] * head_blocks(sizes) * chunks(sizes);
}

GX_INLINE int64_t partial_workspace(const int64_t* sizes) {
  return partial_tiles(sizes) * rows_per_chunk(sizes) * partial_row_floats(sizes) * static_cast<int64_t>(sizeof(float));
}

// One chunk of keys for the heads of `block` (kv head and block of its heads).
template <typename T>
GX_INLINE void partial_chunk(void* const* pointers, const int64_t* sizes, int64_t b, int64_t block, int64_t chunk,
                             void* scratch) {
  const int64_t splits = head_blocks(sizes), kv_head = block / splits, split = block % splits;
  const int64_t heads = heads_per_block(sizes), group = group_size(sizes);
  const int64_t split_heads = min_of(heads, group - split * heads);
  if (split_heads <= 0) return;
  Rows rows = take_rows(scratch, sizes, split_heads * sizes[kQueries]);
  rows.batch = b;
  rows.first_head = kv_head * group + split * heads;
  rows.heads = split_heads;
  start_rows<T>(&rows, pointers, sizes);
  const int64_t first = chunk * keys_per_chunk(sizes), last = min_of(first + keys_per_chunk(sizes), sizes[kKeys]);
  int64_t begin = last, end = first;
  GX_PLAIN_LOOP
  for (int64_t r = 0; r < rows.count; ++r) {
    if (rows.begin[r] >= rows.end[r]) continue;
    begin = min_of(begin, rows.begin[r]);
    end = max_of(end, rows.end[r]);
  }
  begin = max_of(begin, first);
  const int64_t next_end = min_of(last + keys_per_chunk(sizes), end);
  end = min_of(end, last);
  const Lines<T> keys = lines_of<T>(pointers, kKey, sizes, kKeyStrideB, kKeyStrideBlock, b, kv_head);
  const Lines<T> values = lines_of<T>(pointers, kValue, sizes, kValueStrideB, kValueStrideBlock, b, kv_head);
  if (rows.count <= kDirectRows) {
    attend_direct<T>(rows, sizes, keys, values, {begin, end}, next_end);
  } else {
    const int64_t length = keys_per_block(sizes);
    for (int64_t key = begin / kLanes * kLanes; key < end; key += length)
      attend_packed<T>(rows, sizes, keys, values, key, begin, min_of(length, end - key));
  }
  const int64_t width = padded_value_dim(sizes);
  float* workspace = static_cast<float*>(pointers[kWorkspace]);
  GX_PLAIN_LOOP
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t index = b * sizes[kKvHeads] * splits + block, row = r / split_heads * heads + r % split_heads;
    float* to = partial_row(workspace, sizes, index, chunk, row);
    __builtin_memcpy(to, rows.out + r * width, width * sizeof(float));
    to[width] = rows.maximum[r];
    to[width + 1] = rows.sum[r];
  }
}

// Tiles are counted for the longest possible context; the chunks that are really visible are spread evenly over them,
// so that equal shares of tiles are equal shares of work whatever the bounds are.
template <typename T>
GX_INLINE void partial(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  const int64_t* bound = static_cast<const int64_t*>(pointers[kBound]);
  const int64_t blocks = sizes[kKvHeads] * head_blocks(sizes), tiles = partial_tiles(sizes);
  int64_t items = 0;
  for (int64_t b = 0; b < sizes[kBatch]; ++b) {
    const Range seen = visible_chunks(bound, sizes, b);
    items += blocks * (seen.end - seen.begin);
  }
  const int64_t first = begin * items / tiles, last = end * items / tiles;
  for (int64_t b = 0, start = 0; b < sizes[kBatch] && start < last; ++b) {
    const Range seen = visible_chunks(bound, sizes, b);
    const int64_t count = seen.end - seen.begin, stop = start + blocks * count;
    for (int64_t item = max_of(first, start); item < min_of(last, stop); ++item)
      partial_chunk<T>(pointers, sizes, b, (item - start) / count, seen.begin + (item - start) % count,
                       worker->scratch);
    start = stop;
  }
}

GX_INLINE int64_t merge_tiles(const int64_t* sizes) {
  return is_split(sizes) && sizes[kKvHeads] ? sizes[kBatch] * sizes[kQueryHeads] * sizes[kQueries] : 0;
}

template <typename T>
GX_INLINE void merge_row(void* const* pointers, const int64_t* sizes, int64_t b, int64_t h, int64_t i, float* out) {
  const int64_t group = group_size(sizes), heads = heads_per_block(sizes), width = padded_value_dim(sizes);
  const int64_t block = (b * sizes[kKvHeads] + h / group) * head_blocks(sizes) + h % group / heads;
  const int64_t row = i * heads + h % group % heads;
  float* workspace = static_cast<float*>(pointers[kWorkspace]);
  const Range seen = visible_chunks(static_cast<const int64_t*>(pointers[kBound]), sizes, b);
  float maximum = -__builtin_inff(), sum = 0;
  GX_PLAIN_LOOP
  for (int64_t c = seen.begin; c < seen.end; ++c) {
    const float other = partial_row(workspace, sizes, block, c, row)[width];
    maximum = other > maximum ? other : maximum;
  }
  const float base = maximum == -__builtin_inff() ? 0 : maximum;
  __builtin_memset(out, 0, width * sizeof(float));
  GX_PLAIN_LOOP
  for (int64_t c = seen.begin; c < seen.end; ++c) {
    const float* part = partial_row(workspace, sizes, block, c, row);
    const Vec shrink = exp_nonpositive(Vec(part[width] - base));
    // A chunk with no maximum has sum 0, or NaN where a score was NaN.
    sum += part[width] == -__builtin_inff() ? part[width + 1] : part[width + 1] * shrink[0];
    for (int64_t d = 0; d < width; d += kLanes) store_as(out + d, multiply_add(load(part + d), shrink, load(out + d)));
  }
  finish_row<T>(pointers, sizes, b, h, i, out, maximum, sum);
}

template <typename T>
GX_INLINE void merge(void* const* pointers, const int64_t* sizes, int64_t begin, int64_t end, GxWorker* worker) {
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t i = tile % sizes[kQueries], h = tile / sizes[kQueries] % sizes[kQueryHeads];
    merge_row<T>(pointers, sizes, tile / sizes[kQueries] / sizes[kQueryHeads], h, i,
                 static_cast<float*>(worker->scratch));
  }
}

}  // namespace graphex::kernels

// The entries of one element type.
#define GX_ATTENTION(name, T)                                                                                        \
  extern "C" void gx_attention_##name(void* const* p, const int64_t* s, int64_t b, int64_t e, GxWorker* w) {         \
    graphex::kernels::prefill<T>(p, s, b, e, w);                                                                     \
  }                                                                                                                  \
  extern "C" int64_t gx_attention_##name##_tiles(const int64_t* s) { return graphex::kernels::prefill_tiles(s); }    \
  extern "C" void gx_attention_partial_##name(void* const* p, const int64_t* s, int64_t b, int64_t e, GxWorker* w) { \
    graphex::kernels::partial<T>(p, s, b, e, w);                                                                     \
  }                                                                                                                  \
  extern "C" int64_t gx_attention_partial_##name##_tiles(const int64_t* s) {                                         \
    return graphex::kernels::partial_tiles(s);                                                                       \
  }                                                                                                                  \
  extern "C" int64_t gx_attention_partial_##name##_workspace(const int64_t* s) {                                     \
    return graphex::kernels::partial_workspace(s);                                                                   \
  }                                                                                                                  \
  extern "C" void gx_attention_merge_##name(void* const* p, const int64_t* s, int64_t b, int64_t e, GxWorker* w) {   \
    graphex::kernels::merge<T>(p, s, b, e, w);                                                                       \
  }                                                                                                                  \
  extern "C" int64_t gx_attention_##name##_divisible(const int64_t*) { return 1; }                                   \
  extern "C" int64_t gx_attention_partial_##name##_divisible(const int64_t*) { return 1; }                           \
  extern "C" int64_t gx_attention_merge_##name##_tiles(const int64_t* s) { return graphex::kernels::merge_tiles(s); }
