#include "graphex/runtime/arena_pool.h"

#include <algorithm>

namespace graphex::runtime {

MemoryBlock ArenaPool::take(size_t bytes) {
  MemoryBlock found;
  {
    const std::lock_guard lock(mutex_);
    const auto smaller = [](const MemoryBlock& a, const MemoryBlock& b) { return a.bytes() < b.bytes(); };
    if (const auto largest = std::max_element(idle_.begin(), idle_.end(), smaller); largest != idle_.end()) {
      found = std::move(*largest);
      idle_.erase(largest);
    }
  }
  if (found && found.bytes() >= bytes) return found;
  found = {};  // before the new one: there are never more blocks than replays at one time
  return MemoryBlock::allocate(bytes);
}

void ArenaPool::give_back(MemoryBlock block) {
  if (!block) return;
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(block));
}

size_t ArenaPool::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const MemoryBlock& block : idle_) sum += block.bytes();
  return sum;
}

}  // namespace graphex::runtime
