// The workers' scratch memory (GX_SCRATCH_BYTES each, 2 MiB aligned). Mapped at once, but a page exists only when its
// worker first touches it, on that worker's memory node.
#pragma once

#include <cstddef>

#include "graphex/base/kernel_abi.h"

namespace graphex::runtime {

class Scratch {
 public:
  explicit Scratch(int workers);  // throws kOutOfMemory
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* of(int worker) const { return aligned_ + static_cast<size_t>(worker) * GX_SCRATCH_BYTES; }

 private:
  size_t mapped_bytes_;
  void* mapping_;
  char* aligned_;
};

// Scratch for a run on the calling thread only: the thread's own block, or a fresh one if a run further up has it.
class CallerScratch {
 public:
  CallerScratch();
  ~CallerScratch();
  CallerScratch(const CallerScratch&) = delete;
  CallerScratch& operator=(const CallerScratch&) = delete;

  void* data() const { return scratch_->of(0); }

 private:
  Scratch* scratch_;
  bool own_;
};

}  // namespace graphex::runtime
