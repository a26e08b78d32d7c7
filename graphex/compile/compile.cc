#include "graphex/compile/compile.h"

#include <chrono>
#include <set>

#include "graphex/compile/kernel_table.h"
#include "graphex/compile/lowering.h"
#include "graphex/ops/op_def.h"

namespace graphex::compile {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void count_nodes(const ir::Graph& graph, Report& report) {
  for (const auto& node : graph.nodes) {
    report.nodes += node->op != "view";
    report.islands += node->op == "island";
  }
}

int distinct(const std::vector<codegen::Kernel>& kernels) {
  std::set<GxKernel> functions;
  for (const codegen::Kernel& kernel : kernels) functions.insert(kernel.run);
  return static_cast<int>(functions.size());
}

}  // namespace

std::vector<std::pair<std::string, std::string>> unsupported(const ir::Graph& graph) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& node : graph.nodes) {
    const ops::OpDef* op = ops::find_op(node->op);
    if (op && op->kind == ops::OpKind::kKernel && !kernel_for(*node))
      found.emplace_back(node->out()->name, "no kernel of " + node->op + " for " +
                                                std::string(name_of(node->inputs[0]->type.dtype)) + " in this layout");
  }
  return found;
}

std::shared_ptr<const runtime::Program> compile(std::unique_ptr<ir::Graph> graph,
                                                std::shared_ptr<codegen::KernelCompiler> compiler,
                                                const Options& options, Report* report) {
  Report unused;
  Report& out = report ? *report : unused;
  const auto start = std::chrono::steady_clock::now();
  ops::verify(*graph);
  out.passes = passes::run_pipeline(*graph, options.passes);
  isolate_effects(*graph);
  out.graph = ir::print(*graph);
  count_nodes(*graph, out);
  const auto units = form_units(*graph, options.passes.runs(passes::kFuseLoops));
  const Storage storage = assign_storage(*graph, units);
  const LoopOptions loop_options{options.emulate_precision_casts};
  Lowering lowering(*graph, units, storage, loop_options);
  lowering.run();
  const auto before_kernels = std::chrono::steady_clock::now();
  const std::vector<codegen::Kernel> kernels = compiler->compile(lowering.requests());
  out.kernel_seconds = seconds_since(before_kernels);
  out.kernels = distinct(kernels);
  runtime::ProgramParts parts = lowering.finish(kernels);
  parts.code = compiler;
  auto program = std::make_shared<const runtime::Program>(std::move(parts));
  out.seconds = seconds_since(start);
  return program;
}

}  // namespace graphex::compile
