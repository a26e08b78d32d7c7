// Columns: the operands are contiguous along the last outer dimension, so a block of rows is reduced side by side: its
// accumulators lie in an array, the reduced dimensions are walked outside, the block's rows inside.
#include "graphex/codegen/loop_shapes.h"

namespace graphex::codegen {
namespace {

class ColumnsEmitter {
 public:
  ColumnsEmitter(const LoopSpec& spec, const LoopPlan& plan, LoopFrame& frame)
      : spec_(spec),
        plan_(plan),
        frame_(frame),
        b_(frame.builder()),
        values_(spec, frame.module(), b_, frame.arguments()) {
    for (const int instr : plan.reductions[0]) {
      Slot slot{Reduction(spec, instr, values_, b_), nullptr, nullptr};
      slot.totals = frame_.scratch(slot.reduction.total_type(), kColumnBlock);
      slot.sums = slot.reduction.blocked() ? frame_.scratch(slot.reduction.accumulator_type(), kColumnBlock) : nullptr;
      slots_.push_back(slot);
    }
    for (int i = 0; i < static_cast<int>(spec.instrs.size()); ++i)
      if (plan.stage[i] == 0 && !plan.full[i] && spec.instrs[i].op != LoopOp::kStore) row_values_.push_back(i);
  }

  void run() {
    llvm::Value* tile = rows_per_tile();
    llvm::Value* first = b_.CreateMul(frame_.begin(), tile);
    llvm::Value* last = frame_.smaller(b_.CreateMul(frame_.end(), tile), frame_.volume(0, plan_.outer));
    frame_.row_blocks(first, last, kColumnBlock,
                      [&](const LoopRow& row, llvm::Value* count) { emit_block(row, count); });
    frame_.finish([&] {
      llvm::Value* tile = rows_per_tile();
      llvm::Value* rows = frame_.volume(0, plan_.outer);
      return b_.CreateUDiv(b_.CreateAdd(rows, b_.CreateSub(tile, frame_.constant(1))), tile);
    });
  }

 private:
  struct Slot {
    Reduction reduction;
    llvm::Value *totals, *sums;  // an element per row of the block; sums only for two-level reductions
  };

  llvm::Value* rows_per_tile() {
    llvm::Value* length = frame_.larger(frame_.volume(plan_.outer, spec_.rank), frame_.constant(1));
    return frame_.larger(b_.CreateUDiv(frame_.constant(kTilePoints), length), frame_.constant(kColumnBlock));
  }

  // Runs body(column, group) for the columns of the block.
  void each_column(llvm::Value* count, llvm::function_ref<void(llvm::Value*, llvm::MDNode*)> body) {
    const LoopMark mark = LoopMark::make(b_.getContext(), 0);
    frame_.loop(frame_.constant(0), count, [&](llvm::Value* column) { body(column, mark.group); }, &mark);
  }

  llvm::Value* load(llvm::Value* array, llvm::Type* type, llvm::Value* column, llvm::MDNode* group) {
    auto* value = b_.CreateLoad(type, b_.CreateInBoundsGEP(type, array, column));
    value->setMetadata(llvm::LLVMContext::MD_access_group, group);
    return value;
  }
  void store(llvm::Value* array, llvm::Value* value, llvm::Value* column, llvm::MDNode* group) {
    auto* written = b_.CreateStore(value, b_.CreateInBoundsGEP(value->getType(), array, column));
    written->setMetadata(llvm::LLVMContext::MD_access_group, group);
  }

  // Calls body with the point of `column` beside the point `at`.
  void at_column(const LoopRow& at, llvm::Value* column, llvm::MDNode* group,
                 llvm::function_ref<void(const LoopPoint&, LoopValues&)> body) {
    const int side = plan_.outer - 1;
    const auto address = [&](int operand) { return frame_.step(operand, at.base[operand], side, column); };
    const auto index = [&](int dim) { return dim == side ? b_.CreateAdd(at.index[dim], column) : at.index[dim]; };
    LoopValues values(spec_.instrs.size());
    const LoopPoint point{address, index, group};
    values_.emit(row_values_, point, values);
    body(point, values);
  }

  void emit_block(const LoopRow& row, llvm::Value* count) {
    each_column(count, [&](llvm::Value* column, llvm::MDNode* group) {
      for (const Slot& slot : slots_) store(slot.totals, slot.reduction.total_start(), column, group);
    });
    nest(row, plan_.outer, count);
    each_column(count, [&](llvm::Value* column, llvm::MDNode* group) {
      at_column(row, column, group, [&](const LoopPoint& point, LoopValues& values) {
        for (const Slot& slot : slots_)
          values.value[slot.reduction.instr()] =
              slot.reduction.result(load(slot.totals, slot.reduction.total_type(), column, group));
        values_.emit(plan_.row_values[1], point, values);
        for (const int instr : plan_.row_stores) values_.store(instr, point, values);
      });
    });
  }

  LoopRow moved(const LoopRow& at, int dim, llvm::Value* i) {
    LoopRow inside = at;
    for (size_t o = 0; o < inside.base.size(); ++o)
      inside.base[o] = frame_.step(static_cast<int>(o), at.base[o], dim, i);
    inside.index[dim] = i;
    return inside;
  }

  void nest(const LoopRow& at, int dim, llvm::Value* count) {
    if (dim < spec_.rank - 1) {
      frame_.loop(frame_.constant(0), frame_.extent(dim),
                  [&](llvm::Value* i) { nest(moved(at, dim, i), dim + 1, count); });
      return;
    }
    llvm::Value* length = frame_.extent(dim);
    frame_.loop(frame_.constant(0), length, kSumBlock, {}, [&](llvm::Value* from, const IrValues&) {
      llvm::Value* to = frame_.smaller(b_.CreateAdd(from, frame_.constant(kSumBlock)), length);
      emit_sums(at, dim, from, to, count);
      return IrValues();
    });
  }

  void emit_sums(const LoopRow& at, int dim, llvm::Value* from, llvm::Value* to, llvm::Value* count) {
    each_column(count, [&](llvm::Value* column, llvm::MDNode* group) {
      for (const Slot& slot : slots_)
        if (slot.sums) store(slot.sums, slot.reduction.accumulator_start(), column, group);
    });
    frame_.loop(from, to, [&](llvm::Value* i) {
      const LoopRow inside = moved(at, dim, i);
      each_column(count, [&](llvm::Value* column, llvm::MDNode* group) { emit_point(inside, column, group); });
    });
    each_column(count, [&](llvm::Value* column, llvm::MDNode* group) {
      for (const Slot& slot : slots_) {
        if (!slot.sums) continue;
        llvm::Value* total = load(slot.totals, slot.reduction.total_type(), column, group);
        llvm::Value* sum = load(slot.sums, slot.reduction.accumulator_type(), column, group);
        store(slot.totals, slot.reduction.add_block(total, sum), column, group);
      }
    });
  }

  void emit_point(const LoopRow& at, llvm::Value* column, llvm::MDNode* group) {
    at_column(at, column, group, [&](const LoopPoint& point, LoopValues& values) {
      values_.emit(plan_.pass_values[0], point, values);
      for (const Slot& slot : slots_) {
        llvm::Value* array = slot.sums ? slot.sums : slot.totals;
        llvm::Value* before = load(array, slot.reduction.accumulator_type(), column, group);
        llvm::Value* arg = values.value[spec_.instrs[slot.reduction.instr()].args[0]];
        store(array, slot.reduction.accumulate(before, arg), column, group);
      }
    });
  }

  const LoopSpec& spec_;
  const LoopPlan& plan_;
  LoopFrame& frame_;
  llvm::IRBuilder<>& b_;
  ValueEmitter values_;
  std::vector<Slot> slots_;
  std::vector<int> row_values_;
};

}  // namespace

void emit_columns(const LoopSpec& spec, const LoopPlan& plan, LoopFrame& frame) {
  ColumnsEmitter(spec, plan, frame).run();
}

}  // namespace graphex::codegen
