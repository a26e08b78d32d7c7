#include "graphex/runtime/arena_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace graphex::runtime {
namespace {

TEST(ArenaPool, OneAfterTheOtherUsesOneBlock) {
  ArenaPool pool;
  EXPECT_EQ(pool.idle_bytes(), 0u);
  pool.give_back(pool.take(1000));
  MemoryBlock large = pool.take(5000);
  EXPECT_EQ(pool.idle_bytes(), 0u);
  void* const address = large.data();
  pool.give_back(std::move(large));
  MemoryBlock small = pool.take(10);
  EXPECT_EQ(small.data(), address);
  pool.give_back(std::move(small));
  EXPECT_EQ(pool.idle_bytes(), 5000u);
}

TEST(ArenaPool, AtTheSameTimeEachHasItsOwn) {
  ArenaPool pool;
  MemoryBlock a = pool.take(100), b = pool.take(200);
  EXPECT_NE(a.data(), b.data());
  pool.give_back(std::move(a));
  pool.give_back(std::move(b));
  EXPECT_EQ(pool.idle_bytes(), 300u);
  EXPECT_EQ(pool.take(150).bytes(), 200u);
}

TEST(ArenaPool, HoldsAmongThreads) {
  ArenaPool pool;
  const auto work = [&pool](char mark) {
    for (size_t turn = 1; turn <= 2000; ++turn) {
      MemoryBlock block = pool.take(turn % 64 + 1);
      char* const data = static_cast<char*>(block.data());
      std::memset(data, mark, turn % 64 + 1);
      for (size_t i = 0; i <= turn % 64; ++i) ASSERT_EQ(data[i], mark);
      pool.give_back(std::move(block));
    }
  };
  std::thread a(work, 'a'), b(work, 'b');
  a.join();
  b.join();
  EXPECT_LE(pool.idle_bytes(), 128u);
}

}  // namespace
}  // namespace graphex::runtime
