// Contracts of the kernels that order elements: topk and sort. Both see a contiguous in[outer, length, inner] and write
// contiguous values (of in's type) and indices (int64), [outer, kept, inner]; sort keeps all: kept = length.
//
// module and entry: topk, gx_topk; sort, gx_sort. pointers: values, indices, in, workspace (`<entry>_workspace` bytes).
// Knobs: GX_ELEMENT, the DType; GX_DESCENDING: 1 puts the largest first; topk alone GX_SORTED: 1 orders the kept.
// NaN is the largest, all NaNs are equal, and so are 0 and -0.
#pragma once

#include <stdint.h>

namespace graphex::kernels {

enum SortingSize : int {
  kSortOuter,
  kSortLength,
  kSortInner,
  kSortKept,
  kSortStableFrom,  // sort: rows at least this long keep equal elements in their order
  kSortingSizes
};

// Equal elements come as PyTorch on CPUs orders them, which is as libstdc++'s algorithms do, run over all of a row:
//
// sort: std::sort, from kSortStableFrom on in the order of their positions.
//
// topk: std::partial_sort where kept * kTopkFew <= length; else std::nth_element for the
// last of the kept, then, with GX_SORTED, std::sort of those before it.
inline constexpr int64_t kTopkFew = 64;

}  // namespace graphex::kernels
