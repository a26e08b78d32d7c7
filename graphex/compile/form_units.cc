// Greedy fusion in graph order: each fusable node joins the units that made its operands if one loop can hold them all,
// else it starts a unit. Joining makes no cycle between units.
#include <algorithm>
#include <set>

#include "graphex/compile/unit.h"
#include "graphex/ops/checks.h"

namespace graphex::compile {
namespace {
constexpr size_t kMaxNodes = 400;    // compile time is linear in nodes; registers spill long before
constexpr size_t kMaxOperands = 24;  // of a launch; more streams than that don't prefetch well

using ops::OpKind;

class Former {
 public:
  Former(ir::Graph& graph, bool fuse) : graph_(graph), fuse_(fuse) {}

  std::vector<std::unique_ptr<Unit>> run() {
    graph_.renumber();
    find_inline();
    for (auto& node : graph_.nodes)
      if (!inline_.count(node.get()) && node->op != "view") add(node.get());
    materialise_inline();
    find_stores();
    return schedule();
  }

 private:
  void find_inline() {
    for (auto& node : graph_.nodes) {
      const OpKind kind = ops::op_of(*node).kind;
      const bool all_inline = std::all_of(node->inputs.begin(), node->inputs.end(),
                                          [&](const ir::Value* v) { return v->node && inline_.count(v->node); });
      const bool plain = kind == OpKind::kScalar || kind == OpKind::kCast || kind == OpKind::kCopy;
      const bool renaming = kind == OpKind::kView && all_inline &&
                            map_through_view(*node->inputs[0], *node->out(), DimMap(node->out()->type.rank(), -1));
      if (kind == OpKind::kSource || (plain && all_inline) || renaming) inline_.insert(node.get());
    }
  }

  // Inline values that something other than a loop reads need memory after all.
  void materialise_inline() {
    std::set<ir::Node*> needed;
    auto need = [&](ir::Value* value) {
      ir::Value* base = ops::base_of(value);
      if (base->node && inline_.count(base->node)) needed.insert(base->node);
    };
    for (auto& node : graph_.nodes) {
      if (node->op == "view" || inline_.count(node.get())) continue;
      const bool loop = unit_of_.at(node.get())->loop;
      for (ir::Value* operand : node->inputs)
        if (!loop || !(operand->node && inline_.count(operand->node))) need(operand);
    }
    for (ir::Value* output : graph_.outputs) need(output);
    for (const ir::Write& write : graph_.writes) need(write.value);
    for (ir::Node* node : needed) start_loop(node);
  }

  void add(ir::Node* node) {
    const OpKind kind = ops::op_of(*node).kind;
    if (kind == OpKind::kKernel || kind == OpKind::kIsland) return start_single(node);
    const std::vector<Unit*> makers = fuse_ ? loop_makers(*node) : std::vector<Unit*>();
    for (Unit* unit : makers)
      if (try_join(*unit, node)) {
        for (Unit* other : makers)
          if (other != unit) try_absorb(*unit, *other);
        return;
      }
    start_loop(node);
  }

  // Loop units that made an operand (through views), latest first.
  std::vector<Unit*> loop_makers(const ir::Node& node) const {
    std::vector<Unit*> units;
    for (ir::Value* operand : node.inputs) {
      const ir::Value* base = ops::base_of(operand);
      const auto it = base->node ? unit_of_.find(base->node) : unit_of_.end();
      if (it == unit_of_.end() || !it->second->loop) continue;
      if (std::find(units.begin(), units.end(), it->second) == units.end()) units.push_back(it->second);
    }
    std::sort(units.begin(), units.end(),
              [](const Unit* a, const Unit* b) { return a->nodes.back()->order > b->nodes.back()->order; });
    return units;
  }

  Unit* new_unit() {
    units_.push_back(std::make_unique<Unit>());
    return units_.back().get();
  }

  void start_single(ir::Node* node) {
    Unit* unit = new_unit();
    unit->nodes = {node};
    unit_of_[node] = unit;
  }

  void start_loop(ir::Node* node) {
    Unit* unit = new_unit();
    unit->loop = true;
    const bool reduction = ops::op_of(*node).kind == OpKind::kReduction;
    unit->space.sizes = reduction ? node->inputs[0]->type.shape : node->out()->type.shape;
    unit->space.reduced.assign(unit->space.sizes.size(), false);
    DimMap map = identity(unit->space, reduction ? *node->inputs[0] : *node->out());
    if (reduction) {
      for (const int dim : ops::reduced_dims(*node)) unit->space.reduced[dim] = !unit->space.sizes[dim].is(1);
      map = result_of_reduction(*node, map);
    }
    take(*unit, node, map);
  }

  void take(Unit& unit, ir::Node* node, DimMap map) {
    unit.nodes.insert(std::upper_bound(unit.nodes.begin(), unit.nodes.end(), node,
                                       [](const ir::Node* a, const ir::Node* b) { return a->order < b->order; }),
                      node);
    unit.maps[node->out()] = std::move(map);
    unit_of_[node] = &unit;
  }

  static DimMap identity(const Space& space, const ir::Value& value) {
    DimMap map(value.type.rank(), -1);
    const int shift = static_cast<int>(space.sizes.size()) - value.type.rank();
    for (int d = 0; d < value.type.rank(); ++d)
      if (!value.type.shape[d].is(1)) map[d] = d + shift;
    return map;
  }

  static DimMap result_of_reduction(const ir::Node& node, const DimMap& operand_map) {
    const std::vector<int> dims = ops::reduced_dims(node);
    DimMap map;
    for (int d = 0; d < static_cast<int>(operand_map.size()); ++d) {
      const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
      if (!reduced) map.push_back(operand_map[d]);
      if (reduced && node.flag("keepdim")) map.push_back(-1);
    }
    return map;
  }

  bool fits(const Space& space, const ir::Value& value, const DimMap& map) const {
    for (int d = 0; d < value.type.rank(); ++d) {
      if (value.type.shape[d].is(1)) continue;
      if (map[d] < 0 || map[d] >= static_cast<int>(space.sizes.size())) return false;
      if (!(space.sizes[map[d]] == value.type.shape[d])) return false;
    }
    return true;
  }

  // One element per point of the space, or per point of the dimensions that aren't reduced. Anything between would be
  // stored many times, and not at all if one of the other dimensions is empty.
  static bool is_full_or_row(const Space& space, const DimMap& map) {
    bool full = true, row = true;
    for (size_t d = 0; d < space.sizes.size(); ++d) {
      if (space.sizes[d].is(1)) continue;
      const bool covered = std::find(map.begin(), map.end(), static_cast<int>(d)) != map.end();
      full = full && covered;
      row = row && covered == !space.reduced[d];
    }
    return full || row;
  }

  // The map that `node`'s result would have in the unit's space; nullopt if it has no place there.
  std::optional<DimMap> place_in(const Unit& unit, const ir::Node& node) const {
    if (ops::op_of(node).kind == OpKind::kReduction) return place_reduction(unit, node);
    const ir::Value& result = *node.out();
    std::vector<DimMap> candidates;
    if (result.type.rank() <= static_cast<int>(unit.space.sizes.size()))
      candidates.push_back(identity(unit.space, result));
    for (const ir::Value* operand : node.inputs) {
      const auto map = map_in(unit, operand);
      if (map && map->size() == result.type.shape.size()) candidates.push_back(*map);
    }
    for (const DimMap& map : candidates)
      if (fits(unit.space, result, map) && is_full_or_row(unit.space, map) && operands_agree(unit, node, map))
        return map;
    return std::nullopt;
  }

  std::optional<DimMap> place_reduction(const Unit& unit, const ir::Node& node) const {
    const auto operand_map = map_in(unit, node.inputs[0]);
    if (!operand_map) return std::nullopt;
    std::vector<bool> reduced(unit.space.sizes.size(), false);
    for (const int dim : ops::reduced_dims(node)) {
      if (node.inputs[0]->type.shape[dim].is(1)) continue;
      if ((*operand_map)[dim] < 0) return std::nullopt;
      reduced[(*operand_map)[dim]] = true;
    }
    if (unit.space.has_reduction() && reduced != unit.space.reduced) return std::nullopt;
    // Every dimension of the space must be either the operand's own or of size 1, else elements would count twice.
    for (size_t d = 0; d < unit.space.sizes.size(); ++d)
      if (!unit.space.sizes[d].is(1) &&
          std::find(operand_map->begin(), operand_map->end(), static_cast<int>(d)) == operand_map->end())
        return std::nullopt;
    return result_of_reduction(node, *operand_map);
  }

  // The map of an operand made in the unit, perhaps seen through views; nullopt if it comes from outside.
  std::optional<DimMap> map_in(const Unit& unit, const ir::Value* operand) const {
    if (const auto it = unit.maps.find(operand); it != unit.maps.end()) return it->second;
    return std::nullopt;
  }

  // Whether each operand that the unit makes is used at the very point where it is made.
  bool operands_agree(const Unit& unit, const ir::Node& node, const DimMap& result_map) const {
    for (const ir::Value* operand : node.inputs) {
      DimMap map = map_of_operand(*operand, result_map);
      const ir::Value* value = operand;
      while (value->node && value->node->op == "view" && !unit.maps.count(value)) {
        const ir::Value* base = value->node->inputs[0];
        const auto through = map_through_view(*base, *value, map);
        if (!through) {
          // A view that rearranges: fine if its base is made elsewhere, since then it is a plain load.
          if (unit.maps.count(ops::base_of(const_cast<ir::Value*>(value)))) return false;
          break;
        }
        map = *through;
        value = base;
      }
      const auto it = unit.maps.find(value);
      if (it != unit.maps.end() && it->second != map) return false;
    }
    return true;
  }

  bool try_join(Unit& unit, ir::Node* node) {
    if (unit.nodes.size() >= kMaxNodes || !same_scope(*unit.nodes[0], *node)) return false;
    const auto map = place_in(unit, *node);
    if (!map || makes_cycle({&unit}, node)) return false;
    if (operand_count(unit, nullptr, node) > kMaxOperands) return false;
    if (ops::op_of(*node).kind == OpKind::kReduction && !unit.space.has_reduction())
      for (const int dim : ops::reduced_dims(*node)) {
        const int along = unit.maps.at(node->inputs[0])[dim];
        if (along >= 0) unit.space.reduced[along] = true;
      }
    take(unit, node, *map);
    return true;
  }

  // Merges `other` into `unit` when both walk the same space.
  void try_absorb(Unit& unit, Unit& other) {
    if (&unit == &other || other.nodes.empty() || !(unit.space.sizes == other.space.sizes)) return;
    if (unit.nodes.size() + other.nodes.size() > kMaxNodes || !same_scope(*unit.nodes[0], *other.nodes[0])) return;
    if (unit.space.has_reduction() && other.space.has_reduction() && unit.space.reduced != other.space.reduced) return;
    if (operand_count(unit, &other, nullptr) > kMaxOperands || makes_cycle({&unit, &other}, nullptr)) return;
    Unit merged = unit;
    for (const auto& [value, map] : other.maps) merged.maps[value] = map;
    for (const auto* side : {&unit.nodes, &other.nodes})
      for (const ir::Node* node : *side)
        if (!agrees_in(merged, *node)) return;
    for (size_t d = 0; d < unit.space.reduced.size(); ++d)
      unit.space.reduced[d] = unit.space.reduced[d] || other.space.reduced[d];
    for (ir::Node* node : other.nodes) take(unit, node, other.maps.at(node->out()));
    other.nodes.clear();
  }

  // Whether a member reads what the unit makes at the very point where it is made.
  bool agrees_in(const Unit& unit, const ir::Node& node) const {
    if (ops::op_of(node).kind != OpKind::kReduction) return operands_agree(unit, node, unit.maps.at(node.out()));
    const ir::Value* operand = node.inputs[0];
    if (unit.maps.count(operand)) return result_of_reduction(node, unit.maps.at(operand)) == unit.maps.at(node.out());
    return !unit.maps.count(ops::base_of(const_cast<ir::Value*>(operand)));
  }

  // Distinct outside operands of the units and the node together.
  size_t operand_count(const Unit& unit, const Unit* other, const ir::Node* node) const {
    std::set<const ir::Value*> loads;
    std::set<const ir::Node*> inside(unit.nodes.begin(), unit.nodes.end());
    if (other) inside.insert(other->nodes.begin(), other->nodes.end());
    if (node) inside.insert(node);
    for (const ir::Node* each : inside)
      for (const ir::Value* operand : each->inputs)
        if (!(operand->node && (inside.count(operand->node) || inline_.count(operand->node)))) loads.insert(operand);
    return loads.size();
  }

  // Whether some unit outside depends on the given units and is needed by them (or by `node`).
  bool makes_cycle(std::set<const Unit*> inside, const ir::Node* node) const {
    int first = node ? node->order : INT32_MAX;
    for (const Unit* unit : inside) first = std::min(first, unit->nodes.front()->order);
    std::vector<const ir::Node*> stack;
    std::set<const ir::Node*> seen;
    auto push = [&](const ir::Node* user) {
      for (const ir::Value* operand : user->inputs)
        if (operand->node && operand->node->order > first && seen.insert(operand->node).second)
          stack.push_back(operand->node);
    };
    if (node) push(node);
    for (const Unit* unit : inside)
      for (const ir::Node* member : unit->nodes) push(member);
    std::set<const Unit*> outside;
    while (!stack.empty()) {
      const ir::Node* at = stack.back();
      stack.pop_back();
      const auto it = unit_of_.find(at);
      if (it == unit_of_.end()) {  // a view or an inline node
        push(at);
        continue;
      }
      if (inside.count(it->second)) continue;
      if (!outside.insert(it->second).second) continue;
      if (reaches(*it->second, inside, first)) return true;
    }
    return false;
  }

  // Whether `unit` needs a result of `inside`.
  bool reaches(const Unit& unit, const std::set<const Unit*>& inside, int first) const {
    std::vector<const ir::Node*> stack;
    std::set<const ir::Node*> seen;
    std::set<const Unit*> entered{&unit};
    auto push = [&](const ir::Node* user) {
      for (const ir::Value* operand : user->inputs)
        if (operand->node && operand->node->order >= first && seen.insert(operand->node).second)
          stack.push_back(operand->node);
    };
    for (const ir::Node* member : unit.nodes) push(member);
    while (!stack.empty()) {
      const ir::Node* at = stack.back();
      stack.pop_back();
      const auto it = unit_of_.find(at);
      if (it == unit_of_.end()) {
        push(at);
        continue;
      }
      if (inside.count(it->second)) return true;
      if (!entered.insert(it->second).second) continue;
      for (const ir::Node* member : it->second->nodes) push(member);
    }
    return false;
  }

  void find_stores() {
    auto store = [&](ir::Value* value, const Unit* user) {
      ir::Value* base = ops::base_of(value);
      const auto it = base->node ? unit_of_.find(base->node) : unit_of_.end();
      if (it == unit_of_.end() || !it->second->loop || it->second == user) return;
      auto& stores = it->second->stores;
      if (std::find(stores.begin(), stores.end(), base) == stores.end()) stores.push_back(base);
    };
    for (auto& node : graph_.nodes) {
      const auto it = unit_of_.find(node.get());
      if (it == unit_of_.end()) continue;
      for (ir::Value* operand : node->inputs)
        if (!(operand->node && inline_.count(operand->node) && it->second->loop)) store(operand, it->second);
    }
    for (ir::Value* output : graph_.outputs) store(output, nullptr);
    for (const ir::Write& write : graph_.writes) store(write.value, nullptr);
  }

  // Units in data-flow order, each as near to its last node's place as possible; islands keep the graph's order.
  std::vector<std::unique_ptr<Unit>> schedule() {
    std::erase_if(units_, [](const auto& unit) { return unit->nodes.empty(); });
    std::sort(units_.begin(), units_.end(),
              [](const auto& a, const auto& b) { return a->nodes.back()->order < b->nodes.back()->order; });
    std::vector<std::unique_ptr<Unit>> ordered;
    std::unordered_map<const Unit*, size_t> index;
    for (size_t i = 0; i < units_.size(); ++i) index[units_[i].get()] = i;
    std::vector<int> state(units_.size(), 0);
    for (size_t i = 0; i < units_.size(); ++i) visit(i, index, state, ordered);
    for (size_t i = 0; i < ordered.size(); ++i) ordered[i]->order = static_cast<int>(i);
    return ordered;
  }

  void visit(size_t i, const std::unordered_map<const Unit*, size_t>& index, std::vector<int>& state,
             std::vector<std::unique_ptr<Unit>>& ordered) {
    if (state[i] == 2) return;
    GX_ASSERT(state[i] == 0);  // else a cycle between units
    state[i] = 1;
    std::vector<size_t> needs;
    std::set<const ir::Node*> seen;
    std::vector<const ir::Node*> stack(units_[i]->nodes.begin(), units_[i]->nodes.end());
    while (!stack.empty()) {
      const ir::Node* at = stack.back();
      stack.pop_back();
      for (const ir::Value* operand : at->inputs) {
        if (!operand->node || !seen.insert(operand->node).second) continue;
        const auto it = unit_of_.find(operand->node);
        if (it == unit_of_.end() || (units_[i]->loop && inline_.count(operand->node)))
          stack.push_back(operand->node);
        else if (it->second != units_[i].get())
          needs.push_back(index.at(it->second));
      }
    }
    std::sort(needs.begin(), needs.end());
    for (const size_t need : needs) visit(need, index, state, ordered);
    state[i] = 2;
    ordered.push_back(std::move(units_[i]));
  }

  ir::Graph& graph_;
  bool fuse_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::unordered_map<const ir::Node*, Unit*> unit_of_;
  std::set<const ir::Node*> inline_;
};

}  // namespace
std::vector<std::unique_ptr<Unit>> form_units(ir::Graph& graph, bool fuse) { return Former(graph, fuse).run(); }

}  // namespace graphex::compile
