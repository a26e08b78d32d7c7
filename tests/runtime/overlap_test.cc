#include "graphex/runtime/overlap.h"

#include <gtest/gtest.h>

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
  EXPECT_FALSE(writes_overlap({}));
}

}  // namespace
}  // namespace graphex::runtime
