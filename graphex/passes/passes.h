// Graph-to-graph rewrites and the only way to run them: verified, timed, switched off or dumped by name.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "graphex/ir/graph.h"

namespace graphex::passes {

struct Pass {
  const char* name;
  void (*run)(ir::Graph&);
};

// In the order in which they run; pipeline.cc says why.
const std::vector<Pass>& pipeline();

using Dump = std::function<void(const char* pass, const std::string& text)>;

struct RunOptions {
  std::set<std::string> disabled;  // names of passes to leave out; an unknown name is an Error that lists the known
  bool verify = true;              // after each pass
  Dump dump = {};                  // called with the graph after a pass that changed it
};

// Throws an Error that lists the known passes if a name is of none.
void check_names(const std::set<std::string>& names);

struct PassTime {
  std::string name;
  double seconds;
};

std::vector<PassTime> run_pipeline(ir::Graph& graph, const RunOptions& options);

#define GX_PASS(name) void name(ir::Graph& graph);
#include "graphex/passes/passes.def"
#undef GX_PASS

}  // namespace graphex::passes
