// Reads a graph from its text form, walks it and prints it back.
#include <iostream>

#include "graphex/ir/graph.h"

constexpr const char* kText = R"(
graph @scale {
  sym n
  %x: f32[n, 4] = input
  %y: f32[n, 4] = mul(%x, %x)
  return %y
}
)";

int main() {
  const auto graph = graphex::ir::parse(kText);
  for (const auto& node : graph->nodes) std::cout << node->op << " makes " << node->out()->name << "\n";
  std::cout << graphex::ir::print(*graph);
  return 0;
}
