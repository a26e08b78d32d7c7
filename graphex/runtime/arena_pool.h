// Working memory that several Programs share: replays one after the other use one block, as large as the largest needs.
//
// A replay has its block to itself for as long as it runs, so replays at the same time are safe: each has its own.
#pragma once

#include <mutex>
#include <vector>

#include "graphex/runtime/memory.h"

namespace graphex::runtime {

class ArenaPool {
 public:
  // A block of at least that many bytes, which nobody else has. Contents are undefined.
  MemoryBlock take(size_t bytes);
  void give_back(MemoryBlock block);
  // Bytes of the blocks that nobody has now; between replays that is all that the pool holds.
  size_t idle_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::vector<MemoryBlock> idle_;
};

}  // namespace graphex::runtime
