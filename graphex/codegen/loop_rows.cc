// Rows: each row's passes run over the reduced dimensions one after the other, while the row is in the cache.
#include "graphex/base/kernel_abi.h"
#include "graphex/codegen/loop_shapes.h"

namespace graphex::codegen {
namespace {

class RowsEmitter {
 public:
  RowsEmitter(const LoopSpec& spec, const LoopPlan& plan, LoopFrame& frame)
      : spec_(spec),
        plain_(plan),
        keeping_(spec.reduced == 1 ? keep_dear_values(spec, plan) : plan),
        frame_(frame),
        b_(frame.builder()),
        values_(spec, frame.module(), b_, frame.arguments()) {}

  void run() {
    llvm::Value* tile = rows_per_tile();
    llvm::Value* first = b_.CreateMul(frame_.begin(), tile);
    llvm::Value* last = frame_.smaller(b_.CreateMul(frame_.end(), tile), frame_.volume(0, plan_->outer));
    emit_all(first, last);
    frame_.finish([&] {
      llvm::Value* tile = rows_per_tile();
      llvm::Value* rows = frame_.volume(0, plan_->outer);
      return b_.CreateUDiv(b_.CreateAdd(rows, b_.CreateSub(tile, frame_.constant(1))), tile);
    });
  }

 private:
  llvm::Value* rows_per_tile() {
    llvm::Value* length = frame_.larger(frame_.volume(plan_->outer, spec_.rank), frame_.constant(1));
    return frame_.larger(b_.CreateUDiv(frame_.constant(kTilePoints), length), frame_.constant(1));
  }

  // Rows that fit the scratch keep dear values there; longer ones, a million points or so, compute them again.
  void emit_all(llvm::Value* first, llvm::Value* last) {
    const auto emit = [&](const LoopPlan& plan) {
      plan_ = &plan;
      frame_.rows(first, last, [&](const LoopRow& row) { emit_row(row); });
    };
    if (keeping_.kept.empty()) return emit(plain_);
    llvm::Value* fits = b_.CreateICmpSLE(frame_.extent(spec_.rank - 1), frame_.constant(slot_points()));
    llvm::Value* too_long = b_.CreateNot(fits);
    frame_.when(fits, [&] {
      scratch_ = frame_.worker_scratch();
      emit(keeping_);
    });
    frame_.when(too_long, [&] { emit(plain_); });
  }

  int64_t slot_points() const { return GX_SCRATCH_BYTES / 8 / static_cast<int64_t>(keeping_.kept.size()) / 64 * 64; }
  llvm::Value* slot_address(int slot, llvm::Value* i) {
    llvm::Value* start =
        b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), scratch_, static_cast<uint64_t>(slot * slot_points() * 8));
    return b_.CreateInBoundsGEP(values_.register_ir_type(kept_type(slot)), start, i);
  }
  DType kept_type(int slot) const { return spec_.instrs[plan_->kept[slot]].dtype; }

  void take_kept(llvm::Value* i, llvm::MDNode* group, LoopValues& values) {
    for (const int slot : plan_->taken_here[pass_]) {
      auto* load = b_.CreateLoad(values_.register_ir_type(kept_type(slot)), slot_address(slot, i));
      load->setMetadata(llvm::LLVMContext::MD_access_group, group);
      values.value[plan_->kept[slot]] = load;
    }
  }
  void keep(llvm::Value* i, llvm::MDNode* group, const LoopValues& values) {
    for (const int slot : plan_->kept_here[pass_]) {
      auto* store = b_.CreateStore(values.value[plan_->kept[slot]], slot_address(slot, i));
      store->setMetadata(llvm::LLVMContext::MD_access_group, group);
    }
  }

  void emit_row(const LoopRow& row) {
    LoopValues values(spec_.instrs.size());
    const auto base = [&](int operand) { return row.base[operand]; };
    const auto index = [&](int dim) { return row.index[dim]; };
    const LoopPoint start{base, index};
    values_.emit(plan_->row_values[0], start, values);
    for (pass_ = 0; pass_ < plan_->passes; ++pass_) {
      emit_pass(row, values);
      values_.emit(plan_->row_values[pass_ + 1], start, values);
    }
    for (const int store : plan_->row_stores) values_.store(store, start, values);
  }

  void emit_pass(const LoopRow& row, LoopValues& values) {
    reductions_.clear();
    IrValues totals;
    for (const int instr : plan_->reductions[pass_]) {
      reductions_.emplace_back(spec_, instr, values_, b_);
      totals.push_back(reductions_.back().total_start());
    }
    totals = nest(row, plan_->outer, totals, values);
    for (size_t k = 0; k < reductions_.size(); ++k)
      values.value[reductions_[k].instr()] = reductions_[k].result(totals[k]);
  }

  // The loops from dimension `dim` inwards.
  IrValues nest(const LoopRow& at, int dim, const IrValues& totals, const LoopValues& values) {
    if (dim == spec_.rank - 1) return innermost(at, totals, values);
    return frame_.loop(frame_.constant(0), frame_.extent(dim), 1, totals, [&](llvm::Value* i, const IrValues& carried) {
      LoopRow inside = at;
      for (size_t o = 0; o < inside.base.size(); ++o)
        inside.base[o] = frame_.step(static_cast<int>(o), at.base[o], dim, i);
      inside.index[dim] = i;
      return nest(inside, dim + 1, carried, values);
    });
  }

  IrValues innermost(const LoopRow& at, const IrValues& totals, const LoopValues& values) {
    llvm::Value* length = frame_.extent(spec_.rank - 1);
    bool blocked = false;
    for (const Reduction& reduction : reductions_) blocked |= reduction.blocked();
    if (!blocked) return points(at, frame_.constant(0), length, totals, values);
    return frame_.loop(frame_.constant(0), length, kSumBlock, totals, [&](llvm::Value* from, const IrValues& carried) {
      IrValues start, next;
      for (size_t k = 0; k < reductions_.size(); ++k)
        start.push_back(reductions_[k].blocked() ? reductions_[k].accumulator_start() : carried[k]);
      llvm::Value* to = frame_.smaller(b_.CreateAdd(from, frame_.constant(kSumBlock)), length);
      const IrValues sums = points(at, from, to, start, values);
      for (size_t k = 0; k < reductions_.size(); ++k)
        next.push_back(reductions_[k].blocked() ? reductions_[k].add_block(carried[k], sums[k]) : sums[k]);
      return next;
    });
  }

  IrValues points(const LoopRow& at, llvm::Value* from, llvm::Value* to, const IrValues& start,
                  const LoopValues& outer) {
    const LoopMark mark = LoopMark::make(b_.getContext(), reductions_.empty() ? 1 : 0);
    const int inner = spec_.rank - 1;
    return frame_.loop(
        from, to, 1, start,
        [&](llvm::Value* i, const IrValues& carried) {
          LoopValues values = outer;
          const auto address = [&](int operand) { return frame_.step(operand, at.base[operand], inner, i); };
          const auto index = [&](int dim) { return dim == inner ? i : at.index[dim]; };
          const LoopPoint point{address, index, mark.group};
          take_kept(i, mark.group, values);
          values_.emit(plan_->pass_values[pass_], point, values);
          keep(i, mark.group, values);
          IrValues next;
          for (size_t k = 0; k < reductions_.size(); ++k)
            next.push_back(
                reductions_[k].accumulate(carried[k], values.value[spec_.instrs[reductions_[k].instr()].args[0]]));
          if (pass_ + 1 == plan_->passes)
            for (const int store : plan_->full_stores) values_.store(store, point, values);
          return next;
        },
        &mark);
  }

  const LoopSpec& spec_;
  const LoopPlan plain_, keeping_;
  const LoopPlan* plan_ = &plain_;
  llvm::Value* scratch_ = nullptr;
  LoopFrame& frame_;
  llvm::IRBuilder<>& b_;
  ValueEmitter values_;
  std::vector<Reduction> reductions_;
  int pass_ = 0;
};

}  // namespace

void emit_rows(const LoopSpec& spec, const LoopPlan& plan, LoopFrame& frame) { RowsEmitter(spec, plan, frame).run(); }

}  // namespace graphex::codegen
