// The contract of linear layers over weights in blocks, each with scales of its own, as GGUF files hold them:
//   Y[m,n] = sum over k of X[m,k] * W[n,k], plus bias[n].
//
// Modules blocks_f32, blocks_bf16, blocks_f16 define gx_blocks_<dtype> and gx_blocks_<dtype>_tiles. Pointers are
// {Y, X, W, bias}; Y, X and bias of the one dtype; rows of X and Y are contiguous. W is tiles of kTileRows rows, the
// bits of a file's blocks interleaved (base/block_format.h); the last tile may be partly beyond N. K is a multiple of
// the format's block. Nothing is read outside the operands.
//
// X rounds to 8 bits in groups of kBlockGroup: a = 127 / max |x|, q = x * a to nearest even, x ~ q * max / 127. A
// group's products sum exactly and are scaled into a sum in f32; a group with an infinity or a NaN gives NaN.
//
// Knobs (all must be set):
//   GX_FORMAT  a BlockFormatId
//   GX_BIAS    0 or 1
//   GX_M       1 where M is known to be 1 (leaves only the matrix-vector code), -1: read from sizes
//
// Bits: an output depends on its row of X, its row of W, K and the ISA level only.
#pragma once

#include <stdint.h>

namespace graphex::kernels {

enum BlocksSize : int {
  kBlocksM,
  kBlocksN,
  kBlocksK,
  kBlocksXStrideM,  // elements
  kBlocksWStride,   // bytes between tiles
  kBlocksYStrideM,
  kBlocksSizes,
};

}  // namespace graphex::kernels
