// Integer products where the level multiplies bytes: a chunk of k at a time, weights made unsigned, inputs as signed
// bytes. What that adds to a weight, times the sum of the inputs, is taken off where a sum starts, so sums stay exact.
//
// A chunk is the vector of weights that one load takes: 2 blocks of 8 bits, 4 of 4 bits, whose low halves meet a first
// vector of inputs and whose high halves a second one. So a block's products lie in lanes of its own.
#pragma once

#include "graphex/kernels/qmatmul/dot.h"
#include "graphex/kernels/rounding.h"

#if defined(__AVX512VNNI__)
namespace graphex::kernels::qmatmul {

inline constexpr int64_t kChunkBytes = 64;
GX_INLINE int64_t chunk_blocks() { return GX_BITS == 8 ? 2 : 4; }
GX_INLINE int64_t chunk_length() { return chunk_blocks() * kQuantBlock; }
GX_INLINE int64_t chunks_of(int64_t k) { return ceil_div(k, chunk_length()); }

// What is taken off: of each block of a chunk, or of the whole row in the first.
struct Excess {
  int32_t blocks[4];
};

// Where 16 inputs, the `sixteenth` of a chunk, lie in it.
GX_INLINE int64_t place_of(int64_t sixteenth) { return GX_BITS == 8 ? sixteenth : sixteenth % 2 * 4 + sixteenth / 2; }

// Row `row` of a panel of `rows`; `excess` is laid out as the panel is.
template <class T>
GX_NOINLINE void pack_chunks(int8_t* panel, Excess* excess, int64_t rows, int64_t row, const T* from, int64_t k,
                             float scale) {
  const int32_t offset = GX_BITS == 8 ? -128 : -8;
  int32_t whole = 0;
#pragma clang loop unroll(disable)
  for (int64_t start = 0, index = row; start < k; start += chunk_length(), index += rows)
#pragma clang loop unroll(disable)
    for (int64_t block = 0; block < chunk_blocks(); ++block) {
      Ints<16> sum = {};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t sixteenth = 2 * block + half, at = start + 16 * sixteenth;
        const Ints<16> value = at < k ? nearest(load_floats<16>(from + at), scale) : Ints<16>{};
        const Bytes<16> bytes = __builtin_convertvector(value, Bytes<16>);
        sum += __builtin_convertvector(bytes, Ints<16>);
        store(panel + index * chunk_length() + 16 * place_of(sixteenth), bytes);
      }
      whole += excess[index].blocks[block] = offset * __builtin_reduce_add(sum);
    }
  if (GX_GROUPED == 0) excess[row].blocks[0] = whole;
}

// The first `blocks` of a chunk; nothing is read beyond.
GX_INLINE Words<16> load_chunk(const char* from, int64_t blocks) {
  if (blocks == chunk_blocks()) return load<Words<16>>(from);
  const auto lanes = static_cast<uint16_t>((1u << blocks * 16 / chunk_blocks()) - 1);
  return __builtin_bit_cast(Words<16>,
                            __builtin_ia32_loaddqusi512_mask(reinterpret_cast<const int*>(from), Ints<16>{}, lanes));
}

// A chunk's products with R rows, added to `sums`.
template <int R>
GX_INLINE void add_chunk(Words<16> weights, const int8_t* x, Ints<16> (&sums)[R]) {
  const auto add = [&](Words<16> bytes, int64_t part) __attribute__((always_inline)) {
#pragma unroll
    for (int row = 0; row < R; ++row)
      sums[row] = __builtin_ia32_vpdpbusd512(sums[row], __builtin_bit_cast(Ints<16>, bytes),
                                             load<Ints<16>>(x + row * chunk_length() + part * kChunkBytes));
  };
  if (GX_BITS == 8) return add(weights ^ 0x80808080u, 0);
  add(weights & 0x0f0f0f0fu, 0);
  add(weights >> 4 & 0x0f0f0f0fu, 1);
}

// Where the sums of a chunk start.
GX_INLINE Ints<16> start_of(const Excess& excess) {
  const auto blocks = load<Ints<4>>(&excess);
  constexpr Ints<4> kNone = {};
  if (GX_BITS == 8) return __builtin_shufflevector(blocks, kNone, 0, 4, 4, 4, 4, 4, 4, 4, 1, 4, 4, 4, 4, 4, 4, 4);
  return __builtin_shufflevector(blocks, kNone, 0, 4, 4, 4, 1, 4, 4, 4, 2, 4, 4, 4, 3, 4, 4, 4);
}

// Which scales the blocks of the chunks have, one chunk after the other.
struct GroupWalk {
  int64_t in_group, at = 0;  // blocks of a group, and how many of the current one are over
  int64_t index = 0;         // of the current group

  // The scales of a chunk's first `blocks`, in the lanes of their products.
  inline __attribute__((always_inline)) Vec factors(const float* scales, int64_t blocks) const {
    Floats<4> each;
    if (in_group == 1 && blocks == 4) {
      each = load<Floats<4>>(scales + index);
    } else if (at + blocks <= in_group) {
      return Vec(scales[index]);
    } else {
      each = gather(scales, blocks);
    }
    if (GX_BITS == 8) return __builtin_shufflevector(each, each, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    return __builtin_shufflevector(each, each, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  }

  inline __attribute__((always_inline)) Floats<4> gather(const float* scales, int64_t blocks) const {
    Floats<4> each = {};
    int64_t group = index, over = at;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i >= blocks) break;
      each[i] = scales[group];
      if (++over < in_group) continue;
      over = 0;
      ++group;
    }
    return each;
  }

  inline __attribute__((always_inline)) void next() {
    at += chunk_blocks();
#pragma clang loop unroll(disable)
    while (at >= in_group) {
      at -= in_group;
      ++index;
    }
  }
};

// f(offset of the weights, blocks) for each chunk of k.
template <class F>
GX_INLINE void each_chunk(int64_t k, F f) {
  const int64_t blocks = k / kQuantBlock, whole = blocks / chunk_blocks();
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < whole; ++i) f(i * kChunkBytes, chunk_blocks());
  if (blocks > whole * chunk_blocks()) f(whole * kChunkBytes, blocks - whole * chunk_blocks());
}

template <int R, class Wide, class Four>
GX_INLINE void sum_tile(const Wide (&sums)[4][R], Four (&out)[R]) {
#pragma unroll
  for (int row = 0; row < R; row += 2) {
    const int other = row + 1 < R ? row + 1 : row;
    const Wide a[4] = {sums[0][row], sums[1][row], sums[2][row], sums[3][row]};
    const Wide b[4] = {sums[0][other], sums[1][other], sums[2][other], sums[3][other]};
    Four second;
    sum_lanes(a, b, out[row], second);
    out[other] = other == row ? out[row] : second;
  }
}

// R rows by four columns over one group.
template <int R>
GX_NOINLINE void plain_tile(int64_t k, const int8_t* x, const Excess* excess, const char* const from[4], int64_t ahead,
                            Ints<4> (&out)[R]) {
  Ints<16> sums[4][R];
#pragma unroll
  for (int column = 0; column < 4; ++column)
#pragma unroll
    for (int row = 0; row < R; ++row) sums[column][row] = Ints<16>{excess[row].blocks[0]};
  each_chunk(k, [&](int64_t offset, int64_t blocks) __attribute__((always_inline)) {
#pragma unroll
    for (int column = 0; column < 4; ++column) {
      __builtin_prefetch(from[column] + offset + ahead);
      add_chunk<R>(load_chunk(from[column] + offset, blocks), x, sums[column]);
    }
    x += R * chunk_length();
  });
  sum_tile<R>(sums, out);
}

// The same over groups: a chunk's sums are scaled into floats.
template <int R>
GX_NOINLINE void grouped_tile(int64_t k, int64_t group, const int8_t* x, const Excess* excess,
                              const char* const from[4], const float* const scale[4], int64_t ahead, Quad (&out)[R]) {
  Vec totals[4][R] = {};
  GroupWalk walk{group / kQuantBlock};
  each_chunk(k, [&](int64_t offset, int64_t blocks) __attribute__((always_inline)) {
#pragma unroll
    for (int column = 0; column < 4; ++column) {
      __builtin_prefetch(from[column] + offset + ahead);
      Ints<16> sums[R];
#pragma unroll
      for (int row = 0; row < R; ++row) sums[row] = start_of(excess[row]);
      add_chunk<R>(load_chunk(from[column] + offset, blocks), x, sums);
      const Vec factors = walk.factors(scale[column], blocks);
#pragma unroll
      for (int row = 0; row < R; ++row)
        totals[column][row] = multiply_add(__builtin_convertvector(sums[row], Vec), factors, totals[column][row]);
    }
    x += R * chunk_length();
    excess += R;
    walk.next();
  });
  sum_tile<R>(totals, out);
}

}  // namespace graphex::kernels::qmatmul
#endif
