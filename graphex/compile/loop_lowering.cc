#include "graphex/compile/loop_lowering.h"

#include <algorithm>
#include <bit>
#include <map>

#include "graphex/ops/checks.h"

namespace graphex::compile {
namespace {

using codegen::LoopInstr;
using codegen::LoopOp;
using ops::OpKind;

// Values that live in registers in a compute type: f32 for the reduced floats.
DType register_type(DType dtype) { return ops::compute_type(dtype); }

class LoopBuilder {
 public:
  LoopBuilder(const Unit& unit, const LoopOptions& options) : unit_(unit), options_(options) {
    spec_->rank = static_cast<int>(unit.space.sizes.size());
  }

  LoweredLoop run() {
    for (const ir::Value* store : unit_.stores) {
      const int value = emit(store, unit_.maps.at(store));
      add_store(const_cast<ir::Value*>(store), value, unit_.maps.at(store));
    }
    finish_dimensions();
    result_.spec = std::move(spec_);
    return std::move(result_);
  }

 private:
  int append(LoopInstr instr) {
    spec_->instrs.push_back(std::move(instr));
    return static_cast<int>(spec_->instrs.size()) - 1;
  }

  // The instruction that holds `value` at the point that `map` says.
  int emit(const ir::Value* value, const DimMap& map) {
    const auto key = std::make_pair(value, map);
    if (const auto it = emitted_.find(key); it != emitted_.end()) return it->second;
    const int id = emit_new(value, map);
    emitted_[key] = id;
    return id;
  }

  int emit_new(const ir::Value* value, const DimMap& map) {
    if (!value->node) return emit_load(value, map);
    const ir::Node& node = *value->node;
    const OpKind kind = ops::op_of(node).kind;
    if (kind == OpKind::kView) {
      const ir::Value* base = node.inputs[0];
      if (unit_.maps.count(ops::base_of(const_cast<ir::Value*>(value))) || inline_value(value))
        return emit(base, *map_through_view(*base, *value, map));
      return emit_load(value, map);
    }
    if (!unit_.maps.count(value) && !inline_value(value)) return emit_load(value, map);
    switch (kind) {
      case OpKind::kSource:
        return node.op == "full" ? emit_full(node) : emit_iota(node, map);
      case OpKind::kReduction:
        return emit_reduction(node, map);
      case OpKind::kCopy:
        return emit(node.inputs[0], map_of_operand(*node.inputs[0], map));
      case OpKind::kCast:
        return emit_cast(node, map);
      default:
        return emit_scalar(node, map);
    }
  }

  bool inline_value(const ir::Value* value) {
    const auto it = inline_.find(value);
    if (it != inline_.end()) return it->second;
    return inline_[value] = is_inline(value);
  }

  std::vector<ir::Expr> strides_along(const ir::Type& type, const DimMap& map) const {
    std::vector<ir::Expr> strides(unit_.space.sizes.size(), ir::Expr(0));
    for (int d = 0; d < type.rank(); ++d)
      if (map[d] >= 0 && !type.shape[d].is(1)) strides[map[d]] = strides[map[d]] + type.strides[d];
    return strides;
  }

  int emit_load(const ir::Value* value, const DimMap& map) {
    const int operand = static_cast<int>(result_.operands.size());
    result_.operands.push_back({const_cast<ir::Value*>(value), strides_along(value->type, map), false});
    return append({LoopOp::kLoad, value->type.dtype, "", {}, operand});
  }

  void add_store(ir::Value* value, int id, const DimMap& map) {
    const int operand = static_cast<int>(result_.operands.size());
    result_.operands.push_back({value, strides_along(value->type, map), true});
    append({LoopOp::kStore, value->type.dtype, "", {id}, operand});
  }

  int constant(DType dtype, double number) {
    const int64_t bits = is_float(dtype) ? std::bit_cast<int64_t>(number) : static_cast<int64_t>(number);
    return append({LoopOp::kConstant, dtype, "", {}, 0, bits});
  }

  int emit_full(const ir::Node& node) {
    const DType dtype = node.out()->type.dtype;
    const ir::Attr& attr = node.attrs.at("value");
    if (const bool* flag = std::get_if<bool>(&attr)) return constant(dtype, *flag ? 1 : 0);
    if (const double* number = std::get_if<double>(&attr)) return constant(dtype, *number);
    const ir::Expr& expr = node.expr("value");
    if (!expr.is_constant()) return emit_size(expr, dtype);
    if (!is_float(dtype))
      return append(
          {LoopOp::kConstant, dtype, "", {}, 0, dtype == DType::kBool ? expr.constant() != 0 : expr.constant()});
    return constant(dtype, static_cast<double>(expr.constant()));
  }

  int emit_size(const ir::Expr& expr, DType dtype) {
    const DType wide = is_float(dtype) ? DType::kF64 : DType::kI64;
    result_.scalars.emplace_back(expr, is_float(dtype));
    const int id = append({LoopOp::kArgument, wide, "", {}, spec_->arguments++});
    return dtype == wide ? id : append({LoopOp::kCast, dtype, "", {id}});
  }

  int emit_iota(const ir::Node& node, const DimMap& map) {
    const DType dtype = node.out()->type.dtype;
    int id = size_value(node.expr("start"));
    if (map[0] >= 0) {
      iota_dims_.push_back(map[0]);
      int index = append({LoopOp::kIota, DType::kI64, "", {}, map[0]});
      if (!node.expr("step").is(1))
        index = append({LoopOp::kScalar, DType::kI64, "mul", {index, size_value(node.expr("step"))}});
      id = append({LoopOp::kScalar, DType::kI64, "add", {index, id}});
    }
    return dtype == DType::kI64 ? id : append({LoopOp::kCast, dtype, "", {id}});
  }

  int size_value(const ir::Expr& expr) {
    if (expr.is_constant()) return append({LoopOp::kConstant, DType::kI64, "", {}, 0, expr.constant()});
    return emit_size(expr, DType::kI64);
  }

  int emit_reduction(const ir::Node& node, const DimMap& map) {
    static const std::map<std::string, std::string> kNames = {{"amax", "max"},  {"amin", "min"}, {"sum", "sum"},
                                                              {"prod", "prod"}, {"any", "any"},  {"all", "all"}};
    const ir::Value* operand = node.inputs[0];
    const DType dtype = node.out()->type.dtype;
    int id = emit(operand, operand_map_of(node, map));
    const bool logical = node.op == "any" || node.op == "all";
    const DType from = operand->type.dtype;
    if (logical && from != DType::kBool)
      id = append({LoopOp::kScalar, DType::kBool, "ne", {id, constant(register_type(from), 0)}});
    else if (!logical && register_type(from) != register_type(dtype))
      id = append({LoopOp::kCast, dtype, "", {id}});
    const DType wide = logical ? DType::kBool : register_type(dtype);
    const int sum = reduces_nothing(node) ? id : append({LoopOp::kReduce, wide, kNames.at(node.op), {id}});
    return logical && dtype != DType::kBool ? append({LoopOp::kCast, dtype, "", {sum}}) : round(sum, dtype);
  }

  // Over dimensions of size 1 a reduction is its operand.
  static bool reduces_nothing(const ir::Node& reduction) {
    const auto& shape = reduction.inputs[0]->type.shape;
    const std::vector<int> dims = ops::reduced_dims(reduction);
    return std::all_of(dims.begin(), dims.end(), [&](int dim) { return shape[dim].is(1); });
  }

  DimMap operand_map_of(const ir::Node& reduction, const DimMap& map) const {
    const ir::Value* operand = reduction.inputs[0];
    if (const auto it = unit_.maps.find(operand); it != unit_.maps.end()) return it->second;
    DimMap hint(operand->type.rank(), -1);
    for (int d = 0; d < operand->type.rank(); ++d)
      if (!operand->type.shape[d].is(1)) hint[d] = d;
    return map_of_reduced(reduction, map, hint);
  }

  int emit_cast(const ir::Node& node, const DimMap& map) {
    const int id = emit(node.inputs[0], map_of_operand(*node.inputs[0], map));
    const DType from = node.inputs[0]->type.dtype, to = node.out()->type.dtype;
    // Widening a reduced float changes nothing: it lives in an f32 register already.
    if (is_reduced_float(from) && to == DType::kF32) return id;
    return append({LoopOp::kCast, to, "", {id}});
  }

  int emit_scalar(const ir::Node& node, const DimMap& map) {
    std::vector<int> args;
    for (const ir::Value* operand : node.inputs) args.push_back(emit(operand, map_of_operand(*operand, map)));
    const DType dtype = node.out()->type.dtype;
    return round(append({LoopOp::kScalar, register_type(dtype), node.op, std::move(args)}), dtype);
  }

  int round(int id, DType dtype) {
    if (!is_reduced_float(dtype) || !options_.emulate_precision_casts) return id;
    return append({LoopOp::kCast, dtype, "", {id}});
  }

  // Orders the dimensions (reduced last), drops those of size 1, joins neighbours that every operand walks as one, and
  // fills in what the kernel gets as arguments.
  void finish_dimensions() {
    std::vector<int> order;
    for (const bool reduced : {false, true})
      for (size_t d = 0; d < unit_.space.sizes.size(); ++d)
        if (unit_.space.reduced[d] == reduced && !unit_.space.sizes[d].is(1)) order.push_back(static_cast<int>(d));
    std::vector<std::vector<int>> groups;  // each a run of dimensions to be one, outermost first
    for (const int dim : order) {
      if (!groups.empty() && can_join(groups.back().back(), dim))
        groups.back().push_back(dim);
      else
        groups.push_back({dim});
    }
    std::vector<int> position(unit_.space.sizes.size(), -1);
    spec_->reduced = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      ir::Expr extent(1);
      for (const int dim : groups[g]) {
        extent = extent * unit_.space.sizes[dim];
        position[dim] = static_cast<int>(g);
      }
      result_.sizes.push_back(extent);
      spec_->reduced += unit_.space.reduced[groups[g].back()];
    }
    spec_->rank = static_cast<int>(groups.size());
    for (LoopInstr& instr : spec_->instrs)
      if (instr.op == LoopOp::kIota) instr.index = position[instr.index];
    for (const LoopAccess& access : result_.operands) add_operand(access, groups);
  }

  bool can_join(int outer, int inner) const {
    if (unit_.space.reduced[outer] != unit_.space.reduced[inner]) return false;
    for (const int dim : iota_dims_)
      if (dim == outer || dim == inner) return false;
    return std::all_of(result_.operands.begin(), result_.operands.end(), [&](const LoopAccess& access) {
      return access.strides[outer] == access.strides[inner] * unit_.space.sizes[inner];
    });
  }

  void add_operand(const LoopAccess& access, const std::vector<std::vector<int>>& groups) {
    codegen::LoopOperand operand{access.value->type.dtype, access.written, {}};
    for (const auto& group : groups) {
      const ir::Expr& stride = access.strides[group.back()];
      operand.strides.push_back(stride.is(0)   ? codegen::StrideKind::kZero
                                : stride.is(1) ? codegen::StrideKind::kUnit
                                               : codegen::StrideKind::kArgument);
      if (operand.strides.back() == codegen::StrideKind::kArgument) result_.sizes.push_back(stride);
    }
    spec_->operands.push_back(std::move(operand));
  }

  const Unit& unit_;
  const LoopOptions& options_;
  std::shared_ptr<codegen::LoopSpec> spec_ = std::make_shared<codegen::LoopSpec>();
  LoweredLoop result_;
  std::map<std::pair<const ir::Value*, DimMap>, int> emitted_;
  std::map<const ir::Value*, bool> inline_;
  std::vector<int> iota_dims_;
};

}  // namespace

LoweredLoop lower_loop(const Unit& unit, const LoopOptions& options) { return LoopBuilder(unit, options).run(); }

LoweredLoop copy_loop(DType dtype, const std::vector<ir::Expr>& shape, const std::vector<ir::Expr>& from,
                      const std::vector<ir::Expr>& to) {
  ir::Graph graph;
  ir::Value* source = graph.add_input("from", ir::Type(dtype, shape, from));
  ir::Node* node = graph.add_node("copy", {source}, {ir::Type(dtype, shape, to)});
  Unit unit;
  unit.loop = true;
  unit.nodes = {node};
  unit.space = {shape, std::vector<bool>(shape.size(), false)};
  DimMap map(shape.size(), -1);
  for (size_t d = 0; d < shape.size(); ++d)
    if (!shape[d].is(1)) map[d] = static_cast<int>(d);
  unit.maps[node->out()] = map;
  unit.stores = {node->out()};
  LoweredLoop lowered = lower_loop(unit, {});
  for (LoopAccess& access : lowered.operands) access.value = nullptr;  // the caller knows where they lie
  return lowered;
}

}  // namespace graphex::compile
