// Merges nodes that compute the same thing: equal operator, operands, attributes and result types.
//   %a = f(%x) {k=1}; %b = f(%x) {k=1}   ->   %a for both
// where each is on the same stream of a capture and under the same core limit. Islands stay, since each run of one may
// differ; so do the bases of returned values, which must not come to share memory, and values that an operator
// overwrites: each can then be made where that operator's result lies.
#include <unordered_map>
#include <unordered_set>

#include "graphex/ops/op_def.h"
#include "graphex/passes/passes.h"

namespace graphex::passes {
namespace {

using Replaced = std::unordered_map<ir::Value*, ir::Value*>;

std::string key_of(const ir::Node& node, const ir::Graph& graph) {
  std::string key = node.op;
  for (const ir::Value* input : node.inputs) key += " " + std::to_string(reinterpret_cast<uintptr_t>(input));
  for (const auto& output : node.outputs) key += " " + ir::print(output->type, graph);
  ir::Node attrs;  // prints the attributes alone, without where the node came from
  attrs.attrs = node.attrs;
  for (const char* mark : {"at", "lane_cores", "segment", "round", "range"}) attrs.attrs.erase(mark);
  return key + ir::print(attrs, graph);
}

std::unordered_set<const ir::Node*> kept_apart(const ir::Graph& graph) {
  std::unordered_set<const ir::Node*> nodes;
  for (ir::Value* output : graph.outputs) nodes.insert(ops::base_of(output)->node);
  for (const auto& node : graph.nodes)
    if (const int operand = ops::op_of(*node).overwrites; operand >= 0)
      nodes.insert(ops::base_of(node->inputs[operand])->node);
  return nodes;
}

ir::Value* latest(const Replaced& replaced, ir::Value* value) {
  const auto it = replaced.find(value);
  return it == replaced.end() ? value : it->second;
}

}  // namespace

void merge_common(ir::Graph& graph) {
  std::unordered_map<std::string, ir::Node*> seen;
  Replaced replaced;
  const std::unordered_set<const ir::Node*> apart = kept_apart(graph);
  for (auto& node : graph.nodes) {
    for (ir::Value*& input : node->inputs) input = latest(replaced, input);
    if (node->op == "island" || apart.count(node.get())) continue;
    const auto [it, fresh] = seen.emplace(key_of(*node, graph), node.get());
    if (!fresh)
      for (size_t i = 0; i < node->outputs.size(); ++i) replaced[node->outputs[i].get()] = it->second->outputs[i].get();
  }
  for (ir::Write& write : graph.writes) write.value = latest(replaced, write.value);
  for (ir::Value*& output : graph.outputs) output = latest(replaced, output);
  graph.sweep();
}

}  // namespace graphex::passes
