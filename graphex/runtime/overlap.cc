#include "graphex/runtime/overlap.h"

#include <algorithm>
#include <utility>

namespace graphex::runtime {

bool writes_overlap(std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  const char *end = nullptr, *written_end = nullptr;
  for (const Extent& extent : extents) {
    if (extent.begin < written_end || (extent.written && extent.begin < end)) return true;
    end = std::max(end, extent.end);
    if (extent.written) written_end = std::max(written_end, extent.end);
  }
  return false;
}

int64_t extent_bytes(std::span<const int64_t> shape, std::span<const int64_t> strides, int64_t element_bytes) {
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    last += (shape[d] - 1) * strides[d];
  }
  return (last + 1) * element_bytes;
}

bool overlaps_itself(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return false;
    if (shape[d] > 1) dims.emplace_back(strides[d], shape[d]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += (size - 1) * stride;
  }
  return false;
}

bool writes_overlap(std::span<const Layout> inputs) {
  std::vector<Extent> extents;
  extents.reserve(inputs.size());
  for (const Layout& input : inputs) {
    if (input.written && overlaps_itself(input.shape, input.strides)) return true;
    const char* begin = static_cast<const char*>(input.data);
    const int64_t bytes = extent_bytes(input.shape, input.strides, input.element_bytes);
    if (bytes > 0) extents.push_back({begin, begin + bytes, input.written});
  }
  return writes_overlap(std::move(extents));
}

}  // namespace graphex::runtime
