#include <set>

#include "graphex/ops/checks.h"

namespace graphex::ops {
namespace {

void verify_node(const ir::Node& node) {
  const OpDef* op = find_op(node.op);
  require(op, node, "unknown operator '", node.op, "'; graphex/ops/README.md lists the known ones");
  const int count = static_cast<int>(node.inputs.size());
  require(count >= op->min_inputs && (op->max_inputs < 0 || count <= op->max_inputs), node, "has ", count,
          " operands; expected ", op->min_inputs, op->max_inputs == op->min_inputs ? "" : " or more");
  require(op->kind == OpKind::kIsland || node.outputs.size() == op->results, node, "has ", node.outputs.size(),
          " results; expected ", op->results);
  if (op->check) op->check(node);
}

}  // namespace

void verify(const ir::Graph& graph) {
  std::set<const ir::Value*> known;
  for (const auto& input : graph.inputs) known.insert(input.get());
  for (const auto& node : graph.nodes) {
    for (const ir::Value* operand : node->inputs)
      require(known.count(operand), *node, "operand %", operand->name, " is not defined before it");
    verify_node(*node);
    for (const auto& output : node->outputs) known.insert(output.get());
  }
  for (const ir::Value* output : graph.outputs)
    GX_CHECK(known.count(output), "return: %", output->name, " is not defined in the graph");
  std::set<const ir::Value*> written;
  for (const ir::Write& write : graph.writes) {
    GX_CHECK(known.count(write.value), "write %", write.input->name, ": %", write.value->name, " is not defined");
    GX_CHECK(write.value->type.dtype == write.input->type.dtype && write.value->type.shape == write.input->type.shape,
             "write %", write.input->name, ": %", write.value->name, " has another dtype or shape");
    GX_CHECK(written.insert(write.input).second, "write %", write.input->name, ": written twice");
  }
}

}  // namespace graphex::ops
