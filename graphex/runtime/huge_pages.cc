#include "graphex/runtime/huge_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>

namespace graphex::runtime {
namespace {

constexpr uintptr_t kExtent = uintptr_t{2} << 20;
constexpr uintptr_t kPage = 4096;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers don't name

// Entries of /proc/self/pagemap (proc_pid_pagemap(5)).
constexpr uint64_t kPresent = uint64_t{1} << 63, kSwapped = uint64_t{1} << 62, kExclusive = uint64_t{1} << 56;

class PageMap {
 public:
  PageMap() : file_(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;
  ~PageMap() {
    if (file_ >= 0) close(file_);
  }

  // At least half of the extent's pages are in memory, and all that are belong to this process alone.
  bool is_ours(uintptr_t extent) const {
    std::array<uint64_t, kExtent / kPage> entries;
    const auto at = static_cast<off_t>(extent / kPage * sizeof(uint64_t));
    if (pread(file_, entries.data(), sizeof entries, at) != ssize_t{sizeof entries}) return false;
    size_t present = 0;
    for (const uint64_t entry : entries) {
      if ((entry & kSwapped) || ((entry & kPresent) && !(entry & kExclusive))) return false;
      present += (entry & kPresent) != 0;
    }
    return present >= entries.size() / 2;
  }

 private:
  int file_;
};

// Unlike other advice, this one would overrule an administrator's "never".
bool allowed() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return sysconf(_SC_PAGESIZE) == kPage && std::getline(file, line) && line.find("[never]") == std::string::npos;
}

// Bytes of each extent that the ranges cover.
std::map<uintptr_t, size_t> coverage(std::vector<MemoryRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.data < b.data; });
  std::map<uintptr_t, size_t> covered;
  uintptr_t done = 0;
  for (const MemoryRange& range : ranges) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(range.data), end = begin + range.bytes;
    for (uintptr_t at = std::max(begin, done); at < end;) {
      const uintptr_t extent = at / kExtent * kExtent, next = std::min(end, extent + kExtent);
      covered[extent] += next - at;
      at = next;
    }
    done = std::max(done, end);
  }
  return covered;
}

}  // namespace

size_t move_to_huge_pages(std::vector<MemoryRange> ranges) {
  if (!allowed()) return 0;
  const PageMap pages;
  size_t moved = 0;
  for (const auto& [extent, bytes] : coverage(std::move(ranges)))
    if (bytes >= kExtent / 2 && pages.is_ours(extent) &&
        madvise(reinterpret_cast<void*>(extent), kExtent, kCollapse) == 0)
      moved += kExtent;
  return moved;
}

}  // namespace graphex::runtime
