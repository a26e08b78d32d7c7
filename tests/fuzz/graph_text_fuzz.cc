// Any text either is refused with an Error or is a graph whose printed form is canonical: it parses back to itself.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "graphex/base/error.h"
#include "graphex/ir/graph.h"

using namespace graphex;

static void expect_canonical(const ir::Graph& graph) {
  const std::string once = ir::print(graph);
  const std::string twice = ir::print(*ir::parse(once));
  if (once == twice) return;
  std::cerr << "printed form changes when parsed:\n" << once << "\n---\n" << twice << "\n";
  std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::unique_ptr<ir::Graph> graph;
  try {
    graph = ir::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInternal) return 0;
    throw;
  }
  expect_canonical(*graph);
  return 0;
}
