#include "graphex/codegen/loop_plan.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace graphex::codegen {
namespace {

int row_dims(const LoopSpec& spec) { return spec.reduced > 0 ? spec.reduced : std::min(spec.rank, 1); }

bool is_full(const LoopSpec& spec, const LoopPlan& plan, const LoopInstr& instr) {
  switch (instr.op) {
    case LoopOp::kLoad:
      return varies(spec, instr.index);
    case LoopOp::kIota:
      return instr.index >= plan.outer;
    case LoopOp::kReduce:
      return false;
    case LoopOp::kStore:
      return spec.reduced == 0 ? spec.rank > 0 : varies(spec, instr.index) || plan.full[instr.args[0]];
    default:
      return std::any_of(instr.args.begin(), instr.args.end(), [&](int arg) { return plan.full[arg]; });
  }
}

// The full instructions that `roots` need, without what only `available` ones need.
std::vector<int> needed_full(const LoopSpec& spec, const LoopPlan& plan, const std::vector<int>& roots,
                             const std::vector<bool>& available) {
  std::vector<bool> needed(spec.instrs.size(), false);
  for (const int root : roots)
    for (const int arg : spec.instrs[root].args) needed[arg] = true;
  std::vector<int> result;
  for (int i = static_cast<int>(spec.instrs.size()) - 1; i >= 0; --i) {
    if (!needed[i] || !plan.full[i]) continue;
    result.push_back(i);
    if (available[i]) continue;
    for (const int arg : spec.instrs[i].args) needed[arg] = true;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

void find_stages(const LoopSpec& spec, LoopPlan& plan) {
  for (size_t i = 0; i < spec.instrs.size(); ++i) {
    const LoopInstr& instr = spec.instrs[i];
    plan.full.push_back(is_full(spec, plan, instr));
    int stage = 0;
    for (const int arg : instr.args) stage = std::max(stage, plan.stage[arg]);
    if (instr.op == LoopOp::kReduce) plan.passes = std::max(plan.passes, ++stage);
    plan.stage.push_back(stage);
    if (instr.op != LoopOp::kStore) continue;
    (plan.full.back() ? plan.full_stores : plan.row_stores).push_back(static_cast<int>(i));
    if (plan.full.back()) plan.passes = std::max(plan.passes, stage + 1);
  }
}

std::vector<int> roots_of(const LoopPlan& plan, int pass) {
  std::vector<int> roots = plan.reductions[pass];
  if (pass + 1 == plan.passes) roots.insert(roots.end(), plan.full_stores.begin(), plan.full_stores.end());
  return roots;
}

void fill_passes(const LoopSpec& spec, LoopPlan& plan) {
  plan.row_values.resize(plan.passes + 1);
  plan.reductions.resize(plan.passes);
  for (int i = 0; i < static_cast<int>(spec.instrs.size()); ++i) {
    const LoopOp op = spec.instrs[i].op;
    if (op == LoopOp::kReduce) plan.reductions[plan.stage[i] - 1].push_back(i);
    if (op != LoopOp::kReduce && op != LoopOp::kStore && !plan.full[i]) plan.row_values[plan.stage[i]].push_back(i);
  }
  plan.kept_here.resize(plan.passes);
  plan.taken_here.resize(plan.passes);
  const std::vector<bool> nothing(spec.instrs.size(), false);
  for (int pass = 0; pass < plan.passes; ++pass)
    plan.pass_values.push_back(needed_full(spec, plan, roots_of(plan, pass), nothing));
}

bool is_dear(const LoopInstr& instr) {
  static constexpr std::array<std::string_view, 25> kDear = {
      "acos",  "asin",         "atan",    "atan2", "cos",       "cosh", "erf",   "exp",   "exp2",
      "expm1", "floor_divide", "fmod",    "gelu",  "gelu_tanh", "log",  "log10", "log1p", "log2",
      "pow",   "remainder",    "sigmoid", "silu",  "sin",       "tan",  "tanh"};
  return instr.op == LoopOp::kScalar && is_float(instr.dtype) &&
         std::find(kDear.begin(), kDear.end(), instr.function) != kDear.end();
}

bool fits_columns(const LoopSpec& spec, const LoopPlan& plan) {
  if (spec.reduced == 0 || plan.outer == 0 || plan.passes != 1 || !plan.full_stores.empty()) return false;
  bool side_by_side = false;
  for (const int i : plan.pass_values[0]) {
    if (spec.instrs[i].op != LoopOp::kLoad) continue;
    const auto& strides = spec.operands[spec.instrs[i].index].strides;
    if (strides.back() == StrideKind::kUnit) return false;
    side_by_side |= strides[plan.outer - 1] == StrideKind::kUnit;
  }
  return side_by_side;
}

}  // namespace

bool varies(const LoopSpec& spec, int operand) {
  const auto& strides = spec.operands[operand].strides;
  return std::any_of(strides.end() - row_dims(spec), strides.end(),
                     [](StrideKind k) { return k != StrideKind::kZero; });
}

LoopPlan plan_loop(const LoopSpec& spec) {
  LoopPlan plan;
  plan.outer = spec.rank - row_dims(spec);
  find_stages(spec, plan);
  fill_passes(spec, plan);
  plan.shape = spec.reduced == 0          ? LoopShape::kPoints
               : fits_columns(spec, plan) ? LoopShape::kColumns
                                          : LoopShape::kRows;
  return plan;
}

LoopPlan keep_dear_values(const LoopSpec& spec, const LoopPlan& plan) {
  LoopPlan result = plan;
  std::vector<bool> available(spec.instrs.size(), false);
  std::vector<int> computed_in(spec.instrs.size(), -1);
  for (int pass = 0; pass < plan.passes; ++pass) {
    std::vector<int> values;
    for (const int i : needed_full(spec, plan, roots_of(plan, pass), available)) {
      if (!available[i]) {
        values.push_back(i);
        if (computed_in[i] < 0) computed_in[i] = pass;
        continue;
      }
      auto slot = std::find(result.kept.begin(), result.kept.end(), i);
      if (slot == result.kept.end()) {
        slot = result.kept.insert(slot, i);
        result.kept_here[computed_in[i]].push_back(static_cast<int>(slot - result.kept.begin()));
      }
      result.taken_here[pass].push_back(static_cast<int>(slot - result.kept.begin()));
    }
    result.pass_values[pass] = values;
    for (const int i : values) available[i] = is_dear(spec.instrs[i]);
  }
  return result;
}

}  // namespace graphex::codegen
