// Contracts of the kernels that move elements by index: gather_rows, index, index_put, index_add, copy, fill,
// arg_reduce and cumsum. Strides count elements. Where no arithmetic is done, elements are moved by size: knob
// GX_ELEMENT_BYTES (1, 2, 4, 8). Indices are int64 or int32: knob GX_INDEX_BYTES (8, 4).
//
// An index outside its dimension is reported through the worker's status (GX_INDEX_OUT_OF_RANGE: the index, the size,
// the dimension) and its element is skipped. Knob GX_WRAP: 1 lets index -n mean size - n (index, index_put); 0 refuses
// negative indices (gather, scatter, index_select, embedding, index_copy, index_add); kSkipNegative skips their
// elements. All of them: module = file stem, `<entry>_tiles`, no workspace unless said.
#pragma once

#include <stdint.h>

namespace graphex::kernels {

inline constexpr int64_t kSkipNegative = 2;
inline constexpr int kMaxRank = 8;
inline constexpr int kMaxIndices = 4;

// module gather_rows, entry gx_gather_rows: out[o, n, :] = base[o, index[n], :], inner elements contiguous.
// pointers: out, base, indices. Embedding: outer 1. GX_WRAP is 0.
enum GatherRowsSize : int {
  kGatherOuter,
  kGatherRows,
  kGatherInner,
  kGatherCount,  // base is [outer, rows, inner], out [outer, count, inner]
  kGatherBaseStrideO,
  kGatherBaseStrideR,
  kGatherOutStrideO,
  kGatherOutStrideN,
  kGatherIndexStride,
  kGatherDim,  // reported with a bad index
  kGatherRowsSizes
};

// modules index and index_put. An iteration space of `rank` dimensions; at each point
//   at    = sum of coordinate * base stride + sum over k of index_k[sum of coordinate * its stride] * its base stride
//   index:     out[sum of coordinate * other stride] = base[at]        pointers: out, base, index_0 .. index_3
//   index_put: base[at] = value[sum of coordinate * other stride]      pointers: base, value, index_0 .. index_3
//   index_add: base[at] += alpha * value[...]                          as index_put
// index_put and index_add work in place, in row-major order over the dimensions of the `ordered` set, so that the last
// of equal destinations wins; the caller promises that points that differ in another dimension never meet.
//
//   aten op                  iteration space           base strides                     index k ordered index(x, [i,
//   j])         the output                x's; 0 on index dimensions       size, stride of its dimension  - gather(x,
//   dim, i)        the output                x's; 0 on dim                    i's own strides                -
//   index_select(x, dim, i)  the output                x's; 0 on dim                    strides 0 but on dim -
//   index_put(x, [i, j], v)  x[i, j]'s shape           x's; 0 on index dimensions       as index; v by broadcast index
//   dimensions scatter(x, dim, i, v)    i's shape                 x's; 0 on dim                    i's own; v's (0: a
//   scalar)     dim index_copy, index_add    the source                x's; 0 on dim                    strides 0 but
//   on dim           dim scatter_add              i's shape                 as scatter                       as scatter
//   dim
enum IndexSize : int {
  kIndexRank,
  kIndexCount,                                 // index tensors, 1 .. kMaxIndices
  kIndexOrdered,                               // bit d: dimension d is ordered (index_put, index_add)
  kIndexAlpha,                                 // index_add: bits of a double for float types, else an integer
  kIndexShape,                                 // [kMaxRank]; entries beyond rank are ignored, here and below
  kIndexBaseStrides = kIndexShape + kMaxRank,  // [kMaxRank]
  kIndexOtherStrides = kIndexBaseStrides + kMaxRank,
  kIndexTensors = kIndexOtherStrides + kMaxRank,  // kMaxIndices x {size, base stride, dimension, strides[kMaxRank]}
  kIndexTensorSizes = 3 + kMaxRank,
  kIndexSizes = kIndexTensors + kMaxIndices * kIndexTensorSizes
};
// index_add entries: gx_index_add_<t>, t of f32 f64 bf16 f16 i32 i64 i16 i8 u8; each addition rounds to t, as eager's
// does.

// module copy, entry gx_copy: out[...] = in[...] between any two layouts. pointers: out, in.
//         entry gx_fill: out[...] = the element in the low bytes of kCopyFillValue. pointers: out.
// Out must not overlap itself or in.
enum CopySize : int {
  kCopyRank,
  kCopyShape,
  kCopyOutStrides = kCopyShape + kMaxRank,
  kCopyInStrides = kCopyOutStrides + kMaxRank,  // unused by fill
  kCopyFillValue = kCopyInStrides + kMaxRank,
  kCopySizes
};

// module arg_reduce, entries gx_arg_reduce_<t>, gx_arg_reduce_partial_<t>, gx_arg_reduce_merge_<t>: out[o, n] (int64) =
// position of the largest (knob GX_ARG_MIN 1: smallest) of in[o, :, n]; the first of equals, and the first NaN before
// all. t of f32 f64 bf16 f16 i64 i32 i16 i8 u8. pointers: out, in, workspace. Launch partial, merge, then the plain
// entry, all with the same lists: few long rows are cut into chunks (partial, into
// `gx_arg_reduce_partial_<t>_workspace` bytes, then merge), anything else runs in the plain one; what isn't needed has
// 0 tiles. length >= 1. module cumsum, entries gx_cumsum_<t>: out[o, r, n] = sum of in[o, 0 .. r, n]. pointers: out,
// in. Floats keep their type (f32, f64 are summed in f64, bf16 and f16 in f32); i64 i32 i16 i8 u8 yield int64.
enum ReduceSize : int {
  kReduceOuter,
  kReduceLength,
  kReduceInner,
  kReduceInStrideO,
  kReduceInStrideL,
  kReduceInStrideN,
  kReduceOutStrideO,
  kReduceOutStrideL,
  kReduceOutStrideN,  // arg_reduce has no out stride L
  kReduceSizes
};

}  // namespace graphex::kernels
