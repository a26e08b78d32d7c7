// Where the workers of one run meet. Everything written before wait() is seen by all after it.
//
// A counter of arrivals and a phase to wait on; the last one to arrive resets the counter and moves the phase. Every
// worker of the run must call wait() equally often.
#pragma once

#include <atomic>
#include <cstdint>

#include "graphex/base/kernel_abi.h"
#include "graphex/runtime/parking.h"

namespace graphex::runtime {

class Barrier {
 public:
  explicit Barrier(int spins = kSpinPauses) : spins_(spins) {}

  // A worker that runs alone passes without touching the barrier, so such runs may share it with a team's.
  void wait(const GxWorker& worker) {
    if (worker.count > 1) wait_for(worker.count);
  }
  // Only while no living thread waits.
  void reset() {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.reset();
  }

 private:
  void wait_for(int count) {
    const uint32_t phase = phase_.value();
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == count - 1) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.publish(phase + 1);
    } else {
      phase_.wait_while(phase, spins_);
    }
  }

  alignas(128) std::atomic<int> arrived_{0};
  ParkingWord phase_;
  const int spins_;
};

}  // namespace graphex::runtime
