// One matmul's sizes with the knobs folded in, how its K is cut, and the epilogue that ends it.
#pragma once

#include "graphex/base/kernel_abi.h"
#include "graphex/kernels/matmul/matmul.h"
#include "graphex/kernels/matmul/pack.h"
#include "graphex/kernels/simd.h"

extern "C" {
extern const int64_t GX_A_LAYOUT;
extern const int64_t GX_B_LAYOUT;
extern const int64_t GX_EPILOGUE;
extern const int64_t GX_M;
}

namespace graphex::kernels::matmul {

// K in equal blocks of at most kMaxBlockK, a multiple of every group: two quads of B and a tile's rows of A fit in L1.
template <class T>
inline constexpr int64_t kMaxBlockK = 640 * sizeof(float) / sizeof(typename Group<T>::Element);
inline constexpr int64_t kAlignK = 32;

struct Problem {
  int64_t batch, m, n, k;
  int64_t a_batch, a_row, a_k;
  int64_t b_batch, b_k, b_column;
  int64_t c_batch, c_row;
  int64_t block_k;  // of K; the last may be shorter

  template <class T>
  GX_INLINE Problem from(const int64_t* sizes) {
    Problem p;
    p.batch = sizes[kMatmulBatch];
    p.m = GX_M >= 0 ? GX_M : sizes[kMatmulM];
    p.n = sizes[kMatmulN];
    p.k = sizes[kMatmulK];
    p.a_batch = sizes[kMatmulAStrideBatch];
    p.a_row = sizes[kMatmulAStrideM];
    p.a_k = GX_A_LAYOUT == 0 ? 1 : sizes[kMatmulAStrideK];
    p.b_batch = sizes[kMatmulBStrideBatch];
    p.b_k = GX_B_LAYOUT == 0 ? 1 : sizes[kMatmulBStrideK];
    p.b_column = GX_B_LAYOUT == 1 ? 1 : sizes[kMatmulBStrideN];
    p.c_batch = sizes[kMatmulCStrideBatch];
    p.c_row = sizes[kMatmulCStrideM];
    const int64_t blocks = ceil_div(p.k, kMaxBlockK<T>);
    p.block_k = blocks == 0 ? kAlignK : ceil_div(ceil_div(p.k, blocks), kAlignK) * kAlignK;
    return p;
  }
};

// Where one batch entry's results go.
template <class T>
struct Output {
  T* c;
  const T* addend;
  int64_t c_row, addend_row, addend_column;
  float alpha, beta;

  GX_INLINE Output of(const Problem& p, void* const* pointers, const int64_t* sizes, int64_t batch) {
    Output out = {};
    out.c = static_cast<T*>(pointers[0]) + batch * p.c_batch;
    out.c_row = p.c_row;
    if (GX_EPILOGUE == 0) return out;
    out.addend = static_cast<const T*>(pointers[3]) + batch * sizes[kMatmulAddendStrideBatch];
    out.addend_row = GX_EPILOGUE == 1 ? 0 : sizes[kMatmulAddendStrideM];
    out.addend_column = sizes[kMatmulAddendStrideN];
    if (GX_EPILOGUE == 1) return out;
    out.alpha = static_cast<float>(__builtin_bit_cast(double, sizes[kMatmulAlpha]));
    out.beta = static_cast<float>(__builtin_bit_cast(double, sizes[kMatmulBeta]));
    return out;
  }

  bool reads_addend() const { return GX_EPILOGUE == 1 || (GX_EPILOGUE == 2 && beta != 0); }

  template <int W>
  inline __attribute__((always_inline)) Floats<W> result(Floats<W> sum, Floats<W> add) const {
    if (GX_EPILOGUE == 2) sum = alpha * sum;
    if (!reads_addend()) return sum;
    return sum + (GX_EPILOGUE == 2 ? beta * add : add);
  }

  template <int W>
  inline __attribute__((always_inline)) void finish(Floats<W> sum, int64_t row, int64_t column) const {
    Floats<W> add = {};
    const T* from = addend + row * addend_row + column * addend_column;
    if (reads_addend() && (W == 1 || addend_column == 1)) {
      add = load_floats<W>(from);
    } else if (reads_addend()) {
#pragma unroll
      for (int i = 0; i < W; ++i) add[i] = load_float(from + i * addend_column);
    }
    store_floats<W>(c + row * c_row + column, result(sum, add));
  }

  // The first `count` of four sums whose columns are `step` apart.
  inline __attribute__((always_inline)) void finish_spread(Quad sum, int64_t count, int64_t row, int64_t column,
                                                           int64_t step) const {
    Quad add = {};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (reads_addend() && i < count)
        add[i] = load_float(addend + row * addend_row + (column + i * step) * addend_column);
    T values[4];
    store_floats<4>(values, result(sum, add));
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i < count) c[row * c_row + column + i * step] = values[i];
  }

  // The `count` sums of a row from `column` on.
  template <int W>
  inline __attribute__((always_inline)) void finish_row(const float* sums, int64_t count, int64_t row,
                                                        int64_t column) const {
    int64_t i = 0;
#pragma clang loop unroll(disable)
    for (; i + W <= count; i += W) finish<W>(load<Floats<W>>(sums + i), row, column + i);
#pragma clang loop vectorize(disable) unroll(disable)
    for (; i < count; ++i) finish<1>(load<Floats<1>>(sums + i), row, column + i);
  }
};

}  // namespace graphex::kernels::matmul
