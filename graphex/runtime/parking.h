// A word that threads wait on: they spin a bounded number of pauses and then sleep in the kernel.
//
// The lowest bit says that somebody sleeps, so that a change of the value costs a system call only when it must. Both
// facts are in one atomic word: no fence pairs to get wrong. Each word has 128 bytes to itself, since adjacent lines
// are fetched together.
#pragma once

#include <atomic>
#include <cstdint>

namespace graphex::runtime {

// About 30 us on the machines measured: longer than the usual gap between two launches, short beside a time slice.
inline constexpr int kSpinPauses = 1000;

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

class alignas(128) ParkingWord {
 public:
  // Values have 31 bits and are only compared for equality.
  uint32_t value() const { return word_.load(std::memory_order_acquire) >> 1; }

  // Publishes `value` (release) and wakes every sleeper.
  void publish(uint32_t value) {
    if (word_.exchange(value << 1, std::memory_order_acq_rel) & 1) wake_all();
  }

  // Returns the value once it differs from `old` (acquire).
  uint32_t wait_while(uint32_t old, int spins) {
    old &= ~0u >> 1;
    for (int i = 0; i < spins; ++i) {
      if (uint32_t now = value(); now != old) return now;
      cpu_pause();
    }
    return sleep_while(old);
  }

  // Forgets sleepers; only for a word that no living thread waits on.
  void reset() { word_.store(0, std::memory_order_relaxed); }

 private:
  uint32_t sleep_while(uint32_t old);
  void wake_all();

  std::atomic<uint32_t> word_{0};
};

}  // namespace graphex::runtime
