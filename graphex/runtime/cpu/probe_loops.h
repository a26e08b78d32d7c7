// The loops that probe.cc times: which exist depends on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace graphex::runtime {

// Memory loops take multiples of this many bytes.
inline constexpr size_t kProbeUnit = 4096;

struct ReadLoop {
  const char* name;
  uint64_t (*run)(const char* data, size_t bytes);  // returns something made of every byte
};
struct CopyLoop {
  const char* name;
  void (*run)(char* to, const char* from, size_t bytes);
};
struct ArithmeticLoop {
  const char* name;
  int operations;  // in one iteration
  void (*run)(int64_t iterations);
};

std::vector<ReadLoop> read_loops();
std::vector<CopyLoop> copy_loops();
std::vector<ArithmeticLoop> fp32_loops();
std::vector<ArithmeticLoop> bf16_loops();  // empty without an instruction for it, as the next two
std::vector<ArithmeticLoop> int8_loops();  // products of bytes summed in 32 bits
std::vector<ArithmeticLoop> int4_loops();  // bytes by values up to 15, summed in 16 bits and widened after eight

}  // namespace graphex::runtime
