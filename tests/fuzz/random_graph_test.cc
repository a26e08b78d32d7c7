// Random graphs, compiled and run, against the reference evaluator. GX_FUZZ_SEEDS=from:to runs others than CI's.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/random_graph_run.h"

namespace graphex::test {
namespace {

constexpr unsigned kSeedsPerTest = 25;

class RandomGraphs : public testing::TestWithParam<unsigned> {};

TEST_P(RandomGraphs, GiveWhatTheReferenceGives) {
  for (unsigned i = 0; i < kSeedsPerTest; ++i) EXPECT_EQ(fault_of_seed(GetParam() * kSeedsPerTest + i), "");
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, testing::Range(0U, kRandomGraphSeeds / kSeedsPerTest));

TEST(RandomGraph, MoreSeedsOnRequest) {
  const char* range = std::getenv("GX_FUZZ_SEEDS");
  unsigned from = 0, to = 0;
  if (!range || std::sscanf(range, "%u:%u", &from, &to) != 2) GTEST_SKIP() << "GX_FUZZ_SEEDS=from:to is not set";
  for (unsigned seed = from; seed < to; ++seed) EXPECT_EQ(fault_of_seed(seed), "");
}

}  // namespace
}  // namespace graphex::test
