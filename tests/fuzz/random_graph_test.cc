// Random graphs, compiled and run, against the reference evaluator. GX_FUZZ_SEEDS=from:to runs others than CI's.
#include "tests/fuzz/random_graph.h"

#include <cstdio>
#include <cstdlib>

#include "graphex/base/error.h"
#include "tests/compile/harness.h"

namespace graphex::test {
namespace {

constexpr int kSeedsPerTest = 25;
const std::vector<std::vector<int64_t>> kSizes = {{3, 5}, {4, 4}, {1, 7}, {0, 3}, {9, 2}, {40, 33}};

void run_seed(unsigned seed) {
  const std::string text = ir::print(*RandomGraph(seed).make());
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
  try {
    Both both(text);
    for (const auto& symbols : kSizes) {
      const std::string wrong = both.run(symbols, 2e-4, seed);
      if (wrong.empty()) continue;
      ADD_FAILURE() << wrong << " for sizes " << symbols[0] << ", " << symbols[1] << "\nafter the passes:\n"
                    << both.function().report().graph;
      return;
    }
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

class RandomGraphs : public testing::TestWithParam<int> {};

TEST_P(RandomGraphs, GiveWhatTheReferenceGives) {
  for (int i = 0; i < kSeedsPerTest; ++i) run_seed(static_cast<unsigned>(GetParam() * kSeedsPerTest + i));
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, testing::Range(0, 8));

TEST(RandomGraph, MoreSeedsOnRequest) {
  const char* range = std::getenv("GX_FUZZ_SEEDS");
  unsigned from = 0, to = 0;
  if (!range || std::sscanf(range, "%u:%u", &from, &to) != 2) GTEST_SKIP() << "GX_FUZZ_SEEDS=from:to is not set";
  for (unsigned seed = from; seed < to; ++seed) run_seed(seed);
}

}  // namespace
}  // namespace graphex::test
