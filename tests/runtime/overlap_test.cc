#include "graphex/runtime/overlap.h"

#include <gtest/gtest.h>

#include <vector>

namespace graphex::runtime {
namespace {

const char memory[100] = {};
Extent extent(int begin, int end, bool written) { return {memory + begin, memory + end, written}; }

TEST(Overlap, ReadersMayShare) { EXPECT_FALSE(writes_overlap({extent(0, 50, false), extent(10, 60, false)})); }

TEST(Overlap, AWriterSharesWithNobody) {
  EXPECT_TRUE(writes_overlap({extent(0, 50, true), extent(10, 60, false)}));
  EXPECT_TRUE(writes_overlap({extent(10, 60, true), extent(0, 50, false)}));
  EXPECT_TRUE(writes_overlap({extent(10, 20, true), extent(0, 90, false), extent(5, 6, false)}));
  EXPECT_TRUE(writes_overlap({extent(0, 90, true), extent(5, 6, false), extent(20, 30, false)}));
  EXPECT_TRUE(writes_overlap({extent(3, 4, true), extent(3, 4, true)}));
}

TEST(Overlap, NeighboursDoNotTouch) {
  EXPECT_FALSE(writes_overlap({extent(50, 60, false), extent(0, 50, true), extent(60, 61, true)}));
  EXPECT_FALSE(writes_overlap(std::vector<Extent>{}));
}

TEST(Overlap, AWrittenInputMayNotOverlapItself) {
  const std::vector<int64_t> shape = {3, 4}, apart = {4, 1}, windows = {2, 1}, expanded = {0, 1}, gaps = {9, 2};
  EXPECT_FALSE(overlaps_itself(shape, apart));
  EXPECT_FALSE(overlaps_itself(shape, gaps));
  EXPECT_TRUE(overlaps_itself(shape, windows));
  EXPECT_TRUE(overlaps_itself(shape, expanded));
  EXPECT_FALSE(overlaps_itself(std::vector<int64_t>{0, 4}, expanded));
  EXPECT_TRUE(writes_overlap(std::vector<Layout>{{memory, shape, windows, 4, true}}));
  EXPECT_FALSE(writes_overlap(std::vector<Layout>{{memory, shape, windows, 4, false}}));
  EXPECT_EQ(extent_bytes(shape, windows, 4), 32);
}

}  // namespace
}  // namespace graphex::runtime
