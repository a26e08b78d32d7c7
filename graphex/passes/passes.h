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

// Not a pass of the pipeline, but left out by name like one: several nodes in one loop.
inline constexpr char kFuseLoops[] = "fuse_loops";
inline constexpr char kAllPasses[] = "all";

struct RunOptions {
  std::set<std::string> disabled;  // names to leave out, or "all"; an unknown one is an Error that lists the known
  bool verify = true;              // after each pass
  Dump dump = {};                  // called with the graph after a pass that changed it

  bool runs(const char* name) const { return !disabled.count(kAllPasses) && !disabled.count(name); }
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
