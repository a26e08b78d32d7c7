// Graph to Program: the one place where passes, code generation and runtime meet.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graphex/codegen/compiler.h"
#include "graphex/passes/passes.h"
#include "graphex/runtime/program.h"

namespace graphex::compile {

struct Options {
  bool emulate_precision_casts = false;
  passes::RunOptions passes;
};

struct Report {
  int nodes = 0;    // of the optimised graph, views not counted
  int islands = 0;  // of these, left to the host
  int kernels = 0;  // distinct
  std::vector<passes::PassTime> passes;
  double seconds = 0;  // all of compile
  double kernel_seconds = 0;
  std::string graph;  // text form after the passes
};

// Nodes of a graph that no kernel serves, with the reason: a frontend leaves these to islands.
std::vector<std::pair<std::string, std::string>> unsupported(const ir::Graph& graph);

// Consumes the graph. The compiler must outlive nothing: the program holds it.
std::shared_ptr<const runtime::Program> compile(std::unique_ptr<ir::Graph> graph,
                                                std::shared_ptr<codegen::KernelCompiler> compiler,
                                                const Options& options = {}, Report* report = nullptr);

}  // namespace graphex::compile
