#include "graphex/runtime/scratch.h"

#include <sys/mman.h>

#include <cstdint>
#include <memory>

#include "graphex/base/error.h"

namespace graphex::runtime {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
static_assert(GX_SCRATCH_BYTES % kHugePage == 0, "each worker's scratch starts on a huge page");

struct ThreadScratch {
  std::unique_ptr<Scratch> block;
  bool taken = false;
};
thread_local ThreadScratch thread_scratch;

}  // namespace

Scratch::Scratch(int workers) : mapped_bytes_(static_cast<size_t>(workers) * GX_SCRATCH_BYTES + kHugePage) {
  mapping_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    fail(ErrorKind::kOutOfMemory, "out of memory: ", mapped_bytes_, " bytes asked for the scratch of ", workers,
         " workers");
  }
  const auto address = reinterpret_cast<uintptr_t>(mapping_);
  aligned_ = reinterpret_cast<char*>((address + kHugePage - 1) / kHugePage * kHugePage);
  madvise(aligned_, static_cast<size_t>(workers) * GX_SCRATCH_BYTES, MADV_HUGEPAGE);
}

Scratch::~Scratch() { munmap(mapping_, mapped_bytes_); }

CallerScratch::CallerScratch() : own_(thread_scratch.taken) {
  if (own_) {
    scratch_ = new Scratch(1);
    return;
  }
  if (!thread_scratch.block) thread_scratch.block = std::make_unique<Scratch>(1);
  thread_scratch.taken = true;
  scratch_ = thread_scratch.block.get();
}

CallerScratch::~CallerScratch() {
  if (own_) {
    delete scratch_;
  } else {
    thread_scratch.taken = false;
  }
}

}  // namespace graphex::runtime
