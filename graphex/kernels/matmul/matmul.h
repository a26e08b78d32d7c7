// The contract of the matmul family: C[b,m,n] = sum over k of A[b,m,k] * B[b,k,n], then an epilogue.
//
// Modules matmul_f32, matmul_bf16, matmul_f16 define gx_matmul_<dtype> and gx_matmul_<dtype>_tiles. Pointers are
// {C, A, B, addend}, all of the one dtype; sizes are listed below, strides in elements, C's columns contiguous. Sums
// are in fp32 and round once, after the epilogue. K = 0 gives the epilogue of zero; no tiles when C is empty. Nothing
// is read outside the operands. Where the level multiplies pairs of bf16 by an instruction, what is below 2^-126 counts
// as zero, in bf16 operands and in their sums (oneDNN's products do so there as well). C may be the addend's own memory
// with the same strides, and no other operand's.
//
// Knobs (all must be set):
//   GX_B_LAYOUT  0: B's stride along k is 1 (a linear layer's [N, K] weight, read where it is)
//                1: B's stride along n is 1 ([K, N])      2: any strides
//   GX_A_LAYOUT  0: A's stride along k is 1               1: any strides
//   GX_EPILOGUE  0: C = sum       1: C = sum + addend[n]  2: C = alpha * sum + beta * addend[b, m, n]
//   GX_M         the value of M where it is known (1 leaves only the matrix-vector code), -1: read from sizes
//
// Bits: an output depends only on its row of A, its column of B, K, the epilogue and the ISA level; never on M, N, the
// layouts, the split of tiles or the number of workers. For that every path adds in one order: K is cut into blocks by
// a rule of K alone; within a block, lane l of a vector adds the products of its own k's in ascending order; the lanes
// are summed by a fixed tree and the blocks in order.
#pragma once

#include <stdint.h>

namespace graphex::kernels {

enum MatmulSize : int {
  kMatmulBatch,
  kMatmulM,
  kMatmulN,
  kMatmulK,
  kMatmulAStrideBatch,
  kMatmulAStrideM,
  kMatmulAStrideK,
  kMatmulBStrideBatch,
  kMatmulBStrideK,
  kMatmulBStrideN,
  kMatmulCStrideBatch,
  kMatmulCStrideM,
  kMatmulAddendStrideBatch,
  kMatmulAddendStrideM,
  kMatmulAddendStrideN,
  kMatmulAlpha,  // the bits of a double; read by GX_EPILOGUE 2 only
  kMatmulBeta,   // the same; at 0 the addend isn't read
  kMatmulSizes,
};

}  // namespace graphex::kernels
