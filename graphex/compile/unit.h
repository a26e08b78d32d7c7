// A unit is what becomes one step, or a few, of the tape: a group of nodes that one generated loop computes, or a
// single node with a kernel of its own, or an island.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "graphex/ir/graph.h"
#include "graphex/ops/op_def.h"

namespace graphex::compile {

// Dimension d of a value lies along dimension map[d] of a loop's space; -1: the value has size 1 there.
using DimMap = std::vector<int>;

struct Space {
  std::vector<ir::Expr> sizes;
  std::vector<bool> reduced;  // per dimension: summed away by the group's reductions
  bool has_reduction() const;
};

struct Unit {
  std::vector<ir::Node*> nodes;  // in graph order; one unless a loop
  bool loop = false;
  Space space;                                        // loops only
  std::unordered_map<const ir::Value*, DimMap> maps;  // loops only: results of its nodes
  std::vector<ir::Value*> stores;                     // loops only: results needed outside
  int order = 0;                                      // position in the schedule
};

// Nodes computed again wherever they are used, since that costs less than memory: sources and what follows from them
// alone.
bool is_inline(const ir::Value* value);

// The dimension map of `view`'s base, given the map of the view itself; nullopt if the view is no mere renaming,
// insertion, removal or broadcast of the base's dimensions.
std::optional<DimMap> map_through_view(const ir::Value& base, const ir::Value& view, const DimMap& map);
// The map of an operand that broadcasts to a result with this map.
DimMap map_of_operand(const ir::Value& operand, const DimMap& result_map);
// The map of a reduction's operand: kept dimensions from the result's map, reduced ones from the space.
DimMap map_of_reduced(const ir::Node& reduction, const DimMap& result_map, const DimMap& operand_hint);

// Whether the user's scopes let two nodes share a launch: they are on one stream between the same events, under one
// core limit.
bool same_scope(const ir::Node& a, const ir::Node& b);

// Groups the nodes of a verified graph into units, in an order that respects data flow. Without `fuse` a node is a
// unit, but for what is_inline.
std::vector<std::unique_ptr<Unit>> form_units(ir::Graph& graph, bool fuse = true);

}  // namespace graphex::compile
