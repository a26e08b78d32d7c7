#include "graphex/runtime/overlap.h"

#include <algorithm>

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

}  // namespace graphex::runtime
