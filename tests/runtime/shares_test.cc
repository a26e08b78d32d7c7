#include "graphex/runtime/shares.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace graphex::runtime {
namespace {

// Takes until nothing is left; what it took, in order.
std::vector<TileRange> take_all(Shares& shares, int id) {
  std::vector<TileRange> taken;
  for (TileRange range = shares.take(id); !range.empty(); range = shares.take(id)) taken.push_back(range);
  return taken;
}

void count(const std::vector<TileRange>& ranges, std::vector<int>& times) {
  for (const TileRange& range : ranges)
    for (int64_t tile = range.begin; tile < range.end; ++tile) ++times[tile];
}

TEST(Shares, EveryTileIsInOneShare) {
  for (int64_t tiles : {0, 1, 7, 8, 1000, 6144})
    for (int workers = 1; workers <= 9; ++workers) {
      int64_t next = 0;
      for (int id = 0; id < workers; ++id) {
        const TileRange share = share_of(tiles, id, workers);
        EXPECT_EQ(share.begin, next);
        next = share.end;
      }
      EXPECT_EQ(next, tiles);
    }
}

TEST(Shares, AWorkerStartsWithMostOfItsOwnShare) {
  uint64_t taken[2] = {};
  Shares shares(80, 2, taken);
  const TileRange first = shares.take(1);
  EXPECT_EQ(first.begin, 40);
  EXPECT_EQ(first.end, 70);
}

TEST(Shares, OneWorkerDoesTheWorkOfAllWhoNeverCome) {
  for (int64_t tiles : {8, 9, 31, 1000}) {
    std::vector<uint64_t> taken(3, 0);
    std::vector<int> times(tiles, 0);
    Shares shares(tiles, 3, taken.data());
    count(take_all(shares, 1), times);
    EXPECT_EQ(times, std::vector<int>(tiles, 1));
  }
}

TEST(Shares, WorkersTogetherTakeEveryTileOnce) {
  constexpr int kWorkers = 4;
  for (int round = 0; round < 200; ++round) {
    const int64_t tiles = 8 + round * 3;
    std::vector<uint64_t> taken(kWorkers, 0);
    std::vector<std::vector<TileRange>> ranges(kWorkers);
    {
      std::vector<std::jthread> threads;
      for (int id = 0; id < kWorkers; ++id)
        threads.emplace_back([&, id] {
          Shares shares(tiles, kWorkers, taken.data());
          ranges[id] = take_all(shares, id);
        });
    }
    std::vector<int> times(tiles, 0);
    for (const auto& list : ranges) count(list, times);
    ASSERT_EQ(times, std::vector<int>(tiles, 1));
  }
}

}  // namespace
}  // namespace graphex::runtime
