#include "graphex/runtime/cpu/probe.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "graphex/runtime/cpu/probe_loops.h"

namespace graphex::runtime {
namespace {

constexpr size_t kBytes = 21 * kProbeUnit;  // not a multiple of eight streams

// A loop that skipped bytes would report a rate that nobody can reach.
TEST(ProbeLoops, ReadsEveryByteOnce) {
  MemoryBlock block = MemoryBlock::allocate(kBytes + 4096);
  auto* data = static_cast<unsigned char*>(block.data());
  for (const ReadLoop& loop : read_loops()) {
    std::memset(data, 0, kBytes);
    ASSERT_EQ(loop.run(reinterpret_cast<char*>(data), kBytes), 0u) << loop.name;
    for (size_t at = 0; at < kBytes; at += 8) {
      data[at] = 1;
      EXPECT_EQ(loop.run(reinterpret_cast<char*>(data), kBytes), 1u) << loop.name << " at " << at;
      data[at] = 0;
    }
  }
}

TEST(ProbeLoops, CopiesEveryByte) {
  MemoryBlock block = MemoryBlock::allocate(2 * kBytes);
  char* data = static_cast<char*>(block.data());
  for (const CopyLoop& loop : copy_loops()) {
    for (size_t i = 0; i < kBytes; ++i) data[i] = static_cast<char>(i * 7 + i / 256);
    std::memset(data + kBytes, 0, kBytes);
    loop.run(data + kBytes, data, kBytes);
    EXPECT_EQ(std::memcmp(data, data + kBytes, kBytes), 0) << loop.name;
  }
}

TEST(Probe, GivesRatesOfLoopsThatThisCpuHas) {
  const auto team = make_own_team(2);
  MemoryProbe memory(*team, 2, 8 << 20);
  EXPECT_EQ(memory.bytes(), 8u << 20);
  for (const Rate& rate : {memory.read(0.01), memory.copy(0.01), probe_fp32(*team, 2, 0.01)}) {
    EXPECT_GT(rate.per_second, 0);
    EXPECT_STRNE(rate.loop, "");
  }
  EXPECT_EQ(probe_bf16(*team, 2, 0.01).per_second > 0, !bf16_loops().empty());
  const double int8 = probe_int8(*team, 2, 0.01).per_second, int4 = probe_int4(*team, 2, 0.01).per_second;
  EXPECT_EQ(int8 > 0, !int8_loops().empty());
  EXPECT_EQ(int4 > 0, !int4_loops().empty());
}

}  // namespace
}  // namespace graphex::runtime
