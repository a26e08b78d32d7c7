// Whether memory that a program writes is also part of another of its inputs, or of another element of the same one:
// then the order of its reads and writes, which the planner chose for separate elements, could be seen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace graphex::runtime {

struct Extent {
  const char* begin;
  const char* end;
  bool written;
};

bool writes_overlap(std::vector<Extent> extents);

// An input as the caller hands it over; strides in elements.
struct Layout {
  const void* data;
  std::span<const int64_t> shape, strides;
  int64_t element_bytes;
  bool written;
};

// Bytes from the first element to the end of the last; 0 when there is none.
int64_t extent_bytes(std::span<const int64_t> shape, std::span<const int64_t> strides, int64_t element_bytes);
// Whether two elements may share memory; some rare layouts without sharing are taken for one with it.
bool overlaps_itself(std::span<const int64_t> shape, std::span<const int64_t> strides);
// writes_overlap of the inputs, or a written one that overlaps itself.
bool writes_overlap(std::span<const Layout> inputs);

}  // namespace graphex::runtime
