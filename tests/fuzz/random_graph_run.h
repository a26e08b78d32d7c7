// One seed's random graph, compiled and run for a few sizes beside the reference evaluator.
#pragma once

#include <string>

#include "graphex/base/error.h"
#include "tests/compile/harness.h"
#include "tests/fuzz/random_graph.h"

namespace graphex::test {

inline constexpr unsigned kRandomGraphSeeds = 200;  // of every test run

// "" or what differs, with the graph.
inline std::string fault_of_seed(unsigned seed, const compile::Context& context = shared_context()) {
  static const std::vector<std::vector<int64_t>> kSizes = {{3, 5}, {4, 4}, {1, 7}, {0, 3}, {9, 2}, {40, 33}};
  const std::string text = ir::print(*RandomGraph(seed).make());
  const std::string head = "seed " + std::to_string(seed) + "\n" + text;
  try {
    Both both(text, {}, context);
    for (const auto& symbols : kSizes) {
      const std::string wrong = both.run(symbols, 2e-4, seed);
      if (!wrong.empty())
        return head + wrong + " for sizes " + std::to_string(symbols[0]) + ", " + std::to_string(symbols[1]) +
               "\nafter the passes:\n" + both.function().report().graph;
    }
  } catch (const Error& error) {
    return head + error.what();
  }
  return "";
}

}  // namespace graphex::test
