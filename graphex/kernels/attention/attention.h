// Contract of scaled dot product attention: O[b,h,i,:] = softmax_j(scale * Q[b,h,i,:] . K[b,g,j,:] + mask) V[b,g,j,:],
// with g = h / (query_heads / kv_heads), so grouped heads are never expanded. Accumulation and softmax are fp32.
//
// Three entries per element type (f32, bf16, f16) share one operand list and one size list:
//   gx_attention_partial_<t>   many keys, few queries (decode): one tile per (batch, kv head, chunk of keys), into
//   workspace gx_attention_merge_<t>     one tile per (batch, head, query): joins the chunks of `partial`; same
//   workspace pointer gx_attention_<t>           many queries (prefill): one tile per (batch, kv head, block of
//   queries)
// A program launches all three in this order. Their tile functions agree on who does the work: up to kSplitQueries
// queries go to partial and merge, more to the last; the others then have 0 tiles. Every row is written exactly once.
// The workspace is asked of `gx_attention_partial_<t>_workspace`; `merge` reads what `partial` left there.
//
// Knobs: GX_MASK (AttentionMask), GX_MASK_F32 (the additive mask is f32, not the element type), GX_LSE (write pointer
// kLse), GX_HEAD_DIM and GX_VALUE_DIM (0, or the value of kHeadDim / kValueDim, for tighter loops).
// GX_BLOCK_SIZE: 0, or the slots of a block of a paged cache, a multiple of 16: key j of batch b is slot j % size of
// block kTables[b][j / size]. One query a sequence; the bound is what paged_bounds.cc makes of the lengths.
// A query whose keys are all masked, or that has no keys, yields 0, and 0 as its logsumexp, as
// PyTorch's CPU kernel does.
#pragma once

#include <stdint.h>

namespace graphex::kernels {

enum AttentionMask : int64_t {
  kMaskNone = 0,
  kMaskCausal = 1,    // key j takes part iff j <= i
  kMaskAdditive = 2,  // mask[b,h,i,j] is added to the scaled score
  kMaskBoolean = 3,   // key j takes part iff mask[b,h,i,j] != 0
  kMaskBound = 4,     // key j takes part iff j <= bound[b,i]; keys beyond every bound of a tile are not read
};

// Positions in the pointer list. Pointers that the knobs don't ask for may be null.
enum AttentionPointer : int {
  kOut,        // element type
  kQuery,      // element type
  kKey,        // element type
  kValue,      // element type
  kMask,       // element type, f32 or bool
  kBound,      // int64
  kLse,        // f32: natural logarithm of the sum of exponentials of the masked scores
  kTables,     // int64, rows with stride 1
  kWorkspace,  // 64-byte aligned
  kAttentionPointers
};

// Positions in the size list. Strides count elements; the last dimension of out, query, key and value has stride 1.
enum AttentionSize : int {
  kBatch,
  kQueryHeads,
  kKvHeads,
  kQueries,
  kKeys,
  kHeadDim,
  kValueDim,
  kScale,  // bit pattern of a double
  kOutStrideB,
  kOutStrideH,
  kOutStrideL,
  kQueryStrideB,
  kQueryStrideH,
  kQueryStrideL,
  kKeyStrideB,
  kKeyStrideH,
  kKeyStrideL,
  kValueStrideB,
  kValueStrideH,
  kValueStrideL,
  kMaskStrideB,
  kMaskStrideH,
  kMaskStrideI,
  kMaskStrideJ,
  kBoundStrideB,
  kBoundStrideI,
  kLseStrideB,
  kLseStrideH,
  kLseStrideI,
  kKeyStrideBlock,  // paged only, and so are the next two
  kValueStrideBlock,
  kTableStrideB,
  kWindow,  // causal and bound only: the last `window` allowed keys take part; 0 or less: all of them
  kAttentionSizes
};

// kQueries up to this go to partial and merge.
inline constexpr int64_t kSplitQueries = 8;
// Head dimensions beyond this don't fit a worker's scratch.
inline constexpr int64_t kMaxHeadDim = 2048;

// gx_paged_bounds: out[s] = length - 1, the last key that sequence s may see. A length that its table has no room for
// and a block that doesn't exist are reported, and that sequence sees nothing. Blocks before the window aren't looked
// at. pointers: out, lengths, tables, all int64.
enum PagedBoundsSize : int {
  kBoundsSequences,
  kBoundsTableBlocks,
  kBoundsBlockSize,
  kBoundsBlocks,  // of the cache
  kBoundsWindow,  // 0: none
  kBoundsLengthStride,
  kBoundsTableStrideB,
  kPagedBoundsSizes
};

}  // namespace graphex::kernels
