// What this machine can do at most, measured: the floor beside which every speed is stated.
//
// Rates are the best pass of the best of several loops, so that a passing disturbance lowers nothing. Run a probe in
// the process and within seconds of what it is compared with, on the same number of workers.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "graphex/runtime/memory.h"
#include "graphex/runtime/team.h"

namespace graphex::runtime {

struct Rate {
  double per_second = 0;  // bytes, or arithmetic operations; 0: this CPU hasn't got it
  const char* loop = "";  // the loop that was best
};

// Holds a buffer so that memory can be probed repeatedly without paying for its pages again.
class MemoryProbe {
 public:
  // The buffer is at least 1 GiB and 8 x the last-level caches (up to 4 GiB), unless `bytes` says otherwise.
  MemoryProbe(Team& team, int workers, size_t bytes = 0);

  // Bytes read. Loops: one stream for each worker, eight streams, one with prefetch.
  Rate read(double seconds = 0.3);
  // Bytes read plus bytes written. Loops: ordinary and non-temporal stores.
  Rate copy(double seconds = 0.3);
  size_t bytes() const { return buffer_.bytes(); }

 private:
  Team& team_;
  const int workers_;
  MemoryBlock buffer_;
};

// Multiply-adds count as two. Loops: register-blocked, of several widths.
Rate probe_fp32(Team& team, int workers, double seconds = 0.3);
// Inner products of bf16 accumulated in fp32 by the CPU's own instruction; none: 0.
Rate probe_bf16(Team& team, int workers, double seconds = 0.3);

// Products of bytes in integers, and of bytes by values up to 15: what 8-bit and 4-bit weights can reach; none: 0.
Rate probe_int8(Team& team, int workers, double seconds = 0.3);
Rate probe_int4(Team& team, int workers, double seconds = 0.3);

struct Probe {
  int workers;
  size_t buffer_bytes;
  Rate read, copy, fp32, bf16, int8, int4;
};

// All of the above, as often as one likes: the team and the buffer stay.
class Prober {
 public:
  explicit Prober(int workers);
  // Each of the six measured for so long, but memory at least two passes a loop.
  Probe probe(double seconds = 0.3);

 private:
  const int workers_;
  std::unique_ptr<Team> team_;
  MemoryProbe memory_;
};

}  // namespace graphex::runtime
