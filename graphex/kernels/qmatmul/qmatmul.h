// The contract of the quantised matmul family, a linear layer over 8- or 4-bit weights:
//   Y[m,n] = sum over groups g of S[n,g] * (sum over k in g of X[m,k] * W[n,k]), plus bias[n].
//
// Modules qmatmul_f32, qmatmul_bf16, qmatmul_f16 define gx_qmatmul_<dtype> and gx_qmatmul_<dtype>_tiles. Pointers are
// {Y, X, W, S, bias}; Y, X and bias of the one dtype, S in f32. Rows of X, W and S are contiguous; K is a multiple of
// kQuantBlock, as is the group. Weights are read where they lie. Nothing is read outside the operands.
//
// 8 bits: W[n,k] is an int8. 4 bits: each kQuantBlock of k takes 16 bytes, byte j with k = j in its low half and
// k = j + 16 in its high half, as W + 8.
//
// Knobs (all must be set):
//   GX_BITS    8 or 4
//   GX_INPUT   0: X as floats, sums in f32
//              1: X rounds to 8 bits a row first: a = 127 / max |X[m,:]|, q = X * a to nearest even, and its products
//                 sum exactly; a row with an infinity or a NaN gives NaN
//   GX_GROUPED 0: one group, S is [N, 1]      1: groups of kQuantGroup elements
//   GX_BIAS    0 or 1
//   GX_M       1 where M is known to be 1 (leaves only the matrix-vector code), -1: read from sizes
//
// Bits: an output depends on its row of X, its row of W, K, the group and the ISA level only.
#pragma once

#include <stdint.h>

namespace graphex::kernels {

inline constexpr int64_t kQuantBlock = 32;
inline constexpr int64_t kQuantTileColumns = 8;  // rows of W a tile

enum QuantMatmulSize : int {
  kQuantM,
  kQuantN,
  kQuantK,
  kQuantGroup,
  kQuantXStrideM,  // elements
  kQuantWStrideN,  // bytes
  kQuantSStrideN,
  kQuantYStrideM,
  kQuantSizes,
};

}  // namespace graphex::kernels
