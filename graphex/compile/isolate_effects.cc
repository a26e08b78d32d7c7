#include <algorithm>
#include <set>

#include "graphex/compile/storage.h"

namespace graphex::compile {
namespace {

ir::Value* view_of(ir::Graph& graph, ir::Value* value, const ir::Type& type) {
  return graph.add_node("view", {value}, {type}, {{"offset", ir::Expr(0)}})->out();
}

// The type without the dimensions along which all elements are one.
ir::Type without_repeats(const ir::Type& type) {
  std::vector<ir::Expr> shape, strides;
  for (int dim = 0; dim < type.rank(); ++dim) {
    if (type.strides[dim].is(0)) continue;
    shape.push_back(type.shape[dim]);
    strides.push_back(type.strides[dim]);
  }
  return ir::Type(type.dtype, shape, strides);
}

ir::Value* copied(ir::Graph& graph, ir::Value* value, const ir::Type& type) {
  return graph.add_node("copy", {value}, {type})->out();
}

// A copy with the value's own layout. Elements that are one stay one: workers must not write one place twice.
ir::Value* copied(ir::Graph& graph, ir::Value* value) {
  const ir::Type type(value->type.dtype, value->type.shape, value->type.strides);
  const ir::Type once = without_repeats(type);
  if (once.rank() == type.rank()) return copied(graph, value, type);
  return view_of(graph, copied(graph, view_of(graph, value, once), once), type);
}

// The value's elements fill its base exactly, in the layout `type`.
bool is_whole(const ir::Value* value, const ir::Value* base, const ir::Type& type) {
  if (!(value->type.strides == type.strides)) return false;
  for (const ir::Value* at = value; at != base; at = at->node->inputs[0])
    if (!at->node->expr("offset").is(0)) return false;
  return value->type.numel() == base->type.numel();
}

// Whether the value may lie in the memory of one of `inputs`: by views, or by an island that hands out its operand's
// memory.
bool may_lie_in(ir::Value* value, const std::set<const ir::Value*>& inputs) {
  const ir::Value* base = ops::base_of(value);
  if (inputs.count(base)) return true;
  if (!base->node || base->node->op != "island" || !base->node->flag("alias")) return false;
  return std::any_of(base->node->inputs.begin(), base->node->inputs.end(),
                     [&](ir::Value* operand) { return may_lie_in(operand, inputs); });
}

}  // namespace

void isolate_effects(ir::Graph& graph) {
  std::set<const ir::Value*> written, returned, taken;
  for (const ir::Write& write : graph.writes) written.insert(write.input);
  for (ir::Value*& output : graph.outputs) {
    // A view of an input keeps what the input held at entry, so it can't lie in memory that a write changes.
    if (may_lie_in(output, written)) {
      ir::Value* fresh = copied(graph, output);
      std::replace(graph.outputs.begin(), graph.outputs.end(), output, fresh);
    }
  }
  for (ir::Value* output : graph.outputs) returned.insert(ops::base_of(output));
  for (ir::Write& write : graph.writes) {
    const ir::Value* base = ops::base_of(write.value);
    const bool own = base->node && base->node->op != "island" && !returned.count(base) && taken.insert(base).second &&
                     is_whole(write.value, base, write.input->type);
    if (!own && !(write.value == write.input)) write.value = copied(graph, write.value, write.input->type);
  }
  std::erase_if(graph.writes, [](const ir::Write& write) { return write.value == write.input; });
}

}  // namespace graphex::compile
