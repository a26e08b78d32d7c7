// The two shapes of reducing loops, and the accumulators that they share. LLVM only.
#pragma once

#include "graphex/codegen/loop_frame.h"
#include "graphex/codegen/loop_values.h"

namespace graphex::codegen {

void emit_rows(const LoopSpec& spec, const LoopPlan& plan, LoopFrame& frame);
void emit_columns(const LoopSpec& spec, const LoopPlan& plan, LoopFrame& frame);

// One kReduce instruction. Addends gather in an accumulator (f32, or f64 and i64), whose blocks add up to a total in
// f64 or i64; other reductions need no second level.
class Reduction {
 public:
  Reduction(const LoopSpec& spec, int instr, ValueEmitter& values, llvm::IRBuilder<>& builder);
  int instr() const { return instr_; }
  bool blocked() const { return blocked_; }
  llvm::Type* accumulator_type() const;
  llvm::Type* total_type() const;
  llvm::Value* accumulator_start() const { return start(accumulator_); }
  llvm::Value* total_start() const { return start(total_); }
  llvm::Value* accumulate(llvm::Value* accumulator, llvm::Value* arg) const;
  llvm::Value* add_block(llvm::Value* total, llvm::Value* accumulator) const;
  llvm::Value* result(llvm::Value* total) const;

 private:
  enum class Kind { kSum, kProduct, kMax, kMin, kAny, kAll };
  llvm::Value* start(DType dtype) const;
  llvm::Value* combine(llvm::Value* a, llvm::Value* b, DType dtype) const;
  llvm::Value* combine_floats(llvm::Value* a, llvm::Value* b) const;

  int instr_;
  Kind kind_;
  bool blocked_;
  DType arg_, result_, accumulator_, total_;
  ValueEmitter& values_;
  llvm::IRBuilder<>& b_;
};

}  // namespace graphex::codegen
