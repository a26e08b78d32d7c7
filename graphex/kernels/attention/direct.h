// Attention of few rows to a chunk of keys (decode): keys and values are read once, straight from their place.
//
// The chunk goes in passes of keys that stay in L2: scores of all rows, their softmax, then the output. Memory never
// rests: while the scores are computed the pass's values are fetched, and while the output is, the next pass's keys. A
// register tile is up to 4 rows x 4 keys for the scores, and as many rows x 4 vectors for the output.
#pragma once

#include "graphex/kernels/attention/rows.h"

namespace graphex::kernels {

// Beyond this many rows the products outweigh the packing.
inline constexpr int64_t kDirectRows = 16;
inline constexpr int64_t kLine = 64;
inline constexpr int64_t kPassBytes = 32 << 10;

// How kElements neighbours of T widen to kParts vectors. A part is loaded on its own: loads are cheaper than the
// registers to keep them.
template <typename T>
struct Wide {
  static constexpr int kParts = 1, kElements = kLanes;
  template <int kPart>
  GX_INLINE Vec load_part(const T* from) {
    return load(from);
  }
  GX_INLINE void load_from(const float* from, Vec* parts) { parts[0] = load(from); }
  GX_INLINE void store_from(float* to, const Vec* parts) { store_as(to, parts[0]); }
};

// Even elements, then odd ones: a shift or a mask instead of a widening load. The mask costs a register.
template <>
struct Wide<bf16> {
  static constexpr int kParts = 2, kElements = 2 * kLanes;
  template <int kPart>
  GX_INLINE Vec load_part(const bf16* from) {
    const WordVec pairs = load<WordVec>(from);
    return __builtin_bit_cast(Vec, kPart == 0 ? pairs << 16 : pairs & 0xffff0000u);
  }
  GX_INLINE void load_from(const float* from, Vec* parts) {
    parts[0] = unzip_even(load(from), load(from + kLanes));
    parts[1] = unzip_odd(load(from), load(from + kLanes));
  }
  GX_INLINE void store_from(float* to, const Vec* parts) {
    store_as(to, zip_low(parts[0], parts[1]));
    store_as(to + kLanes, zip_high(parts[0], parts[1]));
  }
};

// Keys, and groups of kElements columns, of a tile of kRows rows: what the registers hold.
template <typename T, int kRows>
struct Tile {
  static constexpr int kKeys = kRows == 4 && kLanes < 16 ? 2 : 4;
  static constexpr int kGroups = kKeys / Wide<T>::kParts;
};

// Keys of one pass.
template <typename T>
GX_INLINE int64_t keys_per_pass(const int64_t* sizes) {
  const int64_t bytes = max_of(1, max_of(head_dim(sizes), value_dim(sizes))) * static_cast<int64_t>(sizeof(T));
  return min_of(max_of(kPassBytes / bytes / 64 * 64, 64), 512);
}

// Some keys of a chunk. `first` is the first that any row sees; `ahead` are the keys that come after.
template <typename T>
struct Pass {
  Lines<T> keys, values;
  int64_t key, first, end;
  Range ahead;
};

// A query row in the order in which keys widen, with zeros up to whole groups.
template <typename T>
GX_INLINE void order_query(float* to, const float* from, int64_t depth) {
  constexpr int kParts = Wide<T>::kParts, kElements = Wide<T>::kElements;
  Vec parts[kParts];
  for (int64_t d = 0; d < depth; d += kElements) {
    float rest[kElements] = {};
    GX_PLAIN_LOOP
    for (int64_t i = d; i < depth && d + kElements > depth; ++i) rest[i - d] = from[i];
    Wide<T>::load_from(d + kElements > depth ? rest : from + d, parts);
    for (int part = 0; part < kParts; ++part) store_as(to + d + part * kLanes, parts[part]);
  }
}

// ---- scores ----

template <int kPart, int kRows, int kKeys, typename T>
GX_INLINE void add_part(Vec (&sum)[kRows][kKeys], const float* query, int64_t query_stride, const T* const* keys,
                        int64_t d) {
  Vec q[kRows];
  for (int r = 0; r < kRows; ++r) q[r] = load(query + r * query_stride + d + kPart * kLanes);
  for (int k = 0; k < kKeys; ++k) {
    const Vec key = Wide<T>::template load_part<kPart>(keys[k] + d);
    for (int r = 0; r < kRows; ++r) sum[r][k] = multiply_add(q[r], key, sum[r][k]);
  }
}

template <int kRows, int kKeys, typename T>
GX_INLINE void add_products(Vec (&sum)[kRows][kKeys], const float* query, int64_t query_stride, const T* const* keys,
                            int64_t d) {
  add_part<0>(sum, query, query_stride, keys, d);
  if constexpr (Wide<T>::kParts == 2) {
    asm("" : "+r"(d));  // else both parts share one load, which is then kept on the stack
    add_part<1>(sum, query, query_stride, keys, d);
  }
}

template <int kRows, int kKeys>
GX_INLINE void store_sums(float* scores, int64_t stride, const Vec (&sum)[kRows][kKeys]) {
  if constexpr (kKeys == 4) {
    for (int r = 0; r < kRows; ++r) store(scores + r * stride, sum_lanes(sum[r][0], sum[r][1], sum[r][2], sum[r][3]));
  } else {
    for (int r = 0; r < kRows; r += 2) {
      const Quad sums = sum_lanes(sum[r][0], sum[r][1], sum[r + 1][0], sum[r + 1][1]);
      store(scores + r * stride, Floats<2>(sums.lo));
      store(scores + (r + 1) * stride, Floats<2>(sums.hi));
    }
  }
}

// scores[r][0 .. kKeys) = query[r] . keys[k]
template <int kRows, int kKeys, typename T>
GX_INLINE void score_tile(float* scores, int64_t score_stride, const float* query, int64_t depth,
                          const T* const* keys) {
  constexpr int kElements = Wide<T>::kElements;
  const int64_t query_stride = round_up(depth, kElements);
  Vec sum[kRows][kKeys] = {};
  int64_t d = 0;
#pragma clang loop unroll(disable)
  for (; d + kElements <= depth; d += kElements) add_products(sum, query, query_stride, keys, d);
  if (d < depth) {
    T tails[kKeys][kElements] = {};
    const T* rest[kKeys];
    for (int k = 0; k < kKeys; ++k) {
      GX_PLAIN_LOOP
      for (int64_t i = d; i < depth; ++i) tails[k][i - d] = keys[k][i];
      rest[k] = tails[k] - d;
    }
    add_products(sum, query, query_stride, rest, d);
  }
  store_sums(scores, score_stride, sum);
}

// The scores of a tile; `fetch` the pass's values.
template <int kRows, typename T>
GX_NOINLINE void score_rows(const Rows& rows, const int64_t* sizes, int64_t first, const Pass<T>& pass, bool fetch) {
  constexpr int kKeys = Tile<T, kRows>::kKeys;
  const int64_t depth = head_dim(sizes), stride = keys_per_pass<T>(sizes);
  const int64_t value_bytes = fetch ? value_dim(sizes) * static_cast<int64_t>(sizeof(T)) : 0;
  const float* query = rows.ordered + first * round_up(depth, Wide<T>::kElements);
#pragma clang loop unroll(disable)
  for (int64_t j = pass.key; j < pass.end; j += kKeys) {
    const T* keys[kKeys];
    for (int64_t k = 0; k < kKeys; ++k) {
      const int64_t at = min_of(j + k, pass.end - 1);
      keys[k] = pass.keys.row(at);
      const char* value = reinterpret_cast<const char*>(pass.values.row(at));
      for (int64_t line = 0; line < value_bytes; line += kLine) __builtin_prefetch(value + line, 0, 2);
    }
    score_tile<kRows, kKeys>(rows.scores + first * stride + j - pass.key, stride, query, depth, keys);
  }
}

// ---- output ----

// Walks the lines of the keys ahead.
template <typename T>
struct Fetcher {
  const Lines<T>& keys;
  Range ahead;
  int64_t bytes, at;
  const char* row;

  GX_INLINE Fetcher start(const Pass<T>& pass, int64_t depth, bool fetch) {
    const Range ahead = fetch ? pass.ahead : Range{0, 0};
    const int64_t bytes = depth * static_cast<int64_t>(sizeof(T));
    const bool any = ahead.begin < ahead.end;
    return {pass.keys, ahead, bytes, 0, any ? reinterpret_cast<const char*>(pass.keys.row(ahead.begin)) : nullptr};
  }
  __attribute__((always_inline)) void next() {
    if (ahead.begin >= ahead.end) return;
    __builtin_prefetch(row + at, 0, 2);
    if ((at += kLine) < bytes) return;
    at = 0;
    if (++ahead.begin < ahead.end) row = reinterpret_cast<const char*>(keys.row(ahead.begin));
  }
};

template <int kPart, int kRows, int kGroups, int kParts, typename T>
GX_INLINE void add_weighted(Vec (&sum)[kRows][kGroups][kParts], int group, const Vec* weight, const T* from) {
  const Vec value = Wide<T>::template load_part<kPart>(from);
  for (int r = 0; r < kRows; ++r) sum[r][group][kPart] = multiply_add(weight[r], value, sum[r][group][kPart]);
}

// out[r][0 .. kGroups * kElements) = shrink[r] * out[r] + sum over k of weights[r][k] * values[k]
template <int kRows, int kGroups, typename T>
GX_INLINE void output_tile(float* out, int64_t out_stride, const float* shrink, const float* weights,
                           int64_t weight_stride, const Pass<T>& pass, int64_t column, Fetcher<T>& fetcher) {
  constexpr int kParts = Wide<T>::kParts, kElements = Wide<T>::kElements;
  constexpr int64_t kBytes = kGroups * kElements * static_cast<int64_t>(sizeof(T)), kEvery = max_of(kLine / kBytes, 1);
  Vec sum[kRows][kGroups][kParts];
  for (int r = 0; r < kRows; ++r)
    for (int group = 0; group < kGroups; ++group) {
      Wide<T>::load_from(out + r * out_stride + column + group * kElements, sum[r][group]);
      for (int part = 0; part < kParts; ++part) sum[r][group][part] *= shrink[r];
    }
  for (int64_t k = pass.first; k < pass.end;) {
    const T* from = pass.values.row(k) + column;
    const int64_t stop = pass.values.run_end(k, pass.end);
#pragma clang loop unroll(disable)
    for (; k < stop; ++k, from += pass.values.stride) {
      if (k % kEvery == 0)
        for (int64_t line = 0; line < max_of(kBytes, kLine); line += kLine) fetcher.next();
      Vec weight[kRows];
      for (int r = 0; r < kRows; ++r) weight[r] = weights[r * weight_stride + k - pass.key];
      for (int group = 0; group < kGroups; ++group) {
        add_weighted<0>(sum, group, weight, from + group * kElements);
        if constexpr (kParts == 2) add_weighted<1>(sum, group, weight, from + group * kElements);
      }
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int group = 0; group < kGroups; ++group)
      Wide<T>::store_from(out + r * out_stride + column + group * kElements, sum[r][group]);
}

// Columns that don't fill a group, a vector or less at a time.
template <typename T>
GX_INLINE void output_tail(float* out, float shrink, const float* weights, const Pass<T>& pass, int64_t column,
                           int64_t width) {
  for (int64_t d = column; d < width; d += kLanes) {
    Vec sum = load(out + d) * shrink;
    for (int64_t k = pass.first; k < pass.end; ++k)
      sum = multiply_add<Vec>(weights[k - pass.key],
                              kernels::load_part(pass.values.row(k) + d, min_of(width - d, kLanes)), sum);
    store_as(out + d, sum);
  }
}

// Softmax and output of a tile; `fetch` the keys that come next.
template <int kRows, typename T>
GX_NOINLINE void output_rows(const Rows& rows, const int64_t* sizes, int64_t first, const Pass<T>& pass, bool fetch) {
  constexpr int kGroups = Tile<T, kRows>::kGroups, kElements = Wide<T>::kElements;
  const int64_t width = value_dim(sizes), out_stride = padded_value_dim(sizes), stride = keys_per_pass<T>(sizes);
  float* scores = rows.scores + first * stride;
  float* out = rows.out + first * out_stride;
  float shrink[kRows];
  for (int64_t r = 0; r < kRows; ++r)
    shrink[r] = weigh_row<T>(rows, sizes, first + r, scores + r * stride, pass.key, pass.end - pass.key);
  Fetcher<T> fetcher = Fetcher<T>::start(pass, head_dim(sizes), fetch);
  int64_t d = 0;
  for (; d + kGroups * kElements <= width; d += kGroups * kElements)
    output_tile<kRows, kGroups>(out, out_stride, shrink, scores, stride, pass, d, fetcher);
  for (; kGroups > 1 && d + kElements <= width; d += kElements)
    output_tile<kRows, 1>(out, out_stride, shrink, scores, stride, pass, d, fetcher);
  for (int64_t r = 0; r < kRows && d < width; ++r)
    output_tail(out + r * out_stride, shrink[r], scores + r * stride, pass, d, width);
}

// Calls f(tile, first row) for `count` rows: fours and threes, or a two. One row takes a padding row along, which costs
// less than a tile of its own to compile.
template <typename F>
GX_INLINE void for_each_tile(int64_t count, F f) {
  for (int64_t r = 0; r < count;) {
    const int64_t left = count - r;
    if (left <= 2) return f(Constant<2>(), r);
    const bool four = left == 4 || left > 6;
    if (four)
      f(Constant<4>(), r);
    else
      f(Constant<3>(), r);
    r += four ? 4 : 3;
  }
}

template <typename T>
GX_INLINE void attend_pass(const Rows& rows, const int64_t* sizes, const Pass<T>& pass) {
  for_each_tile(rows.count, [&](auto tile, int64_t r) { score_rows<tile.value, T>(rows, sizes, r, pass, r == 0); });
  for_each_tile(rows.count, [&](auto tile, int64_t r) { output_rows<tile.value, T>(rows, sizes, r, pass, r == 0); });
}

// Attention of all rows to the keys `seen`; those up to `next_end` come afterwards.
template <typename T>
GX_INLINE void attend_direct(Rows& rows, const int64_t* sizes, const Lines<T>& keys, const Lines<T>& values, Range seen,
                             int64_t next_end) {
  const int64_t depth = head_dim(sizes), query_stride = round_up(depth, Wide<T>::kElements);
  const int64_t count = max_of(rows.count, 2), length = keys_per_pass<T>(sizes);
  char* scratch = reinterpret_cast<char*>(rows.scratch);
  rows.ordered = take<float>(&scratch, count * query_stride);
  rows.scores = take<float>(&scratch, count * length);
  GX_PLAIN_LOOP
  for (int64_t r = 0; r < count; ++r) order_query<T>(rows.ordered + r * query_stride, rows.query + r * depth, depth);
  // Whole vectors of passes that lie where they lie for all, so that a row's lanes don't depend on other rows.
  for (int64_t key = seen.begin / kLanes * kLanes; key < seen.end; key = key / length * length + length) {
    const int64_t end = min_of(key / length * length + length, seen.end);
    attend_pass<T>(rows, sizes,
                   {keys, values, key, max_of(key, seen.begin), end, {end, min_of(end + length, next_end)}});
  }
}

}  // namespace graphex::kernels
