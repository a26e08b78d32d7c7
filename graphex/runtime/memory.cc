#include "graphex/runtime/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <limits>
#include <new>

#include "graphex/base/error.h"

namespace graphex::runtime {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallPage = 4096;
constexpr size_t kMostBytes = std::numeric_limits<ptrdiff_t>::max() - 2 * kHugePage;

std::atomic<int64_t> live{0};

constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

[[noreturn]] void fail_out_of_memory(size_t bytes) {
  fail(ErrorKind::kOutOfMemory, "out of memory: ", bytes, " bytes asked for, ", MemoryBlock::live_bytes(),
       " bytes held by graphex; use smaller sizes or free other memory of this process");
}

}  // namespace

int64_t MemoryBlock::live_bytes() { return live.load(std::memory_order_relaxed); }

MemoryBlock MemoryBlock::allocate(size_t bytes, bool huge_pages) {
  if (bytes > kMostBytes) fail_out_of_memory(bytes);
  return huge_pages ? from_huge_pages(bytes) : from_heap(bytes);
}

MemoryBlock MemoryBlock::place(char* data, size_t bytes, void* mapping, size_t mapped_bytes) {
  new (data - sizeof(Header)) Header{1, bytes, mapping, mapped_bytes};
  live.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  return MemoryBlock(data);
}

MemoryBlock MemoryBlock::from_heap(size_t bytes) {
  const size_t asked = sizeof(Header) + round_up(bytes, kMemoryAlignment);
  auto* start = static_cast<char*>(std::aligned_alloc(kMemoryAlignment, asked));
  if (!start) fail_out_of_memory(bytes);
  return place(start + sizeof(Header), bytes, nullptr, 0);
}

// The header has a small page before the first huge one.
MemoryBlock MemoryBlock::from_huge_pages(size_t bytes) {
  const size_t mapped = kHugePage + kSmallPage + round_up(bytes, kSmallPage);
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) fail_out_of_memory(bytes);
  const uintptr_t first = reinterpret_cast<uintptr_t>(mapping) + sizeof(Header);
  auto* data = reinterpret_cast<char*>(round_up(first, kHugePage));
  madvise(data, round_up(bytes, kSmallPage), MADV_HUGEPAGE);  // advice: a system without huge pages refuses it
  return place(data, bytes, mapping, mapped);
}

void MemoryBlock::drop() {
  if (!data_ || header()->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Header* const dead = header();
  live.fetch_sub(static_cast<int64_t>(dead->bytes), std::memory_order_relaxed);
  if (dead->mapping) {
    munmap(dead->mapping, dead->mapped_bytes);
  } else {
    std::free(dead);
  }
}

}  // namespace graphex::runtime
