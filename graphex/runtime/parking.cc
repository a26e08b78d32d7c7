#include "graphex/runtime/parking.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace graphex::runtime {

uint32_t ParkingWord::sleep_while(uint32_t old) {
  for (;;) {
    uint32_t word = word_.load(std::memory_order_acquire);
    if (word >> 1 != old) return word >> 1;
    if ((word & 1) || word_.compare_exchange_weak(word, word | 1, std::memory_order_acq_rel)) {
      syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, old << 1 | 1, nullptr, nullptr, 0);
    }
  }
}

void ParkingWord::wake_all() { syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace graphex::runtime
