#include "graphex/compile/storage.h"

#include <algorithm>
#include <set>

#include "graphex/base/error.h"

namespace graphex::compile {
namespace {

using ops::OpKind;

// Bytes from the first to the last element of a base, both included.
ir::Expr block_bytes(const ir::Type& type) {
  if (type.is_contiguous()) return type.numel() * ir::Expr(size_of(type.dtype));
  ir::Expr last(0);
  for (int d = 0; d < type.rank(); ++d) last = last + (type.shape[d] - ir::Expr(1)) * type.strides[d];
  return (last + ir::Expr(1)) * ir::Expr(size_of(type.dtype));
}

class Assigner {
 public:
  Assigner(const ir::Graph& graph, const std::vector<std::unique_ptr<Unit>>& units) : graph_(graph), units_(units) {}

  Storage run() {
    index_uses();
    for (const auto& input : graph_.inputs) {
      storage_.places[input.get()] = {static_cast<int>(storage_.blocks.size()), 0};
      storage_.blocks.push_back({Home::kInput, input->index, 0});
    }
    for (const ir::Write& write : graph_.writes)
      if (!claim(ops::base_of(write.value), write.input)) storage_.copies.push_back(write);
    for (const auto& unit : units_)
      for (const ir::Node* node : unit->nodes) place_results(*unit, *node);
    find_lifetimes();
    return std::move(storage_);
  }

 private:
  void index_uses() {
    for (const auto& unit : units_)
      for (ir::Node* node : unit->nodes) unit_of_[node] = unit.get();
    for (const auto& unit : units_)
      for (const ir::Node* node : unit->nodes)
        for (ir::Value* operand : node->inputs) add_reads(operand, unit.get());
    for (ir::Value* output : graph_.outputs) outputs_.insert(ops::base_of(output));
    for (const ir::Write& write : graph_.writes) written_.insert(ops::base_of(write.value));
  }

  void add_reads(ir::Value* operand, Unit* unit) {
    ir::Value* base = ops::base_of(operand);
    if (base->node) {
      const auto maker = unit_of_.find(base->node);
      if (maker == unit_of_.end() || maker->second == unit) return;  // inline, or the unit's own
    }
    readers_[base].insert(unit->order);
    reads_[unit].push_back(operand);
    if (base->node && base->node->op == "island" && base->node->flag("alias"))
      for (ir::Value* source : base->node->inputs) add_reads(source, unit);
  }

  // Whether all units that read `base`, but for `except`, come before unit `order`.
  bool read_only_before(const ir::Value* base, int order, const Unit* except) const {
    const auto it = readers_.find(base);
    if (it == readers_.end()) return true;
    return std::all_of(it->second.begin(), it->second.end(),
                       [&](int reader) { return reader < order || (except && reader == except->order); });
  }

  // Gives `value` the memory of the input that it will be written to, if nobody can tell.
  bool claim(ir::Value* value, const ir::Value* input) {
    if (!value->node || outputs_.count(value)) return false;
    const auto it = unit_of_.find(value->node);
    if (it == unit_of_.end()) return false;
    const Unit& unit = *it->second;
    const Place target = storage_.places.at(input);
    if (const ir::Value* target_operand = overwritten(*value->node)) {
      ir::Value* base = ops::base_of(const_cast<ir::Value*>(target_operand));
      if (same_layout(*value->node, *target_operand) && reads_once(unit, base)) {
        const bool direct = base == input && read_only_before(input, unit.order, &unit);
        const bool chained = base != input && base->node && !written_elsewhere(base, value) &&
                             read_only_before(base, unit.order, &unit) && !storage_.places.count(base) &&
                             claim(base, input);
        if (direct || chained) return take(value, target, value->node);
      }
    }
    if (!read_only_before(input, unit.order, unit.loop && loads_match(unit, value, input) ? &unit : nullptr))
      return false;
    if (value->node->op == "cat" || ops::op_of(*value->node).kind == OpKind::kIsland) return false;
    return take(value, target, nullptr);
  }

  bool take(ir::Value* value, const Place& place, const ir::Node* in_place) {
    storage_.places[value] = place;
    if (in_place) storage_.in_place[in_place] = true;
    return true;
  }

  bool written_elsewhere(const ir::Value* base, const ir::Value* value) const {
    return base != value && (written_.count(base) || outputs_.count(base));
  }

  static const ir::Value* overwritten(const ir::Node& node) {
    const int operand = ops::op_of(node).overwrites;
    return operand < 0 ? nullptr : node.inputs[operand];
  }

  // The operand starts where its base does and has the result's strides.
  static bool same_layout(const ir::Node& node, const ir::Value& operand) {
    for (const ir::Value* at = &operand; at->node && at->node->op == "view"; at = at->node->inputs[0])
      if (!at->node->expr("offset").is(0)) return false;
    return operand.type.strides == node.out()->type.strides;
  }

  // The unit reads `base` through a single operand, the one that it overwrites.
  bool reads_once(const Unit& unit, const ir::Value* base) const {
    const auto it = reads_.find(&unit);
    if (it == reads_.end()) return true;
    return std::count_if(it->second.begin(), it->second.end(), [&](ir::Value* v) { return ops::base_of(v) == base; }) ==
           1;
  }

  // Every load that a loop makes of `input` is of the element that it stores into `value` at the same point.
  bool loads_match(const Unit& unit, const ir::Value* value, const ir::Value* input) const {
    if (unit.space.has_reduction() && value->type.shape != unit.space.sizes) return false;
    const auto it = reads_.find(&unit);
    if (it == reads_.end()) return true;
    const DimMap& result_map = unit.maps.at(value);
    for (const ir::Value* operand : it->second) {
      if (ops::base_of(const_cast<ir::Value*>(operand)) != input) continue;
      if (operand != input || operand->type.shape != value->type.shape || operand->type.strides != value->type.strides)
        return false;
    }
    for (const ir::Node* node : unit.nodes)
      for (const ir::Value* operand : node->inputs)
        if (operand == input && ops::op_of(*node).kind != OpKind::kReduction &&
            map_of_operand(*operand, unit.maps.at(node->out())) != result_map)
          return false;
    return true;
  }

  void place_results(const Unit& unit, const ir::Node& node) {
    for (const auto& output : node.outputs) {
      const ir::Value* value = output.get();
      if (storage_.places.count(value)) continue;
      if (unit.loop && std::find(unit.stores.begin(), unit.stores.end(), value) == unit.stores.end()) continue;
      if (node.op != "island" && take_over_operand(unit, node, value)) continue;
      if (unit.loop && lie_with_overwriter(unit, value)) continue;
      storage_.places[value] = {static_cast<int>(storage_.blocks.size()), 0};
      const bool result = outputs_.count(value) != 0;
      const bool host = result || node.op == "island" || feeds_island(value);
      storage_.blocks.push_back({host ? Home::kHost : Home::kArena, -1, block_bytes(value->type), result});
    }
  }

  // An overwriting node may continue in its operand's memory when that is ours and dies here.
  bool take_over_operand(const Unit& unit, const ir::Node& node, const ir::Value* value) {
    const ir::Value* operand = overwritten(node);
    if (!operand) return false;
    ir::Value* base = ops::base_of(const_cast<ir::Value*>(operand));
    const auto place = storage_.places.find(base);
    if (!base->node || place == storage_.places.end() || outputs_.count(base) || written_.count(base)) return false;
    if (storage_.blocks[place->second.block].home != Home::kArena || outputs_.count(value)) return false;
    if (base->type.dtype != value->type.dtype || !same_layout(node, *operand) || feeds_island(value)) return false;
    if (!(operand->type.numel() == base->type.numel()) || !reads_once(unit, base)) return false;
    if (!read_only_before(base, unit.order, &unit)) return false;
    storage_.places[value] = place->second;
    storage_.in_place[&node] = true;
    return true;
  }

  // A value that only an overwriting node reads is made where that node's result will lie.
  bool lie_with_overwriter(const Unit& unit, const ir::Value* value) {
    const auto it = readers_.find(value);
    if (it == readers_.end() || it->second.size() != 1 || outputs_.count(value) || written_.count(value)) return false;
    const Unit& reader = *units_[*it->second.begin()];
    if (reader.loop || reader.order <= unit.order) return false;
    const ir::Node& node = *reader.nodes[0];
    const ir::Value* operand = overwritten(node);
    if (!operand || ops::base_of(const_cast<ir::Value*>(operand)) != value || !reads_once(reader, value)) return false;
    if (!same_layout(node, *operand) || !(operand->type.numel() == value->type.numel())) return false;
    if (storage_.places.count(node.out())) return false;  // in memory that still holds something else
    place_results(reader, node);
    storage_.places[value] = storage_.places.at(node.out());
    storage_.in_place[&node] = true;
    return true;
  }

  bool feeds_island(const ir::Value* base) const {
    const auto it = readers_.find(base);
    if (it == readers_.end()) return false;
    return std::any_of(it->second.begin(), it->second.end(),
                       [&](int order) { return units_[order]->nodes[0]->op == "island"; });
  }

  void find_lifetimes() {
    const int end = static_cast<int>(units_.size());
    auto touch = [&](const ir::Value* base, int order) {
      const auto it = storage_.places.find(base);
      if (it == storage_.places.end()) return;
      Block& block = storage_.blocks[it->second.block];
      block.first = std::min(block.first, order);
      block.last = std::max(block.last, order);
    };
    for (const auto& [node, unit] : unit_of_)
      for (const auto& output : node->outputs) touch(output.get(), unit->order);
    for (const auto& [base, orders] : readers_)
      for (const int order : orders) touch(base, order);
    for (const ir::Value* base : outputs_) touch(base, end);
    for (const ir::Write& write : storage_.copies) touch(ops::base_of(write.value), end);
  }

  const ir::Graph& graph_;
  const std::vector<std::unique_ptr<Unit>>& units_;
  Storage storage_;
  std::unordered_map<const ir::Node*, Unit*> unit_of_;
  std::unordered_map<const ir::Value*, std::set<int>> readers_;     // base -> units
  std::unordered_map<const Unit*, std::vector<ir::Value*>> reads_;  // unit -> operands from outside
  std::set<const ir::Value*> outputs_, written_;
};

}  // namespace

Storage assign_storage(const ir::Graph& graph, const std::vector<std::unique_ptr<Unit>>& units) {
  return Assigner(graph, units).run();
}

}  // namespace graphex::compile
