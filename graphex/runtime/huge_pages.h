// Memory that somebody else allocated, moved into huge pages where it lies: weights that PyTorch holds are read faster
// so, because a core's prefetchers stop at the end of a page and its table of translations reaches further.
#pragma once

#include <cstddef>
#include <vector>

namespace graphex::runtime {

struct MemoryRange {
  const void* data;
  size_t bytes;
};

// Addresses and contents stay, and other threads may go on using them. Only 2 MiB extents are moved that the ranges
// cover by half or more and whose pages no other process shares: a copy of those would double them. Returns the bytes
// that lie in huge pages afterwards; 0 where the system forbids huge pages or can't do this (Linux before 6.1).
size_t move_to_huge_pages(std::vector<MemoryRange> ranges);

}  // namespace graphex::runtime
