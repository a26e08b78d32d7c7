#include "graphex/runtime/fork.h"

#include <pthread.h>

#include <atomic>

namespace graphex::runtime {
namespace {

std::atomic<uint32_t> generation{1};
void count_child() { generation.fetch_add(1, std::memory_order_relaxed); }
const int registered = pthread_atfork(nullptr, nullptr, count_child);

}  // namespace

uint32_t fork_generation() {
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace graphex::runtime
