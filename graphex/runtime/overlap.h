// Whether memory that a program writes is also part of another of its inputs: then the order of its reads and writes,
// which the planner chose for separate inputs, could be seen.
#pragma once

#include <vector>

namespace graphex::runtime {

struct Extent {
  const char* begin;
  const char* end;
  bool written;
};

bool writes_overlap(std::vector<Extent> extents);

}  // namespace graphex::runtime
