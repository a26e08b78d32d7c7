#include <chrono>

#include "graphex/base/error.h"
#include "graphex/ops/op_def.h"
#include "graphex/passes/passes.h"

namespace graphex::passes {

void check_names(const std::set<std::string>& names) {
  std::string known;
  std::set<std::string> all{kFuseLoops, kAllPasses};
  for (const Pass& pass : pipeline())
    if (all.insert(pass.name).second) known += (known.empty() ? "" : ", ") + std::string(pass.name);
  known += ", " + std::string(kFuseLoops) + ", or " + kAllPasses;
  for (const std::string& name : names) GX_CHECK(all.count(name), "unknown pass '", name, "'; known are ", known);
}

std::vector<PassTime> run_pipeline(ir::Graph& graph, const RunOptions& options) {
  check_names(options.disabled);
  std::vector<PassTime> times;
  std::string before = options.dump ? ir::print(graph) : "";
  for (const Pass& pass : pipeline()) {
    if (!options.runs(pass.name)) continue;
    const auto start = std::chrono::steady_clock::now();
    graph.renumber();
    pass.run(graph);
    times.push_back({pass.name, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
    if (options.verify) ops::verify(graph);
    if (!options.dump) continue;
    std::string after = ir::print(graph);
    if (after != before) options.dump(pass.name, after);
    before = std::move(after);
  }
  return times;
}

}  // namespace graphex::passes
