#include "graphex/runtime/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "graphex/base/error.h"

// An allocation that is too large is what one test is about; team_test.cc says so to the thread sanitizer.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace graphex::runtime {
namespace {

class MemoryBlockTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Pages, MemoryBlockTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Huge" : "Small"; });

TEST_P(MemoryBlockTest, IsAlignedAndWritableToTheLastByte) {
  for (size_t bytes : {0, 1, 63, 64, 65, 4096, 1 << 20, (3 << 20) + 5}) {
    const MemoryBlock block = MemoryBlock::allocate(bytes, GetParam());
    const auto address = reinterpret_cast<uintptr_t>(block.data());
    ASSERT_NE(address, 0u);
    EXPECT_EQ(address % (GetParam() ? 2 << 20 : kMemoryAlignment), 0u);
    EXPECT_EQ(block.bytes(), bytes);
    std::memset(block.data(), 0xA5, bytes);
    EXPECT_EQ(block.owners(), 1);
  }
}

TEST_P(MemoryBlockTest, LivesAsLongAsItsLastOwner) {
  const int64_t before = MemoryBlock::live_bytes();
  MemoryBlock first = MemoryBlock::allocate(1000, GetParam());
  static_cast<char*>(first.data())[999] = 7;
  EXPECT_EQ(MemoryBlock::live_bytes(), before + 1000);
  MemoryBlock second = first;
  EXPECT_EQ(first.owners(), 2);
  first = MemoryBlock();
  EXPECT_FALSE(first);
  EXPECT_EQ(second.owners(), 1);
  EXPECT_EQ(static_cast<char*>(second.data())[999], 7);
  const MemoryBlock third = std::move(second);
  EXPECT_EQ(third.owners(), 1);
  second = third;
  EXPECT_EQ(third.owners(), 2);
  second = MemoryBlock::allocate(10, GetParam());
  EXPECT_EQ(MemoryBlock::live_bytes(), before + 1010);
}

TEST_P(MemoryBlockTest, TravelsAsABarePointer) {
  const int64_t before = MemoryBlock::live_bytes();
  MemoryBlock block = MemoryBlock::allocate(128, GetParam());
  const MemoryBlock kept = block;
  void* bare = block.release();
  EXPECT_FALSE(block);
  EXPECT_EQ(kept.owners(), 2);
  {
    const MemoryBlock back = MemoryBlock::adopt(bare);
  }
  EXPECT_EQ(MemoryBlock::live_bytes(), before + 128);
}

TEST_P(MemoryBlockTest, OutOfMemoryNamesTheBytes) {
  const int64_t before = MemoryBlock::live_bytes();
  for (size_t bytes : {size_t{1} << 60, std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() / 2}) {
    try {
      MemoryBlock::allocate(bytes, GetParam());
      FAIL() << bytes << " bytes were given";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bytes) + " bytes"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(MemoryBlock::live_bytes(), before);
}

TEST(MemoryBlock, OwnersOnManyThreads) {
  const int64_t before = MemoryBlock::live_bytes();
  {
    std::vector<std::thread> threads;
    MemoryBlock block = MemoryBlock::allocate(256);
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([mine = block] {
        for (int round = 0; round < 2000; ++round) {
          MemoryBlock copy = mine;
          MemoryBlock::adopt(copy.release());
        }
      });
    }
    block = MemoryBlock();
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(MemoryBlock::live_bytes(), before);
}

}  // namespace
}  // namespace graphex::runtime
